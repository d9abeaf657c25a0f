"""How often checks fail with each value, compared with before: what has become worse in the last night.

Fisher's exact test (Fisher 1935) says how likely so many of the failures are in the last night if value and night have
nothing to do with each other; of many such tests, those are kept whose share of false ones is at most 1 % (Benjamini
and Hochberg 1995).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import comb

from harness.history.record import Record
from harness.report.analysis.checks import BAD
from harness.report.analysis.nights import Night

BEFORE_DAYS = 30
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
        key=lambda test: (test.p, test.check, test.axis, test.value),
    )
    number = max(1, sum(key in earlier for key in counts))
    kept = max((n for n, test in enumerate(tests, 1) if test.p <= FALSE_SHARE * n / number), default=0)
    return tuple(_few(tests[:kept]))[:MOST_WORSE]


def _few(rates: Sequence[Worse]) -> list[Worse]:
    shown: dict[str, int] = {}
    few = []
    for rate in rates:
        shown[rate.check] = shown.get(rate.check, 0) + 1
        few += [rate] if shown[rate.check] <= MOST_OF_CHECK else []
    return few


def _counts(records: Iterable[Record]) -> dict[tuple[str, str, str], tuple[int, int]]:
    """Return in how many cell runs each check failed and was judged, by axis, value and title."""
    counts: dict[tuple[str, str, str], tuple[int, int]] = {}
    for record in records:
        letters: dict[str, set[str]] = {}
        for row in record.checks.rows:
            if row.attempt == record.last_attempt:
                for title, letter in zip(record.checks.names, row.results, strict=True):
                    letters.setdefault(title, set()).add(letter)
        for title, outcomes in letters.items():
            bad = bool(outcomes & set(BAD))
            for axis, value in record.axes.items() if bad or "p" in outcomes else ():
                failed, judged = counts.get((axis, value, title), (0, 0))
                counts[axis, value, title] = failed + bad, judged + 1
    return counts


def fisher(failed: int, judged: int, failed_before: int, judged_before: int) -> float:
    """Return how likely at least so many of all failures are among the judged ones of now, by chance alone."""
    whole, failures = judged + judged_before, failed + failed_before
    ways = comb(whole, judged)
    most = min(judged, failures)
    return sum(comb(failures, n) * comb(whole - failures, judged - n) for n in range(failed, most + 1)) / ways
