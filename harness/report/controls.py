"""What became of the controls of the CIS Kubernetes Benchmark in cells whose checks look at them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harness.report.cell import CellResult
from harness.report.step import FAILED, PASSED, Check
from harness.spec.controls import Control, controls

SUITE = "hardening"
MET, UNMET, UNSEEN = "met", "not met", "not checked"


def told(cells: Iterable[CellResult]) -> list[str]:
    """Return the section of a summary about controls, nothing where no cell has checks of them."""
    looked = [
        cell for cell in cells if any(c.suite == SUITE and c.outcome in (PASSED, FAILED) for c in cell.last_checks)
    ]
    if not looked:
        return []
    known = controls()
    lines = ["## Controls of the CIS Kubernetes Benchmark", ""]
    lines += ["| cell | met | not met | not checked | not met by choice | need a person |", "|---|--:|--:|--:|--:|--:|"]
    became = {cell.id: states(known.values(), cell.last_checks) for cell in looked}
    choices = [one for one in known.values() if one.not_met]
    persons = [one for one in known.values() if one.person]
    for name, found in became.items():
        counts = [sum(state == word for state in found.values()) for word in (MET, UNMET, UNSEEN)]
        lines.append(f"| `{name}` | {' | '.join(map(str, [*counts, len(choices), len(persons)]))} |")
    lines.append("")
    for name, found in became.items():
        for word in (UNMET, UNSEEN):
            rows = [_row(known[number]) for number, state in found.items() if state == word]
            lines += [f"{word.capitalize()} in `{name}`:", "", *rows, ""] if rows else []
    lines += ["Not met by choice:", "", *(_row(one, one.not_met) for one in choices), ""]
    lines += ["A person has to look:", "", *(_row(one, one.person) for one in persons), ""]
    return [*lines, "Met, by the checks that show it:", "", *_shown(known.values()), ""]


def states(known: Iterable[Control], checks: Sequence[Check]) -> Mapping[str, str]:
    """Return what became of each control that checks look at, by its number."""
    outcomes: dict[str, list[str]] = {}
    for check in checks:
        outcomes.setdefault(check.title, []).append(check.outcome)
    return {one.id: _state([o for name in one.met for o in outcomes.get(name, ())]) for one in known if one.met}


def _state(outcomes: Sequence[str]) -> str:
    if FAILED in outcomes:
        return UNMET
    return MET if PASSED in outcomes else UNSEEN


def _shown(known: Iterable[Control]) -> list[str]:
    by_check: dict[str, list[str]] = {}
    for one in known:
        for check in one.met:
            by_check.setdefault(check, []).append(one.id)
    return [f"- `{check}`: {', '.join(numbers)}" for check, numbers in by_check.items()]


def _row(one: Control, why: str = "") -> str:
    return f"- {one.id} {one.title}" + (f": {why}" if why else "")
