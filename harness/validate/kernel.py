"""Kernel settings that a node needs, each with its reason: judged as they are, and as the next boot makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.validate.expected import ExpectedGuest

SAME, LEAST, AMONG, PORTS = "=", "at least", "one of", "ports"
OURS, ALL, IPV6, IPVS = "ours", "all", "ipv6", "ipvs"
NODE_PORTS = (30000, 32767)  # Kubernetes' default
ENOUGH_PORTS = 10000  # for connections from the machine


@dataclass(frozen=True)
class KernelRule:
    """What a kernel setting must be, and why. `*` in its name stands for any network interface.

    kind: how the value is compared.  needed: whether the setting has to exist.
    where: ALL nodes; IPV6: of clusters with that family; IPVS: where kube-proxy uses it; OURS: of products that say
    what machines boot with (`boot_modules`): others decide otherwise, too.
    """

    setting: str
    kind: str
    value: tuple[int, ...]
    why: str
    where: str = ALL
    needed: bool = False

    def wrong(self, text: str) -> str:
        """Return what is expected of a value that is wrong, "" of a right one."""
        numbers = [int(word) for word in text.split() if word.lstrip("-").isdigit()]
        if self.kind == PORTS:
            return "" if not numbers else _wrong_ports(numbers)
        number = numbers[0] if numbers else None
        right = {
            SAME: number == self.value[0],
            LEAST: number is not None and (number >= self.value[0]),
            AMONG: number in self.value,
        }[self.kind]
        words = " or ".join(map(str, self.value))
        return "" if right else repr(words) if self.kind == SAME else f"{self.kind} {words}"


def _wrong_ports(numbers: Sequence[int]) -> str:
    first, last = numbers[0], numbers[-1]
    if first <= NODE_PORTS[1] and last >= NODE_PORTS[0]:
        return f"a range without the NodePorts {NODE_PORTS[0]} to {NODE_PORTS[1]}"
    return f"{ENOUGH_PORTS} ports and more" if last - first < ENOUGH_PORTS else ""


# kubernetes.io, "Container runtimes" (network configuration); sysctl.d of containerd and CRI-O; kubelet's own
# (pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables); the kernel's documentation (admin-guide/sysctl): its
# own defaults are the least values here.
KERNEL: tuple[KernelRule, ...] = (
    KernelRule("net.ipv4.ip_forward", SAME, (1,), "packets of pods pass the machine", needed=True),
    KernelRule("net.bridge.bridge-nf-call-iptables", SAME, (1,), "Services for pods on one bridge", needed=True),
    KernelRule("net.ipv6.conf.all.forwarding", SAME, (1,), "packets of pods pass the machine", IPV6, needed=True),
    KernelRule("net.bridge.bridge-nf-call-ip6tables", SAME, (1,), "Services for pods on one bridge", IPV6, needed=True),
    KernelRule("net.ipv4.conf.*.forwarding", SAME, (1,), "packets of pods pass each interface"),
    KernelRule("net.ipv6.conf.*.forwarding", SAME, (1,), "packets of pods pass each interface", IPV6),
    KernelRule("net.ipv6.conf.*.disable_ipv6", SAME, (0,), "interfaces have addresses of IPv6", IPV6),
    KernelRule("net.ipv4.conf.*.rp_filter", AMONG, (0, 2), "answers may come another way than requests go", OURS),
    KernelRule("net.ipv4.conf.*.arp_ignore", AMONG, (0, 1, 2), "machines are asked for their addresses"),
    KernelRule("net.ipv4.conf.*.arp_filter", SAME, (0,), "machines are asked for their addresses", OURS),
    KernelRule("net.ipv4.conf.*.drop_gratuitous_arp", SAME, (0,), "addresses of load balancers move"),
    KernelRule("net.ipv4.ip_local_port_range", PORTS, (), "connections must not take the port of a Service"),
    KernelRule("net.ipv4.ip_default_ttl", LEAST, (32,), "packets pass several hosts"),
    KernelRule("net.ipv4.ipfrag_high_thresh", LEAST, (262144,), "tunnels put pieces of packets together"),
    KernelRule("net.ipv4.neigh.default.gc_thresh1", LEAST, (128,), "neighbours of all nodes and pods"),
    KernelRule("net.ipv4.neigh.default.gc_thresh2", LEAST, (512,), "neighbours of all nodes and pods"),
    KernelRule("net.ipv4.neigh.default.gc_thresh3", LEAST, (1024,), "neighbours of all nodes and pods"),
    KernelRule("net.ipv6.neigh.default.gc_thresh3", LEAST, (1024,), "neighbours of all nodes and pods", IPV6),
    KernelRule("net.ipv4.tcp_max_syn_backlog", LEAST, (128,), "connections wait to be accepted"),
    KernelRule("net.ipv4.vs.conntrack", SAME, (1,), "kube-proxy masks addresses", IPVS),
    KernelRule("net.core.somaxconn", LEAST, (128,), "connections wait to be accepted"),
    KernelRule("net.core.netdev_max_backlog", LEAST, (1000,), "packets wait for the processor"),
    KernelRule("net.core.rmem_max", LEAST, (131072,), "packets wait for programs"),
    KernelRule("net.core.wmem_max", LEAST, (131072,), "packets wait to be sent"),
    KernelRule("net.unix.max_dgram_qlen", LEAST, (10,), "programs write to the journal"),
    KernelRule("net.netfilter.nf_conntrack_max", LEAST, (65536,), "connections to Services are remembered"),
    KernelRule("net.netfilter.nf_conntrack_buckets", LEAST, (8192,), "connections to Services are found quickly"),
    KernelRule("fs.inotify.max_user_watches", LEAST, (8192,), "kubelet and pods watch files"),
    KernelRule("fs.inotify.max_user_instances", LEAST, (128,), "kubelet and pods watch files"),
    KernelRule("fs.inotify.max_queued_events", LEAST, (16384,), "kubelet and pods watch files"),
    KernelRule("fs.file-max", LEAST, (65536,), "files of all programs"),
    KernelRule("fs.nr_open", LEAST, (1048576,), "the limit that containerd and CRI-O ask for"),
    KernelRule("fs.mount-max", LEAST, (10000,), "each container has mounts of its own"),
    KernelRule("kernel.pid_max", LEAST, (32768,), "processes of all containers"),
    KernelRule("kernel.threads-max", LEAST, (8192,), "threads of all containers"),
    KernelRule("kernel.modules_disabled", SAME, (0,), "kube-proxy and network plugins load modules"),
    KernelRule("kernel.keys.maxkeys", LEAST, (200,), "each container has a keyring"),
    KernelRule("kernel.keys.maxbytes", LEAST, (20000,), "each container has a keyring"),
    KernelRule("kernel.keys.root_maxkeys", SAME, (1000000,), "kubelet sets it, or asks for it (protectKernelDefaults)"),
    KernelRule("kernel.keys.root_maxbytes", SAME, (25000000,), "kubelet sets it, or asks for it"),
    KernelRule("kernel.panic", SAME, (10,), "kubelet sets it, or asks for it"),
    KernelRule("kernel.panic_on_oops", SAME, (1,), "kubelet sets it, or asks for it"),
    KernelRule("vm.overcommit_memory", SAME, (1,), "kubelet sets it, or asks for it"),
    KernelRule("vm.panic_on_oom", SAME, (0,), "kubelet sets it, or asks for it"),
    KernelRule("vm.max_map_count", LEAST, (65530,), "programs map files"),
    *(
        KernelRule(f"user.max_{kind}_namespaces", LEAST, (1024,), "each pod and container has namespaces")
        for kind in ("net", "mnt", "pid", "ipc", "uts", "cgroup")
    ),
)
RESERVED = "net.ipv4.ip_local_reserved_ports"  # ports of the range that connections do not take


def kernel_settings(expected: ExpectedGuest) -> dict[str, str]:
    """Return what kubelet and the pod networks need of the kernel, and products set."""
    return {rule.setting: str(rule.value[0]) for rule in KERNEL if rule.needed and applies(rule, expected)}


def applies(rule: KernelRule, expected: ExpectedGuest) -> bool:
    """Tell whether a rule is for a cell."""
    cases = {
        ALL: True,
        IPV6: expected.ipv6,
        IPVS: expected.kube_proxy_mode == "ipvs",
        OURS: expected.leaves.boot_modules is not None,
    }
    return cases[rule.where]
