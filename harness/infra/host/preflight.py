"""What this host must have for the embedded infrastructure, looked at before anything is touched."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from harness import paths
from harness.infra.findings import Finding
from harness.infra.host import addresses, ports, requirements, room
from harness.infra.host.requirements import Requirement

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
    programs: Collection[str] = tuple(addresses.PORTS),
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
        *check_ports({name: addresses.PORTS[name] for name in programs}, address),
        *room.check_memory(memory_mib, pods_mib=pods_mib),
        *room.check_disk(state, STATE_GIB, "machines' disks are stored there"),
        *(room.check_disk(cache, CACHE_GIB, "binaries and images are built there") if needs_build else []),
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
        seen, wanted = (".".join(str(v) for v in numbers) for numbers in (version, PYTHON))
        answer.append(
            Finding(
                f"this is Python {seen}", f"Python {wanted} or later is needed", f"apt-get install -y python{wanted}"
            )
        )
    return answer


def check_programs(*, needs_build: bool = True) -> list[Finding]:
    """Require the programs that machines (and, if they are still to be built, artifacts and disk images) are made with.

    Features of the kernel are only looked at by root, and once no program is missing: the probes use them.
    """
    wanted = [*requirements.PROGRAMS, *((*requirements.BUILDERS, COMPILER) if needs_build else ())]
    unmet = requirements.unmet(wanted)
    if not unmet and os.geteuid() == 0:
        unmet = requirements.unmet(requirements.KERNEL)
    return [Finding(f"no {r.what}" if r in wanted else f"{r.what} is missing", r.why, r.remedy) for r in unmet]


def check_inotify(
    limits: Mapping[str, tuple[int, int]] = INOTIFY_LIMITS, folder: Path = INOTIFY_FOLDER
) -> list[Finding]:
    """Look at the limits of inotify, which nodes and machines of a host share: to it all their processes are one user.

    Too few instances or watches show as "too many open files". `limits`: by name, what is advised and what is required.
    """
    seen = {name: int((folder / name).read_text(encoding="utf-8")) for name in limits}
    return [
        Finding(
            f"fs.inotify.{name} is {seen[name]}",
            "all machines share it; with many machines systemd, kubelet and containerd fail: too many open files",
            f"sysctl -w fs.inotify.{name}={advised}",
            fatal=seen[name] < required,
        )
        for name, (advised, required) in limits.items()
        if seen[name] < advised
    ]


def check_ports(wanted: Mapping[str, Collection[int]], address: str | None = None) -> list[Finding]:
    """Require ports to be free at an address (None: at one that does not exist yet, so that only wildcards matter)."""
    each = [(program, port) for program, numbers in wanted.items() for port in numbers]
    taken = [(program, port) for program, port in each if not ports.free(address or ports.NOWHERE, port)]
    return [
        Finding(
            f"port {port} is in use by {owner or 'another program'}",
            f"{program} listens on it",
            f"stop {owner}" if owner else f"find the process: ss -ltnp sport = :{port}",
        )
        for program, port, owner in ((program, port, ports.owner(port)) for program, port in taken)
    ]
