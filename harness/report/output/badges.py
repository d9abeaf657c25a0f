"""Badges as SVG: pass rate, coverage, last night. Drawn here, so that they need no other server's fonts or words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from html import escape
from pathlib import Path
from typing import Any

from harness.errors import BadInput
from harness.files import read_text
from harness.report.analysis.analyse import Analysis
from harness.report.markup import row
from harness.report.output.document import summary

WIDE = 6.6  # pixels of a character at 11 px, on the safe side
PADDING = 12
HEIGHT = 20
# dark enough for white letters (contrast of at least 4.5 to 1, WCAG 2.2, 1.4.3)
GOOD, FAIR, BAD, UNKNOWN = "#1a7f37", "#8a5a00", "#b3261e", "#57606a"
SOME = 0.9  # of the cells; below that a rate is bad


@dataclass(frozen=True)
class Badge:
    """What a badge says, and in which colour; the words say it without the colour too."""

    label: str
    value: str
    colour: str


def badges(analysis: Analysis) -> dict[str, str]:
    """Return the badges' files: SVG by name."""
    return {
        "badge-pass-rate.svg": svg(pass_rate(analysis)),
        "badge-coverage.svg": svg(coverage(analysis)),
        "badge-last-night.svg": svg(last_night(analysis)),
    }


def pass_rate(analysis: Analysis) -> Badge:
    """Return how many cells of the last night passed, of those that were judged."""
    cells = analysis.coverage.cells
    if not cells.ran:
        return Badge("cells passed", "none ran", UNKNOWN)
    return Badge("cells passed", f"{cells.passed} of {cells.ran}", _colour(cells.passed, cells.ran))


def coverage(analysis: Analysis) -> Badge:
    """Return how many of the planned pairs of values ran."""
    pairs = analysis.coverage.pairs
    if not pairs.planned:
        return Badge("pairs covered", "no plan", UNKNOWN)
    share = int(100 * pairs.ran / pairs.planned)  # rounded down: 100 % is all of them
    return Badge("pairs covered", f"{share} %", _colour(pairs.ran, pairs.planned))


def last_night(analysis: Analysis) -> Badge:
    """Return when the last night was and what it came to."""
    night = analysis.last
    if night is None:
        return Badge("last night", "never", UNKNOWN)
    name = f"last {analysis.unit}"
    counts = summary(analysis)
    day = f"{night.start:%Y-%m-%d}"
    if analysis.freshness.stale:
        return Badge(name, f"{day}, overdue", BAD)
    counted = counts["new"] + counts["known"]
    if counted:
        new = f", {counts['new']} new" if counts["new"] else ""
        return Badge(name, f"{day}, {counted} failed{new}", BAD if counts["new"] else FAIR)
    return Badge(name, f"{day}, nothing failed", GOOD)


def _colour(part: int, whole: int) -> str:
    return GOOD if part == whole else FAIR if part >= SOME * whole else BAD


def svg(badge: Badge) -> str:
    """Return a badge as SVG."""
    left, right = (round(len(text) * WIDE) + PADDING for text in (badge.label, badge.value))
    label, value = escape(badge.label), escape(badge.value)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{HEIGHT}" role="img" '
        f'aria-label="{label}: {value}"><title>{label}: {value}</title>'
        f'<rect width="{left + right}" height="{HEIGHT}" rx="3" fill="#24292f"/>'
        f'<path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v{HEIGHT - 6}a3 3 0 0 1-3 3H{left}z" fill="{badge.colour}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{left / 2:g}" y="14">{label}</text><text x="{left + right / 2:g}" y="14">{value}</text></g></svg>\n'
    )


FILE = "faults.json"
ALL = "all"  # suites together
SUITE = re.compile(r"\w[\w-]*", re.ASCII)  # it is part of a badge's file name
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
        suite_shares = [
            {**asdict(s), "shares": {w: s.share(w) for w in ("detected", "explained")}} for s in self.suites
        ]
        return {"on": self.on, "listed": self.listed, "suites": suite_shares}

    def lines(self) -> list[str]:
        """Return a Markdown table."""
        tried = sum(s.faults for s in self.suites if s.suite == ALL)
        rows = [
            row(
                s.suite,
                str(s.faults),
                f"{s.detected} ({s.share('detected')})",
                f"{s.explained} ({s.share('explained')})",
            )
            for s in self.suites
        ]
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
    """Read faults.json, or every such file below a folder: the score of all parts.

    Of a fault that several parts tried, the last trial counts.

    Raises:
        BadInput: it is not there, or is not such a file.
    """
    files = sorted(path.rglob(FILE)) if path.is_dir() else [path]
    if not files:
        raise BadInput(f"{path} has no {FILE} in it", hint="name the folder of results of `python -m tests.faults`")
    parts = [_read(file) for file in files]
    if len(parts) == 1:
        return parts[0][0]
    faults: dict[str, Mapping[str, Any]] = {}
    for _, tried in sorted(parts, key=lambda part: part[0].on):
        faults |= tried
    by_suite = {ALL: list(faults.values())}
    for fault in faults.values():
        by_suite.setdefault(fault["suite"], []).append(fault)
    suites = tuple(
        SuiteScore(
            name,
            len(tried),
            sum(one["became"] in ("detected", "explained") for one in tried),
            sum(one["became"] == "explained" for one in tried),
        )
        for name, tried in sorted(by_suite.items(), key=lambda suite: (suite[0] == ALL, suite[0]))
    )
    return FaultScore(max(part.on for part, _ in parts), max(part.listed for part, _ in parts), suites)


def _read(path: Path) -> tuple[FaultScore, Mapping[str, Mapping[str, Any]]]:
    """Return a file's score, and what became of each of its faults."""
    text = read_text(path)
    try:
        content = json.loads(text)
        suites = tuple(
            SuiteScore(str(name), *(int(suite[key]) for key in ("faults", "detected", "explained")))
            for name, suite in content["suites"].items()
        )
        faults = {
            str(name): {key: str(one[key]) for key in ("suite", "became")} for name, one in content["faults"].items()
        }
        names = [*(s.suite for s in suites), *(one["suite"] for one in faults.values())]
        if wrong := next((name for name in names if not SUITE.fullmatch(name)), None):
            raise ValueError(f"{wrong!r} is not the name of a suite")
        if content["on"] != "":  # of no fault that was tried
            date.fromisoformat(content["on"])
        return FaultScore(content["on"], int(content["listed"]), suites), faults
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{path} is not a score of faults: {type(error).__name__}: {error}",
            hint="`python -m tests.faults` of vmatrix's repository writes it",
        ) from error
