"""All that is in a world, to be compared before and after: seen with other tools than the code under test uses."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from harness import paths, proc
from tests.kill.world import NAME, WRITTEN

LOOKED_AT = ("/run", "/dev/shm")
COMMANDS = {
    "mount": ("findmnt", "--list", "--noheadings", "--output", "TARGET,SOURCE"),
    "loop": ("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"),
    "link": ("ip", "-oneline", "link", "show"),
    "address": ("ip", "-oneline", "address", "show"),
    "route": ("ip", "route", "show", "table", "all"),
    "rule": ("ip", "rule", "show"),
    "network namespace": ("ip", "netns", "list"),
    "packet filter": ("nft", "list", "ruleset"),
    "cgroup": ("find", "/sys/fs/cgroup", "-type", "d"),
    "unit": ("systemctl", "list-units", "--plain", "--no-legend", "--type=scope,service,mount,slice"),
    "socket": ("ss", "--listening", "--numeric", "--no-header", "--tcp", "--udp"),
    "sysctl": ("sysctl", "--all", "--ignore"),
}
COUNTING = {"kernel.ns_last_pid", "kernel.random.boot_id"}  # writable, and no settings
NEWEST = "pytest-current"  # pytest's own link to the newest of its folders, which every pytest moves
CHANGING = {"link": r"state \S+|qdisc \S+", "address": r"\d+sec", "socket": r"^(\S+\s+\S+\s+)\d+\s+\d+"}


def seen(without: Path) -> set[str]:
    """Return everything, a line each; what cannot be looked at on this host is missing before and after.

    Args:
        without: the folder of the tests themselves.
    """
    return {*_of_commands(), *_processes(), *files({paths.cache_dir(), paths.state_dir(), without})}


def difference(before: set[str], after: set[str]) -> list[str]:
    """Return what came and what went."""
    return sorted([f"+ {line}" for line in after - before] + [f"- {line}" for line in before - after])


def _of_commands() -> Iterator[str]:
    for kind, command in COMMANDS.items():
        try:
            lines = proc.run(command, timeout=60, check=False).stdout.splitlines()
        except proc.CommandFailed:  # this host has no such command
            continue
        for line in filter(PASSED.get(kind, bool), lines):
            yield f"{kind} {re.sub(CHANGING[kind], '', line) if kind in CHANGING else line}".rstrip()


def is_setting(line: str) -> bool:
    """Tell whether a line of sysctl(8) is a setting; what nobody can write counts something by itself."""
    name = line.partition(" = ")[0]
    path = Path("/proc/sys", name.replace(".", "\0").replace("/", ".").replace("\0", "/"))
    return name not in COUNTING and path.exists() and bool(path.stat().st_mode & stat.S_IWUSR)


def _is_ours(line: str) -> bool:
    """Tell whether a loop device is of this world: they are in no namespace."""
    return f"/{os.environ[NAME]}/" in line


PASSED = {"sysctl": is_setting, "loop": _is_ours}


def _processes() -> Iterator[str]:
    """Yield the command line of each process; of several with the same one, each with its number."""
    found: Counter[str] = Counter()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
            marked = [v for v in (folder / "environ").read_bytes().split(b"\0") if v.startswith(b"VMATRIX_INSTANCE=")]
        except OSError:
            continue
        if words and int(folder.name) != os.getpid():
            found[b" ".join([*words.split(bytes(1)), *marked]).decode(errors="replace")] += 1
    yield from (f"process {line} no. {number + 1}" for line, count in found.items() for number in range(count))


def files(own: set[Path]) -> Iterator[str]:
    """Yield each file of the world that is not this host's, by its path and the time of its last change.

    Args:
        own: folders that are passed over; those above them are there to hold them.
    """
    holding = {str(above) for path in own for above in (path, *path.parents)}
    for top, root in ((WRITTEN, ""), *((Path(path), path) for path in LOOKED_AT)):
        for folder, names, plain in os.walk(top):
            here = folder.replace(str(top), root, 1)
            yield from (f"file {here}/{name}" for name in names if f"{here}/{name}" not in holding and name != NEWEST)
            yield from (f"file {here}/{name}{_changed(Path(folder, name))}" for name in plain if name != NEWEST)
            names[:] = [n for n in names if Path(here or "/", n) not in own and Path(here, n) != WRITTEN]


def _changed(path: Path) -> str:
    """Return when a file was changed; in WRITTEN, a character device stands for one of this host that was deleted."""
    with suppress(OSError):
        found = path.lstat()
        return f" of {found.st_mtime}" if stat.S_ISREG(found.st_mode) else ""
    return ""
