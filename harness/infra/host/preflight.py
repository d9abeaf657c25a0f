"""Preflight of this host: programs, kernel features, ports, memory and disk that the embedded infrastructure needs.

Everything is probed by doing it, in namespaces that vanish with the probe: a device file, a module's name or a
configuration option says little about what works.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import socket
import sys
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness import paths, pressure, proc
from harness.infra.findings import Finding
from harness.infra.host import network
from harness.pressure import Pressure, this_host

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
    Requirement(
        "OpenSSL 3",
        "it signs for clusters with an external CA",
        ("openssl", "list", "-providers"),  # an older one lists none
        "apt-get install --yes openssl",
    ),
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


IP_FREEBIND = 15  # linux/in.h: bind to an address that the host does not have (yet)
LISTEN = "0A"  # include/net/tcp_states.h
NOWHERE = "10.254.254.254"  # an address that nobody has: only a listener on all addresses conflicts


def port_is_free(address: str, port: int) -> bool:
    """Tell whether a program could listen there, by trying."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_IP, IP_FREEBIND, 1)
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # closed connections do not count
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def port_owner(port: int) -> str:
    """Return "name (pid N)" of a process that listens on the port, "" when it cannot be found."""
    inodes = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listening(Path("/proc/net") / table, port)}
    if not inodes:
        return ""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(handle) in inodes for handle in (folder / "fd").iterdir()):
                return f"{(folder / 'comm').read_text(encoding='utf-8').strip()} (pid {folder.name})"
        except OSError:  # it ended while we looked, or it is not ours to look at
            continue
    return ""


def _listening(table: Path, port: int) -> list[str]:
    """Return the inodes of the sockets that listen on a port, from a table of /proc/net."""
    try:
        rows = [line.split() for line in table.read_text(encoding="utf-8").splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if row[3] == LISTEN and int(row[1].rpartition(":")[2], 16) == port]


MACHINE_GIB = 2.5  # a machine's disk: 1.5 once deployed; after an upgrade 1.7 of a worker, 2.9 of a control plane
GIB = 2**30


def check_memory(needed_mib: int, meminfo: Path = Path("/proc/meminfo"), *, pods_mib: int = 0) -> list[Finding]:
    """Require memory (MiB) that is free or can be freed at once. `pods_mib`: for a machine that runs pods, besides."""
    available = pressure.memory_available_mib(meminfo)
    if available >= needed_mib + pods_mib:
        return []
    of_pods = f", {pods_mib} of them for the machine that runs pods" if pods_mib else ""
    return [
        Finding(
            f"{available} MiB of memory are available",
            f"{needed_mib + pods_mib} MiB are needed{of_pods}",
            "stop other programs, choose a smaller topology, or add memory",
        )
    ]


def advise_load(host: Pressure | None = None) -> list[Finding]:
    """Tell that a host is so busy that waits time out, and by how much to stretch them."""
    measured = host or this_host()
    if not measured.busy:
        return []
    why = "starts, deployments and checks take about as many times longer, and may time out"
    return [Finding(measured.busy, why, f"stop other programs, or run with {measured.option}", fatal=False)]


def advise_pods(needed_mib: int, pods_mib: int, meminfo: Path = Path("/proc/meminfo")) -> list[Finding]:
    """Tell that memory suffices for what is needed (MiB), but not for a machine that runs pods besides."""
    available = pressure.memory_available_mib(meminfo)
    if not needed_mib <= available < needed_mib + pods_mib:
        return []
    return [
        Finding(
            f"{available} MiB of memory are available; with pods {needed_mib + pods_mib} MiB are needed",
            f"cells with `needs: [pods]`, such as the operator's, start a machine of {pods_mib} MiB that runs pods",
            "stop other programs or add memory, or leave such cells out",
            fatal=False,
        )
    ]


def check_disk(folder: Path, needed_gib: float, why: str, *, free_bytes: int | None = None) -> list[Finding]:
    """Require room (GiB) on the file system of a folder that may not exist yet."""
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    free = free_bytes if free_bytes is not None else shutil.disk_usage(existing).free
    if free >= needed_gib * GIB:
        return []
    return [
        Finding(
            f"{free / GIB:.1f} GiB are free below {existing}",
            f"{needed_gib:g} GiB are needed: {why}",
            "free disk space there, or set XDG_CACHE_HOME or XDG_STATE_HOME to move vmatrix's files",
        )
    ]


def check_disks(folder: Path, machines: int, *, free_bytes: int | None = None) -> list[Finding]:
    """Require room for the disks of so many machines: sparse files, which grow as the machines are used."""
    why = f"the disks of {machines} machine{'s' if machines != 1 else ''}, which grow as they are used"
    return check_disk(folder, machines * MACHINE_GIB, why, free_bytes=free_bytes)


PYTHON = (3, 11)
STATE_GIB = 6  # one cell's sparse disks, logs and etcd, with room to spare
CACHE_GIB = 12  # Go's module and build caches, the binaries, images and one disk image, built from nothing
CONTROL_PLANE_MIB = 1536  # control plane, mirror and controllers under load, measured, rounded up
INOTIFY_FOLDER = Path("/proc/sys/fs/inotify")
INOTIFY_LIMITS = {"max_user_instances": (512, 0)}  # systemd, udev, kubelet and containerd of each machine take some
COMPILER = Requirement(
    "C compiler",
    "it builds runc, flannel and pause",
    ("gcc", "--version"),
    "apt-get install --yes gcc libc6-dev",
)


def check_host(
    *,
    address: str | None = None,
    programs: Collection[str] = tuple(network.PORTS),
    memory_mib: int = CONTROL_PLANE_MIB,
    pods_mib: int = 0,
    state: Path | None = None,
    cache: Path | None = None,
    needs_build: bool = True,
) -> list[Finding]:
    """Return what keeps this host from running an embedded infrastructure.

    Args:
        address: the address whose ports must be free; None when the instance will get a fresh one.
        programs: those that will be started, whose ports must be free.
        memory_mib: the memory that must be free.
        pods_mib: the same for a machine that runs pods, besides.
        state, cache: folders whose file systems need room; by default those of vmatrix.
        needs_build: whether the artifacts have to be made first, which takes more room.
    """
    state = state if state is not None else paths.state_dir()
    cache = cache if cache is not None else paths.cache_dir()
    return [
        *check_root(),
        *check_python(),
        *check_programs(needs_build=needs_build),
        *check_inotify(),
        *check_ports({name: network.PORTS[name] for name in programs}, address),
        *check_memory(memory_mib, pods_mib=pods_mib),
        *advise_load(),
        *check_disk(state, STATE_GIB, "machines' disks are stored there"),
        *(check_disk(cache, CACHE_GIB, "binaries and images are built there") if needs_build else []),
    ]


def check_root(effective_user: int | None = None) -> list[Finding]:
    """Require root: mounts, loop devices, control groups and network namespaces are root's to make."""
    user = effective_user if effective_user is not None else os.geteuid()
    if user == 0:
        return []
    return [
        Finding(
            f"this is user {user}, not root",
            "machines need mounts, loop devices, cgroups and network namespaces",
            "run the same command as root: sudo -E vmatrix ...",
        )
    ]


def check_python(version: tuple[int, ...] = sys.version_info[:2], system: str = platform.system()) -> list[Finding]:
    """Require Linux and the oldest Python that the harness is tested with."""
    answer = []
    if system != "Linux":
        answer.append(Finding(f"this is {system}", "machines are Linux containers", "use a Linux host"))
    if version < PYTHON:
        running, least = (".".join(str(v) for v in numbers) for numbers in (version, PYTHON))
        answer.append(
            Finding(
                f"this is Python {running}", f"Python {least} or later is needed", f"apt-get install -y python{least}"
            )
        )
    return answer


def check_programs(*, needs_build: bool = True) -> list[Finding]:
    """Require the programs that machines (and, if they are still to be built, artifacts and disk images) are made with.

    Features of the kernel are only looked at by root, and once no program is missing: the probes use them.
    """
    if few := check_open_files():  # no program could be started: each would look as if it were missing
        return few
    required = [*PROGRAMS, *((*BUILDERS, COMPILER) if needs_build else ())]
    lacking = unmet(required)
    if not lacking and os.geteuid() == 0:
        lacking = unmet(KERNEL)
    return [Finding(f"no {r.what}" if r in required else f"{r.what} is missing", r.why, r.remedy) for r in lacking]


OPEN_FILES = 64  # with which every command begins; runs of many cells take more


def check_open_files(limit: int | None = None) -> list[Finding]:
    """Require what a process needs to start another: pipes to it, beside what is open already."""
    at_most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if limit is None else limit
    if at_most == resource.RLIM_INFINITY or at_most >= OPEN_FILES:
        return []
    why = "programs cannot be started, so that nothing more is known of this host"
    return [Finding(f"a process may open {at_most} files at most", why, "ulimit -n 4096")]


def check_inotify(
    limits: Mapping[str, tuple[int, int]] = INOTIFY_LIMITS, folder: Path = INOTIFY_FOLDER
) -> list[Finding]:
    """Look at the limits of inotify, which nodes and machines of a host share: to it all their processes are one user.

    Too few instances or watches show as "too many open files". `limits`: by name, what is advised and what is required.
    """
    current = {name: int((folder / name).read_text(encoding="utf-8")) for name in limits}
    return [
        Finding(
            f"fs.inotify.{name} is {current[name]}",
            "all machines share it; with many machines systemd, kubelet and containerd fail: too many open files",
            f"sysctl -w fs.inotify.{name}={advised}",
            fatal=current[name] < required,
        )
        for name, (advised, required) in limits.items()
        if current[name] < advised
    ]


def check_ports(ports: Mapping[str, Collection[int]], address: str | None = None) -> list[Finding]:
    """Require ports to be free at an address (None: at one that does not exist yet, so that only wildcards matter)."""
    each = [(program, port) for program, numbers in ports.items() for port in numbers]
    taken = [(program, port) for program, port in each if not port_is_free(address or NOWHERE, port)]
    return [
        Finding(
            f"port {port} is in use by {holder or 'another program'}",
            f"{program} listens on it",
            f"stop {holder}" if holder else f"find the process: ss -ltnp sport = :{port}",
        )
        for program, port, holder in ((program, port, port_owner(port)) for program, port in taken)
    ]
