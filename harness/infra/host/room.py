"""Whether this host has the memory and the disk space that machines need."""

from __future__ import annotations

import shutil
from pathlib import Path

from harness import memory
from harness.infra.findings import Finding

MACHINE_GIB = 2.5  # a machine's disk: 1.5 once deployed; after an upgrade 1.7 of a worker, 2.9 of a control plane
GIB = 2**30


def check_memory(needed_mib: int, meminfo: Path = Path("/proc/meminfo"), *, pods_mib: int = 0) -> list[Finding]:
    """Require memory (MiB) that is free or can be freed at once. `pods_mib`: for a machine that runs pods, besides."""
    available = memory.memory_available_mib(meminfo)
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


def advise_pods(needed_mib: int, pods_mib: int, meminfo: Path = Path("/proc/meminfo")) -> list[Finding]:
    """Tell that memory suffices for what is needed (MiB), but not for a machine that runs pods besides."""
    available = memory.memory_available_mib(meminfo)
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
