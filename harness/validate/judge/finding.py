"""What a check finds: something wrong, or something that it cannot judge in this cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace


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
