"""What a machine takes of its host: by the kernel's own account of its control groups, and the blocks of its disk.

Covers cgroup v1 and v2. The kernel's own peaks (memory.peak, memory.max_usage_in_bytes) are of no use here: they count
page cache, which fills up to a machine's limit. Whoever wants a peak looks again and again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# Of a control group on v1 and on v2: what it takes, and the names of parts of that in its memory.stat: page cache that
# was used once, all page cache, and what of that has no file behind it.
ACCOUNTS = (
    ("memory.usage_in_bytes", "total_inactive_file", "total_cache", "total_shmem"),
    ("memory.current", "inactive_file", "file", "shmem"),
)
STAT = "memory.stat"
BLOCK = 512  # bytes of a block as stat(2) counts them


@dataclass(frozen=True)
class Memory:
    """What a machine takes, in bytes.

    usage: all that is charged to it.  working_set: without page cache that nobody has used twice, which the kernel
    takes back first: what a kubelet calls so.  kept: without any page cache of files, which is what the host has not
    available: the processes' own memory, and the kernel's for them.
    """

    usage: int
    working_set: int
    kept: int


def memory_of(groups: Iterable[Path]) -> Memory | None:
    """Return what the kernel has charged to a machine's control groups; None where none of them counts memory."""
    for group in groups:
        for usage, inactive, cache, shared in ACCOUNTS:
            try:
                charged = int((group / usage).read_text(encoding="ascii"))
                lines = (group / STAT).read_text(encoding="ascii").splitlines()
            except OSError:
                continue  # of another hierarchy or version, or the machine has just gone
            parts = {name: int(amount) for name, _, amount in (line.partition(" ") for line in lines)}
            files = parts.get(cache, 0) - parts.get(shared, 0)
            return Memory(charged, max(0, charged - parts.get(inactive, 0)), max(0, charged - files))
    return None


def disk_bytes(file: Path) -> int | None:
    """Return what a sparse disk file takes of its file system; None without the file."""
    try:
        return file.stat().st_blocks * BLOCK
    except OSError:
        return None
