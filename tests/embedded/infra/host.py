"""What is on this host, seen with other tools than those of the code under test, to be compared before and after."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from harness import proc


def things(*tokens: str) -> set[str]:
    """Return every process, mount, loop device, cgroup, link, filter, network namespace and file that mentions a token.

    A process mentions what stands in its command line or its environment. This process itself is left out.
    """
    return {thing for thing in _everything() if any(token in thing for token in tokens)}


def _everything() -> Iterator[str]:
    yield from (f"mount {line}" for line in _output("findmnt", "--list", "--noheadings", "--output", "TARGET,SOURCE"))
    yield from (f"loop {line}" for line in _output("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"))
    yield from (f"link {line}" for line in _output("ip", "-oneline", "address", "show"))
    yield from (f"link {line}" for line in _output("ip", "-oneline", "link", "show"))
    yield from (f"netns {line}" for line in _output("ip", "netns", "list"))
    yield from (f"filter {line}" for line in _output("nft", "list", "ruleset"))
    yield from (f"cgroup {line}" for line in _output("find", "/sys/fs/cgroup", "-type", "d"))
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "vmatrix"
    if state.exists():
        yield from (f"file {line}" for line in _output("find", str(state)))
    yield from _processes()


def _processes() -> Iterator[str]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes() + b"\0" + (folder / "environ").read_bytes()
        except OSError:
            continue
        if int(folder.name) != os.getpid():
            yield f"process {folder.name} {words.replace(bytes(1), b' ').decode(errors='replace')}"


def _output(*command: str) -> list[str]:
    return proc.run(command, timeout=30, check=False).stdout.splitlines()
