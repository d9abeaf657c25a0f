"""How checks judge: mismatches, what is not judged, and the failure of a check that carries both as data."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from harness.check_result import Finding, FindingKind, because, failure_text
from harness.errors import HarnessBug
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.expected import ExpectedGuest, upstream_of


@dataclass(frozen=True)
class Mismatch(Finding):
    """Something that is not as expected. lasting: whether waiting cannot change it."""

    lasting: bool = False


@dataclass(frozen=True)
class Unjudged(Mismatch):
    """Something that a check does not judge: `expected` is what, `observed` why. Neither good nor bad.

    whole: whether nothing is left of the check without it.
    """

    kind: FindingKind = FindingKind.NOT_JUDGED
    lasting: bool = True
    whole: bool = False


class NotJudged(Exception):
    """A check judges nothing in this cluster. The text says why."""

    kind = FindingKind.NOT_JUDGED

    def __init__(self, reason: str, findings: Iterable[Finding] = ()) -> None:
        super().__init__(reason)
        self.findings = tuple(findings) or (because(self.kind, reason),)


class NotRun(NotJudged):
    """A check cannot be run here, whatever the cluster is like. The text says why."""

    kind = FindingKind.NOT_RUN


class LeftOut(NotJudged):
    """The product leaves a check out. The text says why."""

    kind = FindingKind.LEFT_OUT


_COLLECTED: ContextVar[list[Finding] | None] = ContextVar("collected", default=None)


@contextmanager
def parts_not_judged() -> Iterator[list[Finding]]:
    """Collect what checks in the body that pass or fail do not judge."""
    parts: list[Finding] = []
    token = _COLLECTED.set(parts)
    try:
        yield parts
    finally:
        _COLLECTED.reset(token)


def real(findings: Iterable[Mismatch]) -> list[Mismatch]:
    """Return what is wrong, without what is not judged."""
    return [finding for finding in findings if finding.kind is FindingKind.WRONG]


def note_unjudged(findings: Iterable[Mismatch]) -> tuple[Mismatch, ...]:
    """Write down what a check does not judge; return that, each once.

    Raises:
        NotJudged: nothing is wrong, and nothing was judged.
    """
    every = tuple(findings)
    unjudged_parts = tuple(dict.fromkeys(f for f in every if f.kind is not FindingKind.WRONG))
    if not real(every) and any(isinstance(f, Unjudged) and f.whole for f in unjudged_parts):
        raise NotJudged("; ".join(dict.fromkeys(map(str, unjudged_parts))), unjudged_parts)
    if (collected := _COLLECTED.get()) is not None:
        collected += [finding for finding in unjudged_parts if finding not in collected]
    return unjudged_parts


def lasting(findings: Iterable[Mismatch]) -> list[Mismatch]:
    """Mark mismatches as such that waiting cannot change."""
    return [replace(finding, lasting=True) for finding in findings]


def unjudged(what: str, why: str, *, whole: bool = False) -> Mismatch:
    """Say that something is not judged, and why.

    Args:
        whole: whether nothing is left of the check without it.
    """
    return Unjudged("", what, why, whole=whole)


def waived(control: str, title: str, reason: str) -> Mismatch:
    """Say that something is only against a control that the project waives, and why it does."""
    return Unjudged("", f"CIS {control} ({title})", reason, FindingKind.WAIVED, (control,))


def together(*parts: list[Mismatch]) -> list[Mismatch]:
    """Put the parts of a judgement together: nothing was judged where every part only says so."""
    whole = all(part and not real(part) for part in parts)
    findings = [finding for part in parts for finding in part]
    return [replace(f, whole=whole) if isinstance(f, Unjudged) else f for f in findings]


T = TypeVar("T")
Judgement = Callable[[Mapping[str, T], ExpectedGuest], list[Mismatch]]  # of what was seen of each machine


class CheckFailed(AssertionError):
    """A check of a guest cluster failed: what is wrong, what should be true, where to look and what to type."""

    def __init__(self, findings: Sequence[Finding], *, claim: str, look: str = "", command: str = "") -> None:
        super().__init__(failure_text(findings, claim, look, command))
        self.findings = tuple(findings)
        self.claim, self.look, self.command = claim, look, command


def require(
    mismatches: Iterable[Mismatch], *, claim: str, look: str, do: str | Callable[[Sequence[Mismatch]], str]
) -> None:
    """Fail with every mismatch; do nothing when there is none.

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
    note_unjudged(every)
    if wrong := real(every):
        raise CheckFailed(wrong, claim=claim, look=look, command=do if isinstance(do, str) else do(wrong))


def on_every(
    names: Sequence[str], seen: Mapping[str, T], judge: Callable[[str, T], Iterable[Mismatch]]
) -> list[Mismatch]:
    """Judge what was seen of every name; a name of which nothing was seen is a mismatch.

    Raises:
        HarnessBug: there is no name, so the check would prove nothing.
    """
    if not names:
        raise HarnessBug("a check has no machine to look at", hint="the cell's inventory groups are empty")
    findings: list[Mismatch] = []
    for name in names:
        findings += judge(name, seen[name]) if name in seen else [Mismatch(name, "an answer", "none")]
    return findings


def of_each(
    group: Literal["machines", "nodes", "etcd"],
) -> Callable[[Callable[[str, T, ExpectedGuest], Iterable[Mismatch]]], Judgement[T]]:
    """Turn the judgement of one machine, (name, seen, expected), into that of every machine of a group."""

    def decorate(judge: Callable[[str, T, ExpectedGuest], Iterable[Mismatch]]) -> Judgement[T]:
        @functools.wraps(judge)
        def every(seen: Mapping[str, T], expected: ExpectedGuest) -> list[Mismatch]:
            return on_every(getattr(expected, group), seen, lambda name, facts: judge(name, facts, expected))

        return every

    return decorate


def eventually(judge: Callable[[], list[Mismatch]], *, deadline: Deadline, what: str) -> list[Mismatch]:
    """Judge until no mismatch is left that can go away, or until the deadline; return the last mismatches.

    For what follows its cause within seconds, as kube-proxy's rules follow a pod that has become ready.
    """
    last: list[Mismatch] = []

    def probe() -> bool | NotYet:
        last[:] = judge()
        passing = [finding for finding in last if not finding.lasting]
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
    asked, there = set(expected), set(seen)
    findings, names = [], ", ".join(sorted(asked))
    if asked - there:
        findings.append(Mismatch(where, f"{what} {names}", f"no {', '.join(sorted(asked - there))}"))
    if there - asked:
        extra = ", ".join(sorted(there - asked))
        findings.append(Mismatch(where, f"no other {what} than {names}" if asked else f"no {what}", extra))
    return findings
