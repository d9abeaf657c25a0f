"""Control groups of a machine: one in every hierarchy, to limit it, account for it, freeze it and kill it whole.

Covers cgroup v2, v1, and the hybrid of both. On v1 a guest only gets its own tree when its nspawn process was put
into a fresh group in *every* hierarchy before it started; on v2 one group does it.

The kernel's own peaks (memory.peak, memory.max_usage_in_bytes) are of no use here: they count page cache, which
fills up to a machine's limit. Whoever wants a peak looks again and again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000  # the kernel's default CFS period
V2_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "pids", "hugetlb")
# What is written to let go on and to freeze, on v1 and on v2, and where the outcome is read.
FREEZERS = (("freezer.state", ("THAWED", "FROZEN")), ("cgroup.freeze", ("0", "1")))
FROZEN = ("freezer.state", "cgroup.events")
# Of a control group on v1 and on v2: what it takes, and the names of parts of that in its memory.stat: page cache that
# was used once, all page cache, and what of that has no file behind it.
ACCOUNTS = (
    ("memory.usage_in_bytes", "total_inactive_file", "total_cache", "total_shmem"),
    ("memory.current", "inactive_file", "file", "shmem"),
)
STAT = "memory.stat"


@dataclass(frozen=True)
class Hierarchy:
    """One mounted control group tree: its root, and cgroup version 1 or 2."""

    path: Path
    version: int


def hierarchies(mounts: str | None = None) -> tuple[Hierarchy, ...]:
    """Return the hierarchies in the text of /proc/self/mounts (the host's own without `mounts`), in mount order."""
    text = Path("/proc/self/mounts").read_text(encoding="utf-8") if mounts is None else mounts
    mounted: dict[Path, Hierarchy] = {}
    for line in text.splitlines():
        _, where, kind, _ = line.split(" ", 3)
        path = Path(where)
        if path != ROOT and ROOT not in path.parents:
            continue
        if path == ROOT:
            mounted.clear()  # a later mount over the root hides what was mounted below it
        if kind in {"cgroup", "cgroup2"}:
            mounted[path] = Hierarchy(path, 2 if kind == "cgroup2" else 1)
    return tuple(mounted.values())


def is_unified(mounted: tuple[Hierarchy, ...]) -> bool:
    """Tell whether the host is on cgroup v2 alone."""
    return len(mounted) == 1 and mounted[0].version == 2


def create(name: str, mounted: tuple[Hierarchy, ...], *, cpus: int, memory_mib: int) -> list[Path]:
    """Make a machine's group in every hierarchy, limited to `cpus` CPUs' time and `memory_mib` MiB.

    Returns: the groups' directories, for the machine's first process to enter.
    """
    groups = []
    for hierarchy in mounted:
        if is_unified(mounted):
            _enable_controllers(hierarchy.path)
        group = hierarchy.path / name
        group.mkdir(exist_ok=True)
        if hierarchy.version == 1 and (group / "cpuset.cpus").exists():
            _inherit_cpuset(group)
        groups.append(group)
    for group in groups:
        _limit(group, cpus=cpus, memory_mib=memory_mib)
    return groups


def _enable_controllers(root: Path) -> None:
    available = (root / "cgroup.controllers").read_text(encoding="utf-8").split()
    enabled = [f"+{c}" for c in V2_CONTROLLERS if c in available]
    (root / "cgroup.subtree_control").write_text(" ".join(enabled), encoding="utf-8")


def _inherit_cpuset(group: Path) -> None:
    """Copy the parent's CPUs and memory nodes: a v1 cpuset group refuses processes until it has some."""
    for knob in ("cpuset.cpus", "cpuset.mems"):
        (group / knob).write_text((group.parent / knob).read_text(encoding="utf-8"), encoding="utf-8")
    (group / "cgroup.clone_children").write_text("1", encoding="utf-8")


def _limit(group: Path, *, cpus: int, memory_mib: int) -> None:
    """Write each limit whose file exists in this group (which tells the hierarchy and the version)."""
    settings = {
        "memory.limit_in_bytes": str(memory_mib << 20),
        "cpu.cfs_quota_us": str(cpus * PERIOD_US),
        "memory.max": str(memory_mib << 20),
        "cpu.max": f"{cpus * PERIOD_US} {PERIOD_US}",
    }
    for knob, value in settings.items():
        if (group / knob).exists():
            (group / knob).write_text(value, encoding="utf-8")


def groups_of(name: str, mounted: tuple[Hierarchy, ...]) -> list[Path]:
    """Return the directories of a machine's groups that exist."""
    return [h.path / name for h in mounted if (h.path / name).is_dir()]


def names(mounted: tuple[Hierarchy, ...]) -> set[str]:
    """Return the names of all groups directly below a hierarchy's root."""
    return {child.name for h in mounted for child in h.path.iterdir() if child.is_dir()}


def _tree(group: Path) -> Iterator[Path]:
    """Yield a group and everything below it, deepest first; groups that vanish on the way are left out."""
    try:
        children = [c for c in group.iterdir() if c.is_dir() and not c.is_symlink()]
    except FileNotFoundError:
        return
    for child in children:
        yield from _tree(child)
    yield group


def members(groups: Iterable[Path]) -> set[int]:
    """Return the processes in the groups themselves; groups that do not exist have none."""
    pids: set[int] = set()
    for group in groups:
        try:
            pids.update(int(p) for p in (group / "cgroup.procs").read_text(encoding="utf-8").split())
        except OSError:
            continue
    return pids


def pids(groups: Sequence[Path]) -> set[int]:
    """Return every process in the groups and below them."""
    return members(leaf for group in groups for leaf in _tree(group))


def kill_all(groups: Sequence[Path]) -> set[int]:
    """Send SIGKILL to everything in the groups and return whom it was sent to; to be repeated until nobody is left."""
    victims = pids(groups) - {0, os.getpid()}
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return victims


def freeze(groups: Sequence[Path], *, frozen: bool) -> None:
    """Have everything in the groups stop where it is, or go on; the kernel takes a moment (see is_frozen)."""
    for group in groups:
        for knob, values in FREEZERS:
            if (group / knob).exists():
                (group / knob).write_text(values[frozen], encoding="utf-8")


def is_frozen(groups: Sequence[Path]) -> bool:
    """Tell whether everything in the groups stands still."""
    states = [
        (group / knob).read_text(encoding="utf-8") for group in groups for knob in FROZEN if (group / knob).exists()
    ]
    return any(text == "FROZEN\n" or "frozen 1" in text for text in states)


def remove(groups: Sequence[Path]) -> list[Path]:
    """Remove the groups, deepest first.

    Returns: those that the kernel would not give up yet (a process is still leaving); try again.
    """
    stuck = []
    for group in groups:
        for leaf in _tree(group):
            try:
                leaf.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                stuck.append(leaf)
    return stuck


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
