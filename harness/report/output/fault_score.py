"""How many faults the checks find, as `python -m tests.faults` counts them: read from faults.json, as words, badges."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.errors import BadInput
from harness.reading import read_text
from harness.report.output.badges import BAD, FAIR, GOOD, UNKNOWN, Badge, svg

FILE = "faults.json"
ALL = "all"  # suites together
ENOUGH = 0.97  # of all faults; below that a badge is red


@dataclass(frozen=True)
class SuiteScore:
    """What a suite, or all of them, did: faults that were tried, found, and found by the right check and words."""

    suite: str
    faults: int
    detected: int
    explained: int

    def share(self, what: str) -> str:
        """Return `detected` or `explained` as a share, rounded down: 100 % is all of them."""
        return f"{int(1000 * getattr(self, what) / self.faults) / 10:g} %" if self.faults else "none"


@dataclass(frozen=True)
class FaultScore:
    """The score. on: the day of the last trial.  listed: how many faults there are, tried or not."""

    on: str
    listed: int
    suites: tuple[SuiteScore, ...]

    def told(self) -> dict[str, Any]:
        """Return what report.json says."""
        said = [{**asdict(s), "shares": {w: s.share(w) for w in ("detected", "explained")}} for s in self.suites]
        return {"on": self.on, "listed": self.listed, "suites": said}

    def lines(self) -> list[str]:
        """Return a Markdown table."""
        tried = sum(s.faults for s in self.suites if s.suite == ALL)
        found = [f"{s.detected} ({s.share('detected')}) | {s.explained} ({s.share('explained')})" for s in self.suites]
        rows = [f"| {s.suite} | {s.faults} | {words} |" for s, words in zip(self.suites, found, strict=True)]
        return [
            "",
            f"Faults that checks find: {tried} of {self.listed} tried, the last on {self.on}.",
            "",
            "| suite | faults | detected | rightly explained |",
            "|---|---|---|---|",
            *rows,
        ]

    def badges(self) -> dict[str, str]:
        """Return a badge for each suite and one for all: SVG by name."""
        names = {s.suite: "badge-faults.svg" if s.suite == ALL else f"badge-faults-{s.suite}.svg" for s in self.suites}
        return {names[s.suite]: svg(badge(s)) for s in self.suites}


def badge(score: SuiteScore) -> Badge:
    """Return the badge of a suite."""
    label = "faults found" if score.suite == ALL else f"faults found by {score.suite}"
    if not score.faults:
        return Badge(label, "none tried", UNKNOWN)
    enough = score.detected >= ENOUGH * score.faults
    colour = GOOD if score.detected == score.faults else FAIR if enough else BAD
    return Badge(label, f"{score.detected} of {score.faults}", colour)


def read(path: Path) -> FaultScore:
    """Read faults.json.

    Raises:
        BadInput: it is not there, or is no such file.
    """
    text = read_text(path)
    try:
        said = json.loads(text)
        suites = tuple(
            SuiteScore(str(name), *(int(one[key]) for key in ("faults", "detected", "explained")))
            for name, one in said["suites"].items()
        )
        return FaultScore(str(said["on"]), int(said["listed"]), suites)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{path} is not a score of faults: {type(error).__name__}: {error}",
            hint="`python -m tests.faults` of vmatrix's repository writes it",
        ) from error
