"""What must be true of every machine of a guest, judged from its facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from harness.validate.facts.certificates import expiring
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.judge.mismatch import Mismatch, differs, on_every, same_set

Facts = Mapping[str, NodeFacts]

SERVICES = ("kubelet.service", "containerd.service")
CNI_PLUGINS = ("bridge", "host-local", "loopback", "portmap")
# What kubelet and the pod network need of the kernel (kubernetes.io, "Container runtimes": network configuration).
SYSCTLS = {"net.ipv4.ip_forward": "1", "net.bridge.bridge-nf-call-iptables": "1"}
CERTIFICATE_MARGIN = timedelta(days=30)  # kubeadm issues for a year (its CA for ten): a fresh guest is far above this
CLOCK_MARGIN_SECONDS = 10.0  # machines are asked at the same time, and an overloaded one may answer seconds later
KUBELET_CLIENT = "/var/lib/kubelet/pki/kubelet-client-current.pem"
API_SERVER = "/etc/kubernetes/pki/apiserver.crt"
NFTABLES_TABLE = "table ip kube-proxy"
SYSTEM_STATES = frozenset({"running", "degraded", "starting"})
DELETED = " (deleted)"
CONTROL_PLANE_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def stopped_services(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the services that do not run now or would not run after a reboot."""

    def judge(name: str, seen: NodeFacts) -> list[Mismatch]:
        found: list[Mismatch] = []
        for service in SERVICES:
            unit = seen.units.get(service)
            states = (unit.active, unit.sub, unit.enabled) if unit else ("absent",)
            found += differs(f"{name} {service}", "state", ("active", "running", "enabled"), states)
        return found

    return on_every(expected.nodes, facts, judge)


def failed_units(facts: Facts, expected: ExpectedGuest, allowed: Mapping[str, str]) -> list[Mismatch]:
    """Return the units that systemd holds to have failed, but for the allowed ones (unit -> why it may)."""

    def judge(name: str, seen: NodeFacts) -> list[Mismatch]:
        found = [] if seen.system_state in SYSTEM_STATES else differs(name, "systemd", "running", seen.system_state)
        bad = sorted(set(seen.failed_units) - set(allowed))
        return found + differs(name, "failed units", [], bad)

    return on_every(expected.machines, facts, judge)


def wrong_binaries(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the installed programs that have another version than expected, or are not there."""
    wanted = {
        "kubelet": expected.kubernetes,
        "kubeadm": expected.kubernetes,
        "kubectl": expected.kubernetes,
        expected.runtime: expected.runtime_version,
        "runc": expected.runc,
    }

    def judge(name: str, seen: NodeFacts) -> list[Mismatch]:
        found: list[Mismatch] = []
        for program, version in wanted.items():
            found += differs(f"{name} {program}", "version", version, seen.versions.get(program, ""))
        for plugin in CNI_PLUGINS:
            version_seen = seen.cni_plugins.get(plugin, "")
            found += differs(f"{name} CNI plugin {plugin}", "version", expected.cni_plugins, version_seen)
        return found

    return on_every(expected.nodes, facts, judge)


def replaced_binaries(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the services whose file was replaced under them: they still run the old version."""

    def judge(name: str, seen: NodeFacts) -> list[Mismatch]:
        found: list[Mismatch] = []
        for program in ("kubelet", expected.runtime):
            running = seen.running(program)
            found += differs(f"{name} {program}", "running processes", 1, len(running))
            found += [
                Mismatch(f"{name} {program}", "a process that runs the installed file", process.executable)
                for process in running
                if process.executable.endswith(DELETED)
            ]
        return found

    return on_every(expected.nodes, facts, judge)


def misplaced_processes(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where the control plane or etcd does not run, runs twice, or runs without belonging there."""

    def judge(name: str, seen: NodeFacts) -> list[Mismatch]:
        found: list[Mismatch] = []
        for program in (*CONTROL_PLANE_PROGRAMS, "etcd"):
            group = expected.etcd if program == "etcd" else expected.control_plane
            count = len(seen.running(program))
            found += differs(f"{name} {program}", "running processes", int(name in group), count)
        return found

    return on_every(expected.machines, facts, judge)


def wrong_manifests(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where the static pods' manifests are not exactly those of the machine's role."""
    of_control_plane = {f"{program}.yaml" for program in CONTROL_PLANE_PROGRAMS}
    if expected.stacked_etcd:
        of_control_plane.add("etcd.yaml")

    def judge(name: str, seen: NodeFacts) -> list[Mismatch]:
        wanted = of_control_plane if name in expected.control_plane else set()
        return same_set(f"{name} /etc/kubernetes/manifests", "static pods", wanted, seen.manifests)

    return on_every(expected.nodes, facts, judge)


def wrong_flags(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the flags of running processes that are not what the cell asked for."""
    wanted = {
        "kube-apiserver": {
            "service-cluster-ip-range": expected.service_cidr,
            "authorization-mode": "Node,RBAC",
            "client-ca-file": "/etc/kubernetes/pki/ca.crt",
        },
        "kube-controller-manager": {
            "cluster-cidr": expected.pod_cidr,
            "service-cluster-ip-range": expected.service_cidr,
            "allocate-node-cidrs": "true",
            "use-service-account-credentials": "true",
        },
        "kube-scheduler": {"leader-elect": "true"},
        "etcd": {"client-cert-auth": "true", "peer-client-cert-auth": "true"},
        "kubelet": {"config": "/var/lib/kubelet/config.yaml", "kubeconfig": "/etc/kubernetes/kubelet.conf"},
    }

    def judge(name: str, seen: NodeFacts) -> list[Mismatch]:
        found: list[Mismatch] = []
        for program, flags in wanted.items():
            for process in seen.running(program):
                for flag, value in flags.items():
                    found += differs(f"{name} {program}", f"--{flag}", value, process.flag(flag))
        return found

    found = on_every(expected.machines, facts, judge)
    seen_programs = {process.name for seen in facts.values() for process in seen.processes}
    return found + same_set("the cluster", "running programs", wanted, seen_programs & set(wanted))


def wrong_kernel_settings(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return kernel settings that are not as needed, and swap that is on."""

    def judge(name: str, seen: NodeFacts) -> list[Mismatch]:
        found: list[Mismatch] = []
        for setting, value in SYSCTLS.items():
            found += differs(name, setting, value, seen.sysctls.get(setting, ""))
        return found + differs(name, "swap", (), seen.swaps)

    return on_every(expected.nodes, facts, judge)


def bad_certificates(facts: Facts, expected: ExpectedGuest, now: datetime | None = None) -> list[Mismatch]:
    """Return certificates that end soon, are missing, or name somebody else."""
    moment = now or datetime.now(UTC)

    def judge(name: str, seen: NodeFacts) -> list[Mismatch]:
        found = expiring(name, seen.certificates, now=moment, margin=CERTIFICATE_MARGIN)
        by_path = {certificate.path: certificate for certificate in seen.certificates}
        client = by_path.get(KUBELET_CLIENT)
        subject = f"CN=system:node:{name},O=system:nodes"
        found += differs(f"{name} {KUBELET_CLIENT}", "subject", subject, client.subject if client else None)
        if name in expected.control_plane:
            serving = by_path.get(API_SERVER)
            names = set(serving.names) if serving else set()
            missing = sorted({name, expected.addresses[name], f"kubernetes.default.svc.{expected.dns_domain}"} - names)
            found += differs(f"{name} {API_SERVER}", "names it lacks", [], missing)
        return found

    return on_every(expected.nodes, facts, judge)


def confused_identities(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return machines that share an id (a clone whose id was not reset), have a foreign name or a wrong clock."""
    ids = Counter(seen.machine_id for seen in facts.values())
    earliest = min((seen.time for seen in facts.values()), default=0.0)

    def judge(name: str, seen: NodeFacts) -> list[Mismatch]:
        found = differs(name, "hostname", name, seen.hostname)
        if not seen.machine_id or ids[seen.machine_id] > 1:
            found.append(Mismatch(name, "a machine-id of its own", repr(seen.machine_id)))
        if seen.time - earliest > CLOCK_MARGIN_SECONDS:
            ahead = f"{seen.time - earliest:.0f} s ahead"
            found.append(Mismatch(name, f"a clock within {CLOCK_MARGIN_SECONDS:.0f} s of the others", ahead))
        return found

    return on_every(expected.machines, facts, judge)


def unhealthy_agents(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return kubelets and kube-proxies that do not call themselves healthy."""

    def judge(name: str, seen: NodeFacts) -> list[Mismatch]:
        found: list[Mismatch] = []
        for agent in ("kubelet", "kube-proxy"):
            answer = seen.endpoints[agent]
            if answer.status != 200:
                found.append(Mismatch(f"{name} {agent} /healthz", "200", f"{answer.status} {answer.body[:200]}"))
        return found

    return on_every(expected.nodes, facts, judge)


def wrong_proxy_mode(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where the running kube-proxy is in another mode than asked for, or left no rules of that mode."""

    def judge(name: str, seen: NodeFacts) -> list[Mismatch]:
        answer = seen.endpoints["kube-proxy mode"]
        found = differs(f"{name} kube-proxy", "mode", expected.kube_proxy_mode, answer.body)
        if expected.kube_proxy_mode == "nftables" and NFTABLES_TABLE not in seen.nft_tables:
            found.append(Mismatch(name, f"nftables' {NFTABLES_TABLE!r}", repr(seen.nft_tables)))
        return found

    return on_every(expected.nodes, facts, judge)
