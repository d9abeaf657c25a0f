"""One cell's checks over the nights: of those that ever failed, when and how often; of the others, how they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.history.record import ABSENT, OUTCOMES, Record
from harness.report.analysis.failures import Failure
from harness.report.analysis.series import Habit, Judged, Range, Rate, fixed, flaky, habit, since, streak

WORST = "fqsp"  # of one check after several phases, the first of these counts
BAD = "fq"


@dataclass(frozen=True)
class CheckStory:
    """A check that failed in some night.

    history: a letter per night: p, f, s (did not run), q (failed in quarantine), "." (absent, or forgotten).
    new: whether it fails now and no night before knew that failure.
    """

    title: str
    outcome: str
    history: str
    habit: Habit
    news: str
    streak: int
    since: Range | None
    flaky: Rate
    reason: str


@dataclass(frozen=True)
class Checks:
    """All checks of a cell: those with a story, and how the others stood in its last record."""

    stories: tuple[CheckStory, ...]
    passed: tuple[str, ...]
    not_run: Mapping[str, str]


def checks_of(
    records: Sequence[tuple[int, Record]], failures: Mapping[int, tuple[Failure, ...]], nights: int, new: frozenset[str]
) -> Checks:
    """Return a cell's checks.

    Args:
        records: the cell's, with the numbers of their nights.  failures: by night.  nights: how many there are.
        new: titles of the checks whose failure in the last record no night before knew.
    """
    titles = tuple(
        dict.fromkeys(f.title for failures_of_night in failures.values() for f in failures_of_night if f.check)
    )
    letters = _letters(titles, records, failures, nights)
    newest = records[-1][1] if records else None
    last = {name: _worst(newest, place) for place, name in enumerate(newest.checks.names)} if newest is not None else {}
    reasons = {t: n.message for n in newest.notes for t in n.checks} if newest is not None else {}
    return Checks(
        stories=tuple(_story(t, letters[t], last.get(t, ABSENT), reasons.get(t, ""), t in new) for t in titles),
        passed=tuple(t for t, letter in last.items() if letter == "p" and t not in letters),
        not_run={t: reasons.get(t, "") for t, letter in last.items() if letter == "s" and t not in letters},
    )


def _worst(record: Record, number: int) -> str:
    """Return what a check of the attempt that counts came to over all phases."""
    letters = {row.results[number] for row in record.checks.rows if row.attempt == record.last_attempt}
    return next((letter for letter in WORST if letter in letters), ABSENT)


def _letters(
    titles: Sequence[str],
    records: Sequence[tuple[int, Record]],
    failures: Mapping[int, tuple[Failure, ...]],
    nights: int,
) -> dict[str, str]:
    """Return each check's letter per night.

    Of a record without details only the failures are known: a check that there was then (it is in the oldest record
    with details, or failed before) and that is not among them is taken for passed, if checks passed at all.
    """
    letters_by_title = {title: [ABSENT] * nights for title in titles}
    if not titles:
        return {}
    oldest = next((night for night, record in records if record.checks.names), nights)
    for night, record in records:
        for place, title in enumerate(record.checks.names):
            if title in letters_by_title:
                letters_by_title[title][night] = _worst(record, place)
        for failure in failures.get(night, ()):
            if failure.check:
                letters_by_title[failure.title][night] = "q" if failure.quarantine else "f"
    silent = [night for night, record in records if record.forgotten and record.counts.get("passed")]
    return {title: "".join(_presumed(letters, silent, oldest)) for title, letters in letters_by_title.items()}


def _presumed(letters: Sequence[str], silent: Sequence[int], oldest: int) -> list[str]:
    """Return a check's letters, filled in for the `silent` nights; `oldest` is the first night with all details."""
    first = next((night for night, letter in enumerate(letters) if letter != ABSENT), len(letters))
    since = 0 if first == oldest else first
    presumed = {night for night in silent if night >= since and letters[night] == ABSENT}
    return ["p" if night in presumed else letter for night, letter in enumerate(letters)]


def _story(title: str, history: str, now: str, reason: str, new: bool) -> CheckStory:
    series = [Judged(night, letter in BAD) for night, letter in enumerate(history) if letter in "pfq"]
    failing = now in BAD
    return CheckStory(
        title=title,
        outcome=OUTCOMES.get(now, ""),
        history=history,
        habit=habit(series),
        news=("new" if new else "known") if failing else "fixed" if fixed(series) else "",
        streak=streak(series),
        since=since(series),
        flaky=flaky(series),
        reason=reason,
    )
