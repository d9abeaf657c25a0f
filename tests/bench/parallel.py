"""Cells side by side on the real infrastructure: how much longer a run took than its own cells made it at least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harness import events
from harness.errors import ProductError
from harness.model import Cell
from harness.plan.select import PlanSelection, selected
from tests.bench.figures import Ledger
from tests.bench.ground import Ground, vmatrix

# Four cells that differ in size, version, operating system and settings; with room for five machines two of them wait.
CELLS = (
    ("kubernetes=1.36.3", "topology=cp1-w1", "scenario=fresh", "os=debian-13"),
    ("kubernetes=1.36.3", "topology=all-in-one", "scenario=fresh", "os=debian-13"),
    ("kubernetes=1.36.1", "topology=cp1-w2", "scenario=fresh"),
    ("kubernetes=1.36.1", "topology=all-in-one", "scenario=reset"),
)
MACHINES = 5
CHECKS = "nodes"  # the rest of the checks would only add to every cell alike
TARGET = 1.15
DETAIL_LINES = 30


@dataclass(frozen=True)
class Span:
    """A cell's time in a run, seconds: when it was admitted and when it was gone, and how many machines it had."""

    begin: float
    end: float
    machines: int


def measure(ground: Ground, ledger: Ledger, runs: int) -> None:
    """Run four cells with room for two or three of them, several times.

    Raises:
        ProductError: a run failed; what was measured before is in the ledger all the same.
    """
    cells = [_first(ground, filters) for filters in CELLS]
    ratios: list[float] = []
    walls: list[float] = []
    try:
        for _ in range(runs):
            spans = _one(ground, cells)
            walls.append(max(s.end for s in spans) - min(s.begin for s in spans))
            ratios.append(walls[-1] / lower_bound(spans, MACHINES))
    finally:
        note = f"{len(cells)} cells, room for {MACHINES} machines, the suite {CHECKS}"
        ledger.add("cells side by side", "s", walls, note=f"first admitted to last gone; {note}")
        ledger.add("- over the shortest time possible", "x", ratios, target=TARGET, note=note)


def _first(ground: Ground, filters: Sequence[str]) -> Cell:
    return selected(ground.spec, "embedded", PlanSelection(tuple(filters)))[0].cell


def _one(ground: Ground, cells: Sequence[Cell]) -> list[Span]:
    run_id = ground.run_id()
    directory = ground.directory / run_id
    done = vmatrix(
        *("run", *(cell.id for cell in cells), "--infra-name", ground.settings.infra_name, "-k", CHECKS),
        *("--max-machines", str(MACHINES), "--runs", str(ground.directory), "--run-id", run_id),
    )
    ground.say(f"parallel: {done.seconds:.1f} s, status {done.returncode}")
    if done.returncode != 0:
        raise ProductError(
            f"`vmatrix run` ended with status {done.returncode}",
            detail="\n".join(done.stdout.splitlines()[-DETAIL_LINES:]),
            paths=(directory,),
        )
    return spans_of(directory, {cell.id: len(cell.machines) for cell in cells})


def spans_of(directory: Path, machines: Mapping[str, int]) -> list[Span]:
    """Return each cell's time in a run, by its results."""
    begin: dict[str, float] = {}
    end: dict[str, float] = {}
    for event in events.read(directory):
        at = datetime.fromisoformat(event["time"]).timestamp()
        if event["event"] == "admitted":
            begin[event["cell"]] = at
        elif event["event"] == "step-end" and event["step"] == ["teardown"]:
            end[event["cell"]] = at
    return [Span(begin[cell], end[cell], count) for cell, count in machines.items()]


def lower_bound(spans: Sequence[Span], room: int) -> float:
    """Return the least seconds for cells of these lengths: the longest alone, or all machines' time over the room."""
    area = sum((s.end - s.begin) * s.machines for s in spans)
    return max(area / room, *(s.end - s.begin for s in spans))
