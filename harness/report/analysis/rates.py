"""How often checks fail with each value, now against before: what got worse by more than chance, and the week's reach.

Fisher's exact test (Fisher 1935) says how likely so many of the failures are in the last night if value and night have
nothing to do with each other; of many such tests, those are kept whose share of false ones is at most 1 % (Benjamini
and Hochberg 1995).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import combinations
from math import comb

from harness.history.record import Record
from harness.report.analysis.checks import BAD
from harness.report.analysis.nights import Night
from harness.report.analysis.planned import RAN, Pair

BEFORE_DAYS = 30
WEEK_DAYS = 7
FALSE_SHARE = 0.01
MOST_WORSE = 10
MOST_OF_CHECK = 3  # values of one check: its others mostly come along with these


@dataclass(frozen=True)
class Worse:
    """A check that fails more often with a value than before: cells that failed and were judged, then and now.

    p: how likely that is chance.  against: the tag, or "" for the last 30 days.
    """

    axis: str
    value: str
    check: str
    failed: int
    judged: int
    failed_before: int
    judged_before: int
    p: float
    against: str = ""


@dataclass(frozen=True)
class Week:
    """What the nights of the last 7 days judged: cells of different values, pairs and triples of values.

    possible: how many pairs there can be; None where that is not known.
    """

    nights: int
    cells: int
    pairs: int
    triples: int
    possible: int | None


def fisher(failed: int, judged: int, failed_before: int, judged_before: int) -> float:
    """Return how likely at least so many of all failures are among the judged ones of now, by chance alone."""
    whole, failures = judged + judged_before, failed + failed_before
    ways = comb(whole, judged)
    most = min(judged, failures)
    return sum(comb(failures, n) * comb(whole - failures, judged - n) for n in range(failed, most + 1)) / ways


def worse_of(nights: Sequence[Night], tagged: Iterable[Record] = ()) -> tuple[Worse, ...]:
    """Return what fails more often in the last night than in those of the last tag, or of the 30 days before it.

    Args:
        tagged: records of nights of tags, whatever else is looked at; the newest tag counts.
    """
    if len(nights) < 2:
        return ()
    last = nights[-1]
    of_tags = [r for r in tagged if r.where.tag and r.started < last.started]
    tag = max(of_tags, key=lambda r: r.started).where.tag if of_tags else ""
    since = last.start - timedelta(days=BEFORE_DAYS)
    before = [r for night in nights[:-1] if night.start >= since for r in night.cells.values()]
    counts = _counts(last.cells.values())
    earlier = _counts([r for r in of_tags if r.where.tag == tag] if tag else before)
    tests = sorted(
        (
            Worse(*key, *now, *earlier[key], fisher(*now, *earlier[key]), tag)
            for key, now in counts.items()
            if now[0] and earlier.get(key, (0, 0))[1]
        ),
        key=lambda one: (one.p, one.check, one.axis, one.value),
    )
    number = max(1, sum(key in earlier for key in counts))
    kept = max((n for n, one in enumerate(tests, 1) if one.p <= FALSE_SHARE * n / number), default=0)
    return tuple(_few(tests[:kept]))[:MOST_WORSE]


def _few(found: Sequence[Worse]) -> list[Worse]:
    shown: dict[str, int] = {}
    few = []
    for one in found:
        shown[one.check] = shown.get(one.check, 0) + 1
        few += [one] if shown[one.check] <= MOST_OF_CHECK else []
    return few


def _counts(records: Iterable[Record]) -> dict[tuple[str, str, str], tuple[int, int]]:
    """Return in how many cell runs each check failed and was judged, by axis, value and title."""
    found: dict[tuple[str, str, str], tuple[int, int]] = {}
    for record in records:
        letters: dict[str, set[str]] = {}
        for row in record.checks.rows:
            if row.attempt == record.last_attempt:
                for title, letter in zip(record.checks.names, row.results, strict=True):
                    letters.setdefault(title, set()).add(letter)
        for title, seen in letters.items():
            bad = bool(seen & set(BAD))
            for axis, value in record.axes.items() if bad or "p" in seen else ():
                failed, judged = found.get((axis, value, title), (0, 0))
                found[axis, value, title] = failed + bad, judged + 1
    return found


def week_of(nights: Sequence[Night], possible: frozenset[Pair] | None) -> Week | None:
    """Return how much of the matrix the nights of the last 7 days judged; None without a night.

    Args:
        possible: the pairs of values that cells can have.
    """
    if not nights:
        return None
    since = nights[-1].start - timedelta(days=WEEK_DAYS)
    recent = [night for night in nights if night.start > since]
    rows = {tuple(sorted(r.axes.items())) for night in recent for r in night.cells.values() if r.outcome in RAN}
    pairs = {pair for row in rows for pair in combinations(row, 2)}
    triples = {triple for row in rows for triple in combinations(row, 3)}
    known = pairs if possible is None else pairs & possible
    return Week(len(recent), len(rows), len(known), len(triples), None if possible is None else len(possible))
