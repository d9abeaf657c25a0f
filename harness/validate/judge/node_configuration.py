"""How every machine of a guest must be configured: flags, kernel, certificates, identity, kube-proxy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from harness.validate.facts.expected import CONTROL_PLANE_PROGRAMS, LEFT_OUT, PROXY_MODES, ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.judge.finding import lasting, together, unjudged
from harness.validate.judge.layout import absent
from harness.validate.judge.mismatch import Mismatch, differs, of_each, on_every, same_set

Facts = Mapping[str, NodeFacts]

# What kubelet and the pod network need of the kernel (kubernetes.io, "Container runtimes": network configuration).
BRIDGED = "net.bridge."  # settings that are there only where a bridge is used
SYSCTLS = {"net.ipv4.ip_forward": "1", "net.bridge.bridge-nf-call-iptables": "1"}
OF_IPV6 = {"net.ipv6.conf.all.forwarding": "1", "net.bridge.bridge-nf-call-ip6tables": "1"}  # of a cluster that has it
CERTIFICATE_MARGIN = timedelta(days=30)  # kubeadm issues for a year (its CA for ten): a fresh guest is far above this
KUBELET_CLIENT, API_SERVER = "kubelet's client", "API server"  # whose certificates, as on_node_facts.py calls them
OK = 200
NFTABLES_TABLES = {4: "table ip kube-proxy", 6: "table ip6 kube-proxy"}  # by IP version
MODES = {"Node", "RBAC"}  # of authorization; a webhook may be added
DEFAULTS = {"leader-elect": "true"}  # of flags that need not be given
ANY = object()  # some value, of a file that the product does not name


def wrong_flags(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the flags of running processes that are not what the cell asked for."""
    every = _wanted_flags(expected)
    found: list[Mismatch] = []
    for program in (*CONTROL_PLANE_PROGRAMS, "etcd", "kubelet"):
        said = (
            expected.leaves.kubelet.unit is not None if program == "kubelet" else expected.static(program) is not None
        )
        if not said and absent(facts, program):
            found.append(unjudged(f"the flags of {program}", "no process of that name runs"))
            del every[program]
    missing = [flag for flags in every.values() for flag, value in flags.items() if value == ""]
    found += [unjudged(f"--{flag}", "the cell's variables do not say what it should be") for flag in missing]

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        for program, flags in every.items():
            for process in seen.running(program):
                for flag, value in flags.items():
                    if value != "":
                        yield from _wrong_flag(f"{name} {program}", flag, value, process.flag(flag))

    seen_programs = {process.name for seen in facts.values() for process in seen.processes}
    judged = on_every(expected.machines, facts, judge)
    judged += same_set("the cluster", "running programs", every, seen_programs & set(every))
    return together(judged, _other_environment(facts, expected), found) if every else together(found)


def _wanted_flags(expected: ExpectedGuest) -> dict[str, dict[str, object]]:
    """Return the flags that programs must have; "" for what nobody says."""
    leaves = expected.leaves
    own = {"cluster-cidr": expected.pod_cidrs, "allocate-node-cidrs": "true"}
    return {
        "kube-apiserver": {
            "service-cluster-ip-range": expected.service_cidrs,
            "authorization-mode": MODES,
            "client-ca-file": f"{leaves.certificates}/ca.crt" if leaves.certificates is not None else ANY,
        },
        "kube-controller-manager": {
            # a plugin that nobody describes may give addresses to pods by itself
            **(own if expected.plugin is not None else {}),
            "service-cluster-ip-range": expected.service_cidrs,
            "use-service-account-credentials": "true",
        },
        "kube-scheduler": {"leader-elect": "true"},
        "etcd": {"client-cert-auth": "true", "peer-client-cert-auth": "true"},
        "kubelet": {"config": leaves.kubelet.config or ANY, "kubeconfig": leaves.kubelet.kubeconfig or ANY},
    }


def _wrong_flag(where: str, flag: str, wanted: object, seen: str | None) -> list[Mismatch]:
    if wanted is ANY:
        return [] if seen else [Mismatch(where, f"--{flag} with a value", repr(seen))]
    if isinstance(wanted, set):
        modes = set((seen or "").split(","))
        return (
            []
            if wanted <= modes <= wanted | {"Webhook"}
            else differs(where, f"--{flag}", ",".join(sorted(wanted)), seen)
        )
    value = seen if seen is not None else DEFAULTS.get(flag)
    return differs(where, f"--{flag}", wanted, value.lower() if wanted == "true" and value is not None else value)


def _other_environment(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where the running etcd has other variables than the product's file for it: it was not restarted."""
    file = expected.leaves.etcd.environment_file
    if file is None:
        return []

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        if not seen.environment:
            yield Mismatch(f"{name} {file}", "ETCD_* variables", repr(seen.environment))
            return
        for process in seen.running("etcd"):
            running = {key: process.settings.get(key) for key in seen.environment}
            for key, value in seen.environment.items():
                yield from differs(f"{name} etcd", f"{key} as in {file}", value, running[key])

    return on_every(expected.etcd, facts, judge)


def kernel_settings(expected: ExpectedGuest) -> dict[str, str]:
    """Return what kubelet and the pod networks need of the kernel."""
    return {**SYSCTLS, **(OF_IPV6 if expected.ipv6 else {})}


@of_each("nodes")
def wrong_kernel_settings(name: str, seen: NodeFacts, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return kernel settings that are not as needed, and swap that is on."""
    for setting, value in kernel_settings(expected).items():
        if expected.plugin is None and setting.startswith(BRIDGED) and not seen.sysctls.get(setting):
            yield unjudged(setting, f"nobody describes the network plugin {expected.network_plugin!r}")
            continue
        yield from differs(name, setting, value, seen.sysctls.get(setting, ""))
    yield from differs(name, "swap", (), seen.swaps)


def bad_certificates(facts: Facts, expected: ExpectedGuest, now: datetime | None = None) -> list[Mismatch]:
    """Return certificates that expire soon, are missing, or have another subject or other names than expected."""
    earliest = (now or datetime.now(UTC)) + CERTIFICATE_MARGIN

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        by_path = {certificate.path: certificate for certificate in seen.certificates}
        for path, certificate in by_path.items():
            if certificate.not_after < earliest:
                wanted = f"{path} ({certificate.subject}) valid for {CERTIFICATE_MARGIN.days} more days"
                yield Mismatch(name, wanted, f"it expires {certificate.not_after:%Y-%m-%d %H:%M} UTC")
        path = client_path or seen.whose_certificates.get(KUBELET_CLIENT, "")
        client = by_path.get(path)
        subject = f"CN=system:node:{name},O=system:nodes"
        if "kubelet" in judged and name in expected.nodes:
            whose = f"{name} {path or KUBELET_CLIENT}"
            yield from differs(whose, "subject", subject, client.subject if client else None)
        if name in expected.control_plane and "kube-apiserver" in judged:
            path = serving_path or seen.whose_certificates.get(API_SERVER, "")
            serving = by_path.get(path)
            names = set(serving.names) if serving else set()
            missing = sorted(
                {name, *expected.addresses_of(name), f"kubernetes.default.svc.{expected.dns_domain}"} - names
            )
            yield from differs(f"{name} {path or API_SERVER}", "missing names", [], missing)

    leaves = expected.leaves
    client_path = leaves.kubelet.client_certificate
    serving_path = f"{leaves.certificates}/apiserver.crt" if leaves.certificates is not None else None
    said = {"kubelet": client_path, "kube-apiserver": serving_path}
    judged = {program for program, path in said.items() if path is not None or not absent(facts, program)}
    why = "no process of that name runs, and product.yml does not say where it is"
    unknown: list[Mismatch] = [unjudged(f"the certificate of {program}", why) for program in sorted(set(said) - judged)]
    every = on_every(expected.machines, facts, judge)
    seen_any = any(seen.certificates for seen in facts.values())
    return together(every, unknown) if judged or seen_any or not facts else together(unknown)


def confused_identities(facts: Facts, expected: ExpectedGuest, clock_margin: float) -> list[Mismatch]:
    """Return machines with another's hostname, a shared machine-id (a clone that was not reset) or a wrong clock.

    Args:
        clock_margin: seconds that a clock may differ from the harness's, beyond what a late answer explains.
    """
    ids = Counter(seen.machine_id for seen in facts.values())

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        yield from differs(name, "hostname", name, seen.hostname)
        if not seen.machine_id or ids[seen.machine_id] > 1:
            yield Mismatch(name, "a unique machine-id", repr(seen.machine_id))
        clock = f"a clock within {clock_margin:.0f} s of this host's"
        if seen.clock.least > clock_margin:
            yield Mismatch(name, clock, f"at least {seen.clock.least:.0f} s ahead")
        if seen.clock.most < -clock_margin:
            yield Mismatch(name, clock, f"at least {-seen.clock.most:.0f} s behind")

    return on_every(expected.machines, facts, judge)


@of_each("nodes")
def running_proxies(name: str, seen: NodeFacts, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return the nodes that run kube-proxy, or have its rules, although the cell leaves it out."""
    if seen.running("kube-proxy"):
        yield Mismatch(name, "no kube-proxy: the cell leaves it out", "it runs")
    for table in {*NFTABLES_TABLES.values()} & set(seen.nft_tables):
        yield Mismatch(name, f"no {table!r}: the cell leaves out kube-proxy", "it exists")


def wrong_proxy_mode(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where the running kube-proxy is in another mode than expected, or has written no rules of that mode."""
    if expected.kube_proxy_mode == LEFT_OUT:
        return running_proxies(facts, expected)
    if expected.kube_proxy_mode not in PROXY_MODES:
        why = f"{expected.kube_proxy_mode!r} is none of {', '.join(PROXY_MODES)}"
        return [unjudged("kube-proxy's mode", why, whole=True)]

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        answer = seen.endpoints["kube-proxy mode"]
        wrong = differs(f"{name} kube-proxy", "mode", expected.kube_proxy_mode, answer.body)
        yield from lasting(wrong) if answer.status == OK else wrong
        for table in (NFTABLES_TABLES[one.version] for one in expected.families):
            if expected.kube_proxy_mode == "nftables" and table not in seen.nft_tables:
                yield Mismatch(name, f"nftables' {table!r}", repr(seen.nft_tables))

    return on_every(expected.nodes, facts, judge)
