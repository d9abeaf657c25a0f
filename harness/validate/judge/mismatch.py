"""What a check found wrong, and the one message that says so to a person."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from harness.errors import HarnessBug
from harness.until import Deadline, NotYet, TimedOut, until

T = TypeVar("T")


@dataclass(frozen=True)
class Mismatch:
    """One thing that is not as it should be: where, what was expected, what was seen."""

    where: str
    expected: str
    seen: str

    def __str__(self) -> str:
        """Return the finding as one line."""
        return f"{self.where}: expected {self.expected}; saw {self.seen}"


class CheckFailed(AssertionError):
    """A check of a guest cluster does not hold."""


def require(findings: Iterable[Mismatch], *, claim: str, look: str, do: str) -> None:
    """Fail with one message that names every finding; do nothing when there is none.

    Args:
        claim: what should be true, as a sentence.
        look: where the cause is likely to be seen.
        do: what to type next.

    Raises:
        CheckFailed: there are findings.
    """
    __tracebackhide__ = True
    found = tuple(findings)
    if not found:
        return
    lines = [f"not true: {claim}", *(f"  - {finding}" for finding in found), f"look at: {look}", f"type:    {do}"]
    raise CheckFailed("\n".join(lines))


def on_every(
    names: Sequence[str], seen: Mapping[str, T], judge: Callable[[str, T], Iterable[Mismatch]]
) -> list[Mismatch]:
    """Judge what was seen of every name that must have been seen; a name that was not seen is a finding itself.

    Raises:
        HarnessBug: there is no name at all, so the check would prove nothing.
    """
    if not names:
        raise HarnessBug("a check was asked about no machine at all", hint="the cell's inventory groups are empty")
    found: list[Mismatch] = []
    for name in names:
        if name in seen:
            found += judge(name, seen[name])
        else:
            found.append(Mismatch(name, "an answer", "none"))
    return found


def eventually(judge: Callable[[], list[Mismatch]], *, deadline: Deadline, what: str) -> list[Mismatch]:
    """Judge until nothing is found any more, or until the deadline; return what was found last.

    For what follows its cause by itself within seconds, as kube-proxy's rules follow a pod that has become ready.
    """
    last: list[Mismatch] = []

    def probe() -> bool | NotYet:
        last[:] = judge()
        return NotYet(str(last[0])) if last else True

    try:
        until(probe, deadline=deadline, what=what, interval=0.3)
    except TimedOut:
        return last
    return []


def differs(where: str, what: str, expected: object, seen: object) -> list[Mismatch]:
    """Return one finding when two values are not equal, none otherwise."""
    return [] if expected == seen else [Mismatch(where, f"{what} {expected!r}", repr(seen))]


def same_set(where: str, what: str, expected: Iterable[str], seen: Iterable[str]) -> list[Mismatch]:
    """Return a finding for what is missing and one for what is too much."""
    wanted, there = set(expected), set(seen)
    found = []
    if wanted - there:
        found.append(Mismatch(where, f"{what} {', '.join(sorted(wanted))}", f"no {', '.join(sorted(wanted - there))}"))
    if there - wanted:
        found.append(
            Mismatch(where, f"no other {what} than {', '.join(sorted(wanted))}", ", ".join(sorted(there - wanted)))
        )
    return found
