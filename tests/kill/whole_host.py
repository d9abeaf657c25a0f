"""All that is on this host, to be compared before and after: seen with other tools than the code under test uses."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from harness import paths, proc

LOOKED_AT = ("/etc", "/opt", "/run", "/srv", "/tmp", "/usr/local/bin", "/var/lib", "/var/tmp", "/dev/shm")
PASSED_OVER = re.compile(r"^/(run/(docker|user|udev)|var/lib/(docker|containerd|systemd|apt))/")
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
CHANGING = {"link": r"state \S+|qdisc \S+", "address": r"\d+sec", "socket": r"^(\S+\s+\S+\s+)\d+\s+\d+"}


def seen(without: Path) -> set[str]:
    """Return everything, a line each; what cannot be looked at on this host is missing before and after.

    Args:
        without: the folder of the tests themselves.
    """
    return {*_of_commands(), *_processes(), *_files({paths.cache_dir(), paths.state_dir(), without})}


def steady(look: Callable[[], set[str]]) -> tuple[set[str], set[str]]:
    """Return what is there, and which sysctls count something by themselves: they differ between two looks."""
    first, second = look(), look()
    counts = {line.partition(" = ")[0] for line in first ^ second if line.startswith("sysctl ")}
    return second, counts


def difference(before: set[str], after: set[str], counts: Iterable[str] = (), *tokens: str) -> list[str]:
    """Return what came and what went.

    Args:
        counts: sysctls that do not count.
        tokens: where others work on this host, only lines that mention one of these.
    """
    passed = set(counts)
    lines = [f"+ {line}" for line in after - before] + [f"- {line}" for line in before - after]
    lines = [line for line in lines if line[2:].partition(" = ")[0] not in passed]
    return sorted(line for line in lines if not tokens or any(token in line for token in tokens))


def _of_commands() -> Iterator[str]:
    for kind, command in COMMANDS.items():
        try:
            lines = proc.run(command, timeout=60, check=False).stdout.splitlines()
        except proc.CommandFailed:  # this host has no such command
            continue
        for line in lines:
            yield f"{kind} {re.sub(CHANGING[kind], '', line) if kind in CHANGING else line}".rstrip()


def _processes() -> Iterator[str]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
            marked = [v for v in (folder / "environ").read_bytes().split(b"\0") if v.startswith(b"VMATRIX_INSTANCE=")]
        except OSError:
            continue
        if words and int(folder.name) != os.getpid():
            yield f"process {folder.name} {b' '.join([*words.split(bytes(1)), *marked]).decode(errors='replace')}"


def _files(own: set[Path]) -> Iterator[str]:
    home = Path.home()
    yield from (f"file {path}" for path in home.iterdir())
    hidden = (
        path for path in home.glob(".*/") if not path.is_symlink()
    )  # what programs write there without being told
    passed = set(map(str, own))
    for root in (*LOOKED_AT, *map(str, hidden)):
        for folder, names, files in os.walk(root):  # strings: a host has a million files
            names[:] = [n for n in names if f"{folder}/{n}" not in passed and not PASSED_OVER.match(f"{folder}/{n}/")]
            yield from (f"file {folder}/{name}" for name in (*names, *files))
