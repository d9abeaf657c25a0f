"""Which revision to try next between a good and a bad one, and what is known of them: halves, past what cannot tell."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.errors import BadInput
from harness.files import write_atomically
from harness.reading import read_text

FIRST_FAILED = re.compile(r"(?P<step>[^:]+): (?P<task>task \[[^]]*\])")  # a role's task has a colon of its own


class RevisionVerdict(StrEnum):
    """What a run at a revision says of the product."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"  # the run failed, and not by the product


@dataclass(frozen=True)
class RevisionTrial:
    """A revision that was tried: its verdict, the id of its run, what failed first."""

    verdict: RevisionVerdict
    run: str = ""
    said: str = ""

    @property
    def failed(self) -> tuple[str, ...]:
        """Return the suite or step that failed first and the check or task in it, without its text."""
        found = FIRST_FAILED.match(self.said)
        return found.groups() if found else tuple(self.said.split(": ")[:2])


@dataclass(frozen=True)
class Bisection:
    """A search. revisions: after the good one, oldest first; the last one is bad."""

    cell: str
    good: str
    revisions: tuple[str, ...]
    trials: Mapping[str, RevisionTrial] = field(default_factory=dict)

    @property
    def open(self) -> tuple[str, ...]:
        """Return the revisions of which one is the first bad one."""
        return self.revisions[self._last_good + 1 : self._first_bad + 1]

    @property
    def following(self) -> str | None:
        """Return the revision to try next, the nearest to the middle; None when nothing is left to be tried."""
        within = self.open[:-1]
        left = [number for number, revision in enumerate(within) if revision not in self.trials]
        middle = (len(within) - 1) / 2
        return within[min(left, key=lambda number: (abs(number - middle), number))] if left else None

    @property
    def runs_left(self) -> int:
        """Return how many runs it takes at most, if each can tell."""
        return (len(self.open) - 1).bit_length()

    @property
    def otherwise(self) -> tuple[str, ...]:
        """Return the bad revisions after the found one that failed in something else first, oldest first."""
        found = self.trials.get(self.open[-1], RevisionTrial(RevisionVerdict.BAD))
        later = (one for one in self.revisions[self._first_bad + 1 :] if self._is(one, RevisionVerdict.BAD))
        return tuple(one for one in later if found.said and self.trials[one].failed != found.failed)

    def tried(self, revision: str, trial: RevisionTrial) -> Bisection:
        """Return the search with one more revision that was tried."""
        return replace(self, trials={**self.trials, revision: trial})

    @property
    def _first_bad(self) -> int:
        bad = (n for n, revision in enumerate(self.revisions) if self._is(revision, RevisionVerdict.BAD))
        return next(bad, len(self.revisions) - 1)

    @property
    def _last_good(self) -> int:
        good = (n for n in range(self._first_bad) if self._is(self.revisions[n], RevisionVerdict.GOOD))
        return max(good, default=-1)

    def _is(self, revision: str, verdict: RevisionVerdict) -> bool:
        return revision in self.trials and self.trials[revision].verdict is verdict


def save(search: Bisection, file: Path) -> None:
    """Write a search down, so that another process can go on."""
    trials = {
        rev: {"verdict": one.verdict.value, "run": one.run, "said": one.said} for rev, one in search.trials.items()
    }
    content = {"cell": search.cell, "good": search.good, "revisions": search.revisions, "trials": trials}
    write_atomically(file, json.dumps(content, indent=2) + "\n")


def resumed(search: Bisection, file: Path) -> Bisection:
    """Return a search with what an earlier one about the same cell has found out of its revisions.

    Raises:
        BadInput: the file is not what `save` writes.
    """
    if not file.exists():
        return search
    try:
        known: dict[str, Any] = json.loads(read_text(file))
        trials = {
            revision: RevisionTrial(RevisionVerdict(one["verdict"]), one["run"], one["said"])
            for revision, one in known["trials"].items()
            if revision in search.revisions and known["cell"] == search.cell
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{file} is no search of vmatrix bisect", hint=f"remove it to begin anew: rm {file}") from error
    return replace(search, trials=trials)


def ordered(search: Bisection, titles: Sequence[str] = ()) -> list[str]:
    """Return what was tried, in the order of the revisions; `titles`: of all revisions."""
    names = dict(zip(search.revisions, titles, strict=False))
    return [
        line.rstrip()
        for revision in search.revisions
        if (trial := search.trials.get(revision)) is not None
        for line in (
            f"{revision[:12]} {trial.verdict.value:8} {names.get(revision, '')}",
            *([f"  {': '.join(trial.failed)}"] if trial.said else []),
        )
    ]
