"""How many faults the checks find and rightly explain, by suite: as a table, as JSON and as a badge."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from harness.files import write_atomically
from harness.report.output.badges import ENOUGH, FILE, FaultScore, SuiteScore
from harness.schedule.shards import Shard
from tests.faults import kept
from tests.faults.cells import offers
from tests.faults.fault import Fault, Need
from tests.faults.trial import Verdict

DETECTED, EXPLAINED = ENOUGH, 0.95  # of all faults, those included that are known to be missed
A_CELL = 15  # so many faults take as long as a cell to try them on


def of_layout(faults: Iterable[Fault], layout: str, layouts: Sequence[str]) -> list[Fault]:
    """Return the faults to try in a layout: each in the first of the layouts that has what it needs."""
    return [fault for fault in faults if layout == _layout_for(frozenset(fault.needs), tuple(layouts))]


def of_shard(faults: Iterable[Fault], layouts: Sequence[str], part: Shard) -> list[Fault]:
    """Return the faults of one of several parts that take about equally long; all parts together are all faults.

    Layouts stay together as far as they can: each part has a cell for each of its own.
    """
    chosen = list(faults)
    weighed: list[tuple[Fault, int]] = []
    for layout in layouts:
        mine = of_layout(chosen, layout, layouts)
        weighed += [(fault, 1 if number else 1 + A_CELL) for number, fault in enumerate(mine)]
    total, before, of_part = sum(weight for _, weight in weighed), 0, []
    for fault, weight in weighed:
        if before * part.count // total == part.index - 1:
            of_part.append(fault)
        before += weight
    return of_part


@cache
def _layout_for(needs: frozenset[Need], layouts: tuple[str, ...]) -> str | None:
    """Return the first layout that has what a fault needs. CRI-O is for its own faults alone."""
    fits = (one for one in layouts if needs <= offers(one) and (Need.CRIO in needs) == (Need.CRIO in offers(one)))
    return next(fits, None)


def good(verdicts: Sequence[Verdict]) -> bool:
    """Tell whether every fault became what the list says, and enough were found."""
    enough = share(verdicts, "detected") >= DETECTED and share(verdicts, "explained") >= EXPLAINED
    return bool(verdicts) and enough and all(one.as_expected for one in verdicts)


def share(verdicts: Sequence[Verdict], what: str) -> float:
    """Return the share of the verdicts that are `what`."""
    return sum(getattr(one, what) for one in verdicts) / len(verdicts) if verdicts else 0.0


def by_suite(verdicts: Iterable[Verdict]) -> dict[str, list[Verdict]]:
    """Return verdicts by the suite that must find the fault, and all of them."""
    found: dict[str, list[Verdict]] = {}
    for one in verdicts:
        found.setdefault(one.fault.suite, []).append(one)
    return {**dict(sorted(found.items())), "all": [one for group in found.values() for one in group]}


def report(verdicts: Sequence[Verdict], stuck: Sequence[str] = ()) -> str:
    """Return the table, and what is not as the list says."""
    rows = [f"{'suite':10} {'faults':>6} {'detected':>14} {'rightly explained':>18}"]
    for suite, group in by_suite(verdicts).items():
        counts = [f"{sum(getattr(v, w) for v in group)} ({share(group, w):.1%})" for w in ("detected", "explained")]
        rows.append(f"{suite:10} {len(group):6} {counts[0]:>14} {counts[1]:>18}")
    other = [f"{one.fault.id}: {one.trouble or one.became}" for one in verdicts if not one.as_expected]
    return "\n".join([*rows, *(["not as tests/faults says:", *other] if other else []), *stuck])


def write(verdicts: Sequence[Verdict], directory: Path, listed: int) -> None:
    """Write faults.json and a badge for each suite.

    Args:
        listed: how many faults there are, tried or not.
    """
    directory.mkdir(parents=True, exist_ok=True)
    suites = tuple(
        SuiteScore(suite, len(group), *(sum(getattr(v, w) for v in group) for w in ("detected", "explained")))
        for suite, group in by_suite(verdicts).items()
    )
    score = FaultScore(max((one.on for one in verdicts), default=""), listed, suites)
    counts = {one.suite: {w: getattr(one, w) for w in ("faults", "detected", "explained")} for one in suites}
    each = {one.fault.id: kept.record(one) for one in verdicts}
    said = {"on": score.on, "listed": listed, "suites": counts, "faults": each}
    write_atomically(directory / FILE, json.dumps(said, indent=1) + "\n")
    for name, text in score.badges().items():
        write_atomically(directory / name, text)
