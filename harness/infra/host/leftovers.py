"""What of an instance is on this host, found by looking at the host and not at any record.

Covers processes, mounts, loop devices, cgroups, network namespaces, links, the table of the packet filter and files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from harness.infra.host import firewall
from harness.infra.host.layout import Layout
from harness.infra.host.network import NETNS_DIR, SYS_NET, bridge_of
from harness.infra.host.processes import marked

SYS_BLOCK = Path("/sys/block")


def leftovers(layout: Layout, index: int | None) -> list[str]:
    """Return one line per thing of the instance that is on the host: its kind and its name."""
    return [
        *(f"process {p.pid}: {p.command}" for p in marked(layout)),
        *(f"mount {point}" for point in mounts(layout)),
        *(f"loop device {device}" for device in loop_devices(layout)),
        *(f"cgroup {path}" for path in cgroups(layout, index)),
        *(f"network namespace {name}" for name in namespaces(index)),
        *(f"link {name}" for name in links(index)),
        *(f"packet filter's {table}" for table in (firewall.found(index) if index is not None else ())),
        *(f"file {path}" for path in (layout.root, layout.lock) if path.exists()),
    ]


def mounts(layout: Layout) -> list[str]:
    """Return the mount points below the instance's folder, deepest first."""
    below = f"{layout.root}/"
    points = [_unescape(line.split()[4]) for line in _lines(Path("/proc/self/mountinfo"))]
    return sorted((p for p in points if p.startswith(below)), key=len, reverse=True)


def loop_devices(layout: Layout) -> list[str]:
    """Return the loop devices whose backing file lies (or lay, when deleted) below the instance's folder."""
    return [
        f"/dev/{backing.parts[-3]}"
        for backing in sorted(SYS_BLOCK.glob("loop*/loop/backing_file"))
        if any(line.startswith(f"{layout.root}/") for line in _lines(backing))
    ]


def cgroups(layout: Layout, index: int | None) -> list[str]:
    """Return the cgroups of the instance's machines in every hierarchy, deepest first."""
    if index is None:
        return []
    prefix = f"{bridge_of(index)}-"
    roots = {_unescape(w[4]) for w in (line.split() for line in _lines(Path("/proc/self/mountinfo"))) if _is_cgroup(w)}
    found = {str(path) for root in roots for path in _folders(Path(root), prefix)}
    return sorted(found, key=len, reverse=True)


def namespaces(index: int | None) -> list[str]:
    """Return the named network namespaces of the instance."""
    if index is None or not NETNS_DIR.is_dir():
        return []
    return sorted(path.name for path in NETNS_DIR.glob(f"{bridge_of(index)}-*"))


def links(index: int | None) -> list[str]:
    """Return the instance's network links in the host's namespace: its bridge and the veths of VM namespaces."""
    if index is None:
        return []
    bridge = bridge_of(index)
    return sorted(path.name for path in SYS_NET.iterdir() if path.name == bridge or path.name.startswith(f"{bridge}h"))


def _is_cgroup(words: list[str]) -> bool:
    """Tell whether a line of mountinfo is a cgroup hierarchy (the file system type follows the lone hyphen)."""
    return words[words.index("-") + 1] in {"cgroup", "cgroup2"}


def _folders(root: Path, prefix: str) -> Iterator[Path]:
    for folder, names, _ in os.walk(root):
        yield from (Path(folder) / name for name in names if name.startswith(prefix))


def _unescape(text: str) -> str:
    """Decode mountinfo's octal escapes of blanks and backslashes."""
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
