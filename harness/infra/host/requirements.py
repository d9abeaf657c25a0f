"""What the embedded infrastructure needs of this host: programs with the packages they come in, kernel features.

Everything is probed by doing it, in namespaces that vanish with the probe: a device file, a module's name or a
configuration option says little about what works.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from harness import proc

PROBE_SECONDS = 30.0  # against hanging: one local command each
PROBES_AT_ONCE = 8


@dataclass(frozen=True)
class Requirement:
    """Something that this host must have: what, why, a command that succeeds if it does, a command that installs it."""

    what: str
    why: str
    probe: tuple[str, ...]
    remedy: str

    def met(self) -> bool:
        """Tell whether this host has it."""
        try:
            return proc.run(self.probe, timeout=PROBE_SECONDS, check=False).returncode == 0
        except proc.CommandFailed:
            return False


def _program(name: str, package: str, why: str, *arguments: str) -> Requirement:
    probe = (name, *(arguments or ("--version",)))
    return Requirement(name, why, probe, f"apt-get install --yes {package}")


PROGRAMS: tuple[Requirement, ...] = (
    _program("systemd-nspawn", "systemd-container", "it boots machines"),
    _program("ip", "iproute2", "it creates the machines' networks", "-V"),
    _program("nft", "nftables", "it isolates machines of different namespaces"),
    _program("unshare", "util-linux", "it gives probes and image builds their own namespaces"),
    _program("nsenter", "util-linux", "it opens a machine's cgroups from outside"),
    _program("mount", "mount", "it mounts machines' disks"),
    _program("losetup", "mount", "machines' disks are loop devices"),
    _program("sfdisk", "fdisk", "it partitions and grows disks"),
    _program("mke2fs", "e2fsprogs", "it creates disk images", "-V"),
    Requirement(  # it has no option that only prints its version
        "resize2fs",
        "it grows disks",
        ("sh", "-c", "command -v resize2fs"),
        "apt-get install --yes e2fsprogs",
    ),
    _program("e2fsck", "e2fsprogs", "it checks disks before they grow", "-V"),
    _program("qemu-img", "qemu-utils", "it converts disk images"),
    _program("ssh", "openssh-client", "it connects to machines", "-V"),
)

BUILDERS: tuple[Requirement, ...] = (
    _program("mmdebstrap", "mmdebstrap", "it builds disk images"),
    _program("setpriv", "util-linux", "it ends a build with the process that started it"),
    _program("pkg-config", "pkg-config", "it finds libseccomp for runc"),
    Requirement(
        "libseccomp",
        "runc needs it: kubeadm's static pods ask for seccomp",
        ("pkg-config", "--exists", "libseccomp"),
        "apt-get install --yes libseccomp-dev",
    ),
)


def _in_netns(script: str) -> tuple[str, ...]:
    return ("unshare", "--net", "sh", "-e", "-c", script)


def _in_mounts(script: str) -> tuple[str, ...]:
    return ("unshare", "--mount", "--propagation", "private", "sh", "-e", "-c", script)


_LOOP_PROBE = """
mount -t tmpfs none /mnt
truncate -s 4M /mnt/disk
mke2fs -q -t ext4 /mnt/disk
mkdir /mnt/root
mount -t ext4 -o loop /mnt/disk /mnt/root
umount /mnt/root
"""
_OVERLAY_PROBE = """
mount -t tmpfs none /mnt
mkdir /mnt/a /mnt/b /mnt/w /mnt/m
mount -t overlay -o lowerdir=/mnt/a,upperdir=/mnt/b,workdir=/mnt/w none /mnt/m
"""
_BRIDGE_PROBE = """
ip link add br0 type bridge
ip link add v0 type veth peer name v1
ip link set v0 master br0
nft add table bridge probe
nft add chain bridge probe c '{ type filter hook forward priority 0; }'
nft add rule bridge probe c ip daddr 10.0.0.1 drop
"""
_FILTER_PROBE = """
nft add table inet probe
nft add chain inet probe c '{ type filter hook input priority 0; }'
nft add rule inet probe c iifname "vmx0h*" tcp flags '& (syn | ack) != syn' accept
"""
_NAT_PROBE = """
nft add table ip probe
nft add chain ip probe c '{ type nat hook postrouting priority 100; }'
nft add rule ip probe c ip daddr 10.0.0.1 masquerade
"""
_VXLAN_PROBE = "ip link set lo up; ip link add vx0 type vxlan id 1 dstport 4789 dev lo"
_CGROUP_PROBE = """
group=/sys/fs/cgroup/vmatrix-probe-$$
[ -f /sys/fs/cgroup/cgroup.controllers ] || group=/sys/fs/cgroup/memory/vmatrix-probe-$$
mkdir "$group"
rmdir "$group"
"""

KERNEL: tuple[Requirement, ...] = (
    Requirement("a loop device with ext4", "machines boot from disk files", _in_mounts(_LOOP_PROBE), "modprobe loop"),
    Requirement(
        "overlayfs in the kernel", "containers in the machines use it", _in_mounts(_OVERLAY_PROBE), "modprobe overlay"
    ),
    Requirement(
        "a filtering network bridge in the kernel",
        "it connects and isolates machines",
        _in_netns(_BRIDGE_PROBE),
        "modprobe --all bridge veth nf_tables nft_meta_bridge",
    ),
    Requirement(
        "a packet filter for IPv4 and IPv6 in the kernel",
        "it keeps machines from this host",
        _in_netns(_FILTER_PROBE),
        "modprobe nf_tables",
    ),
    Requirement(
        "NAT by nf_tables in the kernel",
        "kube-proxy in the machines uses it",
        _in_netns(_NAT_PROBE),
        "modprobe --all nft_nat nft_masq",
    ),
    Requirement(
        "VXLAN in the kernel", "pod networks in the machines use it", _in_netns(_VXLAN_PROBE), "modprobe vxlan"
    ),
    Requirement(
        "a writable cgroup tree",
        "cgroups limit each machine's memory and CPU time",
        ("sh", "-e", "-c", _CGROUP_PROBE),
        "mount -t cgroup2 none /sys/fs/cgroup  # in a container: start it with --privileged --cgroupns=host",
    ),
)


def unmet(requirements: Sequence[Requirement]) -> list[Requirement]:
    """Return those that are not met, in order."""
    with ThreadPoolExecutor(PROBES_AT_ONCE) as pool:
        met = pool.map(Requirement.met, requirements)
        return [requirement for requirement, is_met in zip(requirements, met, strict=True) if not is_met]
