"""What the embedded infrastructure needs of this host: programs with the packages they come in, kernel features.

Everything is probed by doing it, in namespaces that vanish with the probe: a device file, a module's name or a
configuration option says little about what works.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness import proc

PROBE_SECONDS = 30.0


@dataclass(frozen=True)
class Requirement:
    """Something that must be there: what it is, why, a command that succeeds if it is, a command that mends it."""

    what: str
    why: str
    probe: tuple[str, ...]
    remedy: str

    def met(self) -> bool:
        """Tell whether it is there."""
        try:
            return proc.run(self.probe, timeout=PROBE_SECONDS, check=False).returncode == 0
        except proc.CommandFailed:
            return False


def _program(name: str, package: str, why: str, *arguments: str) -> Requirement:
    probe = (name, *(arguments or ("--version",)))
    return Requirement(name, why, probe, f"apt-get install --yes {package}")


PROGRAMS: tuple[Requirement, ...] = (
    _program("systemd-nspawn", "systemd-container", "machines are booted with it"),
    _program("ip", "iproute2", "the machines' networks are made with it", "-V"),
    _program("nft", "nftables", "machines of different namespaces are kept apart with it"),
    _program("unshare", "util-linux", "probes and image builds run in namespaces of their own"),
    _program("nsenter", "util-linux", "a machine's control groups are opened from outside"),
    _program("mount", "mount", "machines' disks are mounted with it"),
    _program("losetup", "mount", "machines' disks are loop devices"),
    _program("sfdisk", "fdisk", "disks are partitioned and grown with it"),
    _program("mke2fs", "e2fsprogs", "disk images are made with it", "-V"),
    # It has no option that only tells its version.
    Requirement(
        "resize2fs",
        "disks are grown with it",
        ("sh", "-c", "command -v resize2fs"),
        "apt-get install --yes e2fsprogs",
    ),
    _program("e2fsck", "e2fsprogs", "disks are checked with it before they are grown", "-V"),
    _program("qemu-img", "qemu-utils", "disk images are converted with it"),
    _program("ssh", "openssh-client", "machines are logged in to with it", "-V"),
)

BUILDERS: tuple[Requirement, ...] = (
    _program("mmdebstrap", "mmdebstrap", "disk images are built with it"),
    _program("setpriv", "util-linux", "a build ends with the process that started it"),
    _program("pkg-config", "pkg-config", "runc finds libseccomp with it"),
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
        "machines are connected, and kept apart, by one",
        _in_netns(_BRIDGE_PROBE),
        "modprobe --all bridge veth nf_tables nft_meta_bridge",
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
        "a writable control group tree",
        "each machine's memory and CPU time are limited by one",
        ("sh", "-e", "-c", _CGROUP_PROBE),
        "mount -t cgroup2 none /sys/fs/cgroup  # in a container: start it with --privileged --cgroupns=host",
    ),
)


def missing(*, build_images: bool = True) -> list[Requirement]:
    """Return what this host lacks.

    Kernel features are only probed once every program is there, because the probes are made of them.

    Args:
        build_images: disk images are to be built on this host.
    """
    programs = [*PROGRAMS, *(BUILDERS if build_images else ())]
    return unmet(programs) or unmet(KERNEL)


def unmet(requirements: Sequence[Requirement]) -> list[Requirement]:
    """Return those that are not met, in order."""
    return [requirement for requirement in requirements if not requirement.met()]
