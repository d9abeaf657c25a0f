"""Findings: mismatches of a check, what it does not judge, and how both are reported."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from harness.errors import HarnessBug
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.expected import ExpectedGuest, upstream_of


@dataclass(frozen=True)
class Mismatch:
    """Something that is not as expected. lasting: whether waiting cannot change it."""

    where: str
    expected: str
    seen: str
    lasting: bool = False

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.where}: expected {self.expected}; saw {self.seen}"


@dataclass(frozen=True)
class Unjudged(Mismatch):
    """Something that a check does not judge: `expected` is what, `seen` why. Neither good nor bad.

    whole: whether nothing is left of the check without it.
    """

    lasting: bool = True
    whole: bool = False

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.where}: {self.expected}: {self.seen}" if self.where else f"{self.expected}: {self.seen}"


class NotJudged(Exception):
    """A check judges nothing in this cluster. The text says why."""


_PARTS: ContextVar[list[str] | None] = ContextVar("parts", default=None)


@contextmanager
def parts_not_judged() -> Iterator[list[str]]:
    """Collect what checks in the body that pass or fail do not judge, one line each."""
    parts: list[str] = []
    token = _PARTS.set(parts)
    try:
        yield parts
    finally:
        _PARTS.reset(token)


def real(found: Iterable[Mismatch]) -> list[Mismatch]:
    """Return what is wrong, without what is not judged."""
    return [one for one in found if not isinstance(one, Unjudged)]


def note_unjudged(found: Iterable[Mismatch]) -> None:
    """Write down what a check does not judge.

    Raises:
        NotJudged: nothing is wrong, and nothing was judged.
    """
    every = tuple(found)
    lines = list(dict.fromkeys(str(one) for one in every if isinstance(one, Unjudged)))
    if not real(every) and any(isinstance(one, Unjudged) and one.whole for one in every):
        raise NotJudged("; ".join(lines))
    if (parts := _PARTS.get()) is not None:
        parts += [line for line in lines if line not in parts]


def lasting(found: Iterable[Mismatch]) -> list[Mismatch]:
    """Mark mismatches as such that waiting cannot change."""
    return [replace(one, lasting=True) for one in found]


def unjudged(what: str, why: str, *, whole: bool = False) -> Mismatch:
    """Say that something is not judged, and why.

    Args:
        whole: whether nothing is left of the check without it.
    """
    return Unjudged("", what, why, whole=whole)


def together(*parts: list[Mismatch]) -> list[Mismatch]:
    """Put the parts of a judgement together: nothing was judged where every part only says so."""
    whole = all(part and not real(part) for part in parts)
    found = [one for part in parts for one in part]
    return [replace(one, whole=whole) if isinstance(one, Unjudged) else one for one in found]


T = TypeVar("T")
Judgement = Callable[[Mapping[str, T], ExpectedGuest], list[Mismatch]]  # of what was seen of each machine


class CheckFailed(AssertionError):
    """A check of a guest cluster failed."""


def require(
    mismatches: Iterable[Mismatch], *, claim: str, look: str, do: str | Callable[[Sequence[Mismatch]], str]
) -> None:
    """Fail with one message that names every mismatch; do nothing when there is none.

    Args:
        claim: what should be true, as a sentence.
        look: where the cause is likely to be seen.
        do: what to type next; or what says so, by the mismatches (`commands`).

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
    typed = do if isinstance(do, str) else do(found)
    lines = [f"not true: {claim}", *(f"  - {mismatch}" for mismatch in found), f"look at: {look}", f"type:    {typed}"]
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
