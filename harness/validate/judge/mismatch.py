"""Compares what was seen with what was expected, and reports what a check finds wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, TypeVar

from harness.errors import HarnessBug
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.facts.expected import ExpectedGuest, upstream_of
from harness.validate.judge.finding import Mismatch as Mismatch
from harness.validate.judge.finding import note_unjudged, real

T = TypeVar("T")


Judgement = Callable[[Mapping[str, T], ExpectedGuest], list[Mismatch]]  # of what was seen of each machine


class CheckFailed(AssertionError):
    """A check of a guest cluster failed."""


def require(mismatches: Iterable[Mismatch], *, claim: str, look: str, do: str) -> None:
    """Fail with one message that names every mismatch; do nothing when there is none.

    Args:
        claim: what should be true, as a sentence.
        look: where the cause is likely to be seen.
        do: what to type next.

    Raises:
        CheckFailed: there are mismatches.
        NotJudged: there is none, and nothing was judged.
    """
    __tracebackhide__ = True
    every = tuple(mismatches)
    found = real(every)
    note_unjudged(every)
    if not found:
        return
    lines = [f"not true: {claim}", *(f"  - {mismatch}" for mismatch in found), f"look at: {look}", f"type:    {do}"]
    raise CheckFailed("\n".join(lines))


def on_every(
    names: Sequence[str], seen: Mapping[str, T], judge: Callable[[str, T], Iterable[Mismatch]]
) -> list[Mismatch]:
    """Judge what was seen of every name; a name of which nothing was seen is a mismatch.

    Raises:
        HarnessBug: there is no name, so the check would prove nothing.
    """
    if not names:
        raise HarnessBug("a check has no machine to look at", hint="the cell's inventory groups are empty")
    found: list[Mismatch] = []
    for name in names:
        if name in seen:
            found += judge(name, seen[name])
        else:
            found.append(Mismatch(name, "an answer", "none"))
    return found


def of_each(
    group: Literal["machines", "nodes", "etcd"],
) -> Callable[[Callable[[str, T, ExpectedGuest], Iterable[Mismatch]]], Judgement[T]]:
    """Turn the judgement of one machine, (name, seen, expected), into that of every machine of a group."""

    def decorate(judge: Callable[[str, T, ExpectedGuest], Iterable[Mismatch]]) -> Judgement[T]:
        @functools.wraps(judge)
        def every(seen: Mapping[str, T], expected: ExpectedGuest) -> list[Mismatch]:
            return on_every(getattr(expected, group), seen, lambda name, one: judge(name, one, expected))

        return every

    return decorate


def eventually(judge: Callable[[], list[Mismatch]], *, deadline: Deadline, what: str) -> list[Mismatch]:
    """Judge until no mismatch is left that can go away, or until the deadline; return the last mismatches.

    For what follows its cause within seconds, as kube-proxy's rules follow a pod that has become ready.
    """
    last: list[Mismatch] = []

    def probe() -> bool | NotYet:
        last[:] = judge()
        passing = [one for one in last if not one.lasting]
        return NotYet(str(passing[0])) if passing else True

    with suppress(TimedOut):
        until(probe, deadline=deadline, what=what, interval=0.3)
    return last


def differs_upstream(where: str, what: str, expected: str, seen: str) -> list[Mismatch]:
    """Return a mismatch when two versions are of different releases of upstream, whoever distributes them."""
    return [] if upstream_of(expected) == upstream_of(seen) else differs(where, what, expected, seen)


def differs(where: str, what: str, expected: object, seen: object) -> list[Mismatch]:
    """Return one mismatch when two values are not equal, none otherwise."""
    return [] if expected == seen else [Mismatch(where, f"{what} {expected!r}", repr(seen))]


def same_set(where: str, what: str, expected: Iterable[str], seen: Iterable[str]) -> list[Mismatch]:
    """Return a mismatch for what is missing and one for what is too much."""
    wanted, there = set(expected), set(seen)
    found, names = [], ", ".join(sorted(wanted))
    if wanted - there:
        found.append(Mismatch(where, f"{what} {names}", f"no {', '.join(sorted(wanted - there))}"))
    if there - wanted:
        extra = ", ".join(sorted(there - wanted))
        found.append(Mismatch(where, f"no other {what} than {names}" if wanted else f"no {what}", extra))
    return found
