"""How every machine of a guest must be configured: flags, kernel, certificates, identity, kube-proxy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from harness.validate.facts.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.judge.mismatch import Mismatch, differs, of_each, on_every, same_set

Facts = Mapping[str, NodeFacts]

# What kubelet and the pod network need of the kernel (kubernetes.io, "Container runtimes": network configuration).
SYSCTLS = {"net.ipv4.ip_forward": "1", "net.bridge.bridge-nf-call-iptables": "1"}
CERTIFICATE_MARGIN = timedelta(days=30)  # kubeadm issues for a year (its CA for ten): a fresh guest is far above this
KUBELET_CLIENT = "/var/lib/kubelet/pki/kubelet-client-current.pem"
API_SERVER = "/etc/kubernetes/pki/apiserver.crt"
NFTABLES_TABLE = "table ip kube-proxy"


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

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        for program, flags in wanted.items():
            for process in seen.running(program):
                for flag, value in flags.items():
                    yield from differs(f"{name} {program}", f"--{flag}", value, process.flag(flag))

    found = on_every(expected.machines, facts, judge)
    seen_programs = {process.name for seen in facts.values() for process in seen.processes}
    return found + same_set("the cluster", "running programs", wanted, seen_programs & set(wanted))


@of_each("nodes")
def wrong_kernel_settings(name: str, seen: NodeFacts, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return kernel settings that are not as needed, and swap that is on."""
    for setting, value in SYSCTLS.items():
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
        client = by_path.get(KUBELET_CLIENT)
        subject = f"CN=system:node:{name},O=system:nodes"
        yield from differs(f"{name} {KUBELET_CLIENT}", "subject", subject, client.subject if client else None)
        if name in expected.control_plane:
            serving = by_path.get(API_SERVER)
            names = set(serving.names) if serving else set()
            missing = sorted({name, expected.addresses[name], f"kubernetes.default.svc.{expected.dns_domain}"} - names)
            yield from differs(f"{name} {API_SERVER}", "missing names", [], missing)

    return on_every(expected.nodes, facts, judge)


def confused_identities(facts: Facts, expected: ExpectedGuest, clock_margin: float) -> list[Mismatch]:
    """Return machines with another's hostname, a shared machine-id (a clone that was not reset) or a wrong clock.

    Args:
        clock_margin: seconds that clocks may differ; all machines are asked at once, and a busy one answers late.
    """
    ids = Counter(seen.machine_id for seen in facts.values())
    earliest = min((seen.time for seen in facts.values()), default=0.0)

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        yield from differs(name, "hostname", name, seen.hostname)
        if not seen.machine_id or ids[seen.machine_id] > 1:
            yield Mismatch(name, "a unique machine-id", repr(seen.machine_id))
        if seen.time - earliest > clock_margin:
            ahead = f"{seen.time - earliest:.0f} s ahead"
            yield Mismatch(name, f"a clock within {clock_margin:.0f} s of the others", ahead)

    return on_every(expected.machines, facts, judge)


@of_each("nodes")
def wrong_proxy_mode(name: str, seen: NodeFacts, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return where the running kube-proxy is in another mode than expected, or has written no rules of that mode."""
    mode = seen.endpoints["kube-proxy mode"].body
    yield from differs(f"{name} kube-proxy", "mode", expected.kube_proxy_mode, mode)
    if expected.kube_proxy_mode == "nftables" and NFTABLES_TABLE not in seen.nft_tables:
        yield Mismatch(name, f"nftables' {NFTABLES_TABLE!r}", repr(seen.nft_tables))
