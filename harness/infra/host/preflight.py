"""What this host must have for the embedded infrastructure, looked at before anything is touched."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import paths
from harness.infra.findings import Finding, fatal, raise_if_any
from harness.infra.host import layout, ports, requirements
from harness.infra.host.requirements import Requirement

__all__ = ["Finding", "check_disk", "check_disks", "check_host", "check_memory", "fatal", "raise_if_any"]

PYTHON = (3, 11)
STATE_GIB = 6  # one cell's sparse disks, logs and etcd, with room to spare
MACHINE_GIB = 2.5  # a machine's disk: 1.5 once deployed; after an upgrade 1.7 of a worker, 2.9 of a control plane
CACHE_GIB = 12  # Go's module and build caches, the binaries, images and one disk image, built from nothing
CONTROL_PLANE_MIB = 1536  # control plane, mirror and controllers under load, measured, rounded up
INOTIFY_INSTANCES = 512  # each guest's systemd, udev, kubelet and containerd take some; all guests are one user
INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
PROBES_AT_ONCE = 8
COMPILER = Requirement(
    "C compiler",
    "runc, flannel and pause are built with it",
    ("gcc", "--version"),
    "apt-get install --yes gcc libc6-dev",
)
MIB = 2**20
GIB = 2**30


def check_host(
    *,
    address: str | None = None,
    programs: Collection[str] = tuple(layout.PORTS),
    memory_mib: int = CONTROL_PLANE_MIB,
    state: Path | None = None,
    cache: Path | None = None,
    needs_build: bool = True,
) -> list[Finding]:
    """Return what keeps this host from running an embedded infrastructure.

    Args:
        address: the address whose ports must be free; None when the instance will get a fresh one.
        programs: those that will be started, whose ports must be free.
        memory_mib: the memory that must be free.
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
        *check_ports({name: layout.PORTS[name] for name in programs}, address),
        *check_memory(memory_mib),
        *check_disk(state, STATE_GIB, "machines' disks are kept there"),
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
            "machines need mounts, loop devices, control groups and network namespaces",
            "run the same command as root: sudo -E vmatrix ...",
        )
    ]


def check_python(version: tuple[int, ...] = sys.version_info[:2], system: str = platform.system()) -> list[Finding]:
    """Require Linux and the oldest Python that the harness is tested with."""
    answer = []
    if system != "Linux":
        answer.append(Finding(f"this is {system}", "machines are Linux containers", "use a Linux host"))
    if version < PYTHON:
        seen, wanted = (".".join(str(v) for v in numbers) for numbers in (version, PYTHON))
        answer.append(
            Finding(
                f"this is Python {seen}", f"Python {wanted} or later is needed", f"apt-get install -y python{wanted}"
            )
        )
    return answer


def check_programs(*, needs_build: bool = True) -> list[Finding]:
    """Require the programs that machines (and, if they are still to be built, artifacts and disk images) are made with.

    Features of the kernel are only looked at by root, and once every program is there: the probes are made of them.
    """
    wanted = [*requirements.PROGRAMS, *((*requirements.BUILDERS, COMPILER) if needs_build else ())]
    unmet = _unmet(wanted)
    if not unmet and os.geteuid() == 0:
        unmet = _unmet(requirements.KERNEL)
    return [Finding(f"no {r.what}" if r in wanted else f"{r.what} is missing", r.why, r.remedy) for r in unmet]


def _unmet(wanted: Sequence[Requirement]) -> list[Requirement]:
    with ThreadPoolExecutor(PROBES_AT_ONCE) as pool:
        return [r for r, met in zip(wanted, pool.map(Requirement.met, wanted), strict=True) if not met]


def check_inotify(setting: Path = INOTIFY) -> list[Finding]:
    """Advise on the limit of inotify instances: all machines' processes are one user to it."""
    limit = int(setting.read_text(encoding="utf-8"))
    if limit >= INOTIFY_INSTANCES:
        return []
    return [
        Finding(
            f"fs.inotify.max_user_instances is {limit}",
            "all machines share it; with many of them systemd, kubelet and containerd run out",
            f"sysctl -w fs.inotify.max_user_instances={INOTIFY_INSTANCES}",
            fatal=False,
        )
    ]


def check_ports(wanted: Mapping[str, Collection[int]], address: str | None = None) -> list[Finding]:
    """Require ports to be free at an address (None: at one that does not exist yet, so that only wildcards matter)."""
    answer = []
    for program, port in ((name, port) for name, numbers in wanted.items() for port in numbers):
        if not ports.free(address or ports.NOWHERE, port):
            owner = ports.owner(port)
            answer.append(
                Finding(
                    f"port {port} is taken by {owner or 'another program'}",
                    f"{program} listens on it",
                    f"stop {owner}" if owner else f"see who has it: ss -ltnp sport = :{port}",
                )
            )
    return answer


def memory_available_mib(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return how much of this host's memory is free or can be freed at once, in MiB."""
    fields = dict(line.split(":", 1) for line in meminfo.read_text(encoding="utf-8").splitlines())
    return int(fields["MemAvailable"].split()[0]) // 1024


def check_memory(needed_mib: int, meminfo: Path = Path("/proc/meminfo")) -> list[Finding]:
    """Require memory (MiB) that is free or can be freed at once."""
    available = memory_available_mib(meminfo)
    if available >= needed_mib:
        return []
    return [
        Finding(
            f"{available} MiB of memory are available",
            f"{needed_mib} MiB are needed",
            "stop something, choose a smaller topology, or add memory",
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
            "free some room there, or move it: XDG_CACHE_HOME and XDG_STATE_HOME say where vmatrix keeps its files",
        )
    ]


def check_disks(folder: Path, machines: int, *, free_bytes: int | None = None) -> list[Finding]:
    """Require room for the disks of so many machines: sparse files, which grow as the machines are used."""
    why = f"the disks of {machines} machine{'s' if machines != 1 else ''}, which grow as they are used"
    return check_disk(folder, machines * MACHINE_GIB, why, free_bytes=free_bytes)
