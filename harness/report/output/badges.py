"""Badges as SVG: pass rate, coverage, last night. Drawn here, so that they need no other server's fonts or words."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from harness.report.analysis.analyse import Analysis
from harness.report.output.numbers import summary

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
    found = summary(analysis)
    day = f"{night.start:%Y-%m-%d}"
    if analysis.freshness.stale:
        return Badge("last night", f"{day}, overdue", BAD)
    counted = found["new"] + found["known"]
    if counted:
        new = f", {found['new']} new" if found["new"] else ""
        return Badge("last night", f"{day}, {counted} failed{new}", BAD if found["new"] else FAIR)
    return Badge("last night", f"{day}, nothing failed", GOOD)


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
