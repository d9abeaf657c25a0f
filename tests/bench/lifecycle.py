"""Each scenario of the lifecycle tiers, by the playbooks and by the operator in turns: the seconds of every phase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness import events
from harness.errors import ProductError
from harness.model import Cell
from harness.plan.select import PlanSelection, selected
from harness.plan.tiers import tier_cells
from tests.bench.figures import Ledger, stretch
from tests.bench.ground import Ground, vmatrix

TIERS = {"playbooks": "lifecycle", "operator": "operator-lifecycle"}
RATIO_TARGET = 1.3
DETAIL_LINES = 30


def measure(ground: Ground, ledger: Ledger, runs: int, cells: Sequence[str] = ()) -> None:
    """Run every cell that both tiers have, first by the playbooks.

    Args:
        cells: only those of the tier operator-lifecycle that these words mean, as `vmatrix run` understands them.

    Raises:
        BadInput: the words name an axis or a value that there is not.
        NothingSelected: a word means no cell.
        ProductError: a run failed; its figures, and those of the runs before it, are in the ledger all the same.
    """
    for twins in _pairs(ground, cells):
        name = f"{twins['operator'].scenario} {twins['operator'].values['topology']}"
        phases: dict[str, list[float]] = {product: [] for product in TIERS}
        shares: dict[str, list[dict[str, float]]] = {product: [] for product in TIERS}
        try:
            for number in range(1, runs + 1):
                for product, cell in twins.items():
                    ledger.stretch[f"{name}, {product} {number}"] = stretch()
                    shares[product].append(_phases(ground, cell, TIERS[product]))
                    phases[product].append(sum(shares[product][-1].values()))
                    ground.say(f"{name}, {product}: {phases[product][-1]:.1f} s")
        finally:
            _enter(ledger, name, phases, shares)


def _enter(
    ledger: Ledger, name: str, phases: dict[str, list[float]], shares: dict[str, list[dict[str, float]]]
) -> None:
    for product in TIERS:
        ledger.add(f"{name}, {product}", "s", phases[product], note="all phases, from their start to their end")
        ledger.share(f"{name}, {product}", shares[product])
    ratios = [mine / theirs for mine, theirs in zip(phases["operator"], phases["playbooks"], strict=False)]
    ledger.add(f"- {name}, operator / playbooks", "x", ratios, target=RATIO_TARGET, note="in turns")


def _pairs(ground: Ground, words: Sequence[str]) -> Iterator[dict[str, Cell]]:
    """Yield the cells that differ in their product alone."""
    theirs = {_but_product(cell): cell for cell in tier_cells(ground.spec, TIERS["playbooks"], "embedded")}
    meant = selected(ground.spec, "embedded", PlanSelection(tuple(words), TIERS["operator"]))
    for cell in (one.cell for one in meant):
        if (values := _but_product(cell)) in theirs:
            yield {"playbooks": theirs[values], "operator": cell}


def _but_product(cell: Cell) -> frozenset[tuple[str, str]]:
    return frozenset((axis, value) for axis, value in cell.values.items() if axis != "product")


def _phases(ground: Ground, cell: Cell, tier: str) -> dict[str, float]:
    """Run a cell; return the seconds of each of its phases."""
    run_id = ground.run_id()
    directory = ground.directory / run_id
    done = vmatrix(
        *("run", cell.id, "--tier", tier, "--infra-name", ground.settings.infra_name),
        *("--runs", str(ground.directory), "--run-id", run_id),
    )
    if done.returncode != 0:
        raise ProductError(
            f"`vmatrix run {cell.id}` ended with status {done.returncode}",
            detail="\n".join(done.stdout.splitlines()[-DETAIL_LINES:]),
            paths=(directory,),
        )
    return _seconds(directory, {cell.stage(index) for index in range(len(cell.phases))})


def _seconds(directory: Path, stages: set[str]) -> dict[str, float]:
    ends = (e for e in events.read(directory) if e["event"] == "step-end" and len(e["step"]) == 1)
    return {event["step"][0]: float(event["seconds"]) for event in ends if event["step"][0] in stages}
