"""The verdicts of specs from ginkgo's log, which has those that ended: for a run that was killed before its report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from harness.validate.conformance.verdicts import CUT_SHORT, NEVER_BEGAN, TEXT_LIMIT, SpecOutcome, SpecVerdict

LINE = "-" * 30  # before and after what the log says of a spec
HEAD = re.compile(r"^\S (?:\[(?P<state>[A-Z!]+)\] )?\[(?P<seconds>[0-9.]+) seconds\]$")  # of a spec, not of the suite
NODE = re.compile(r"\[(?:It|BeforeEach|JustBeforeEach|AfterEach|JustAfterEach|DeferCleanup[^\]]*)\]")  # what failed
CUT = frozenset({"TIMEDOUT", "INTERRUPTED"})
SKIPPED = "SKIPPED"


def read_log(log: Path, names: Iterable[str]) -> dict[str, SpecVerdict]:
    """Return the verdict of each named spec: of those that the log does not have, that they were not run to their end.

    Args:
        log: what ginkgo wrote with `-v`; it may end anywhere.
    """
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    told = {_plain(name): verdict for name, verdict in _told(text.splitlines())}
    unknown = SpecVerdict(SpecOutcome.NOT_RUN, text=f"{NEVER_BEGAN}, or had ended")
    return {name: told.get(_plain(name), unknown) for name in names}


def _told(lines: list[str]) -> Iterator[tuple[str, SpecVerdict]]:
    ends = [number for number, line in enumerate(lines) if line == LINE]
    for begin, end in pairwise([*ends, len(lines)]):
        block = lines[begin + 1 : end]
        head = HEAD.match(block[0]) if len(block) > 1 else None
        if head is not None and head["state"] != SKIPPED:
            yield block[1], _verdict(head["state"], float(head["seconds"]), "\n".join(block[2:]).strip())


def _verdict(state: str | None, seconds: float, text: str) -> SpecVerdict:
    if state is None:
        return SpecVerdict(SpecOutcome.PASSED, seconds)
    cut = f"{CUT_SHORT}time was up after {seconds:.0f} s of it\n" if state in CUT else ""
    return SpecVerdict(SpecOutcome.FAILED, seconds, cut + text[-TEXT_LIMIT:])


def _plain(name: str) -> str:
    """Return a name without the node that failed, which the log puts into it."""
    return " ".join(NODE.sub(" ", name).split())
