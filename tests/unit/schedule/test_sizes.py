"""With how much memory cells are admitted, by what their machines took before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.history.file import FileStore
from harness.history.record import MachineRecord, Record, from_line, to_line
from harness.model import Cell
from harness.schedule.sizes import DECLARED, Sizes
from harness.spec.models.space import MeasuredMemory
from harness.spec.settings import Settings
from tests.unit.history.make import record
from tests.unit.schedule.matrix import cell

SMOKE = cell("smoke", 2048, 1536)
SIBLING = cell("sibling", 2048, 1536)
SIBLING = replace(SIBLING, values={**SIBLING.values, "kubernetes": "1.35.4"})
STRANGER = cell("stranger", 2560, topology="all-in-one")
RULE = MeasuredMemory(margin=1.2)


def took(*peaks: tuple[int, int], of: Cell = SMOKE, provider: str = "embedded", **more: Any) -> list[Record]:
    """Return a record for each run of a control plane and a worker that took so much, the oldest first."""
    return [
        record(
            number,
            of.id,
            of=len(peaks),
            axes=of.values,
            provider=provider,
            usage={"cp-0": MachineRecord(peak=control_plane), "w-1": MachineRecord(peak=worker)},
            **more,
        )
        for number, (control_plane, worker) in enumerate(peaks)
    ]


def known(*records: Record, provider: str = "embedded", rule: MeasuredMemory | None = RULE) -> Sizes:
    return Sizes.of(b"".join(map(to_line, records)), provider, rule)


def test_nothing_known_is_what_machines_declare() -> None:
    size = known().expected(SMOKE)
    assert (size.machines, size.source, size.memory_mib(SMOKE)) == ({}, DECLARED, 3584)


def test_the_most_of_the_last_runs_counts_with_the_margin() -> None:
    size = known(*took((9999, 9999), (1000, 500), (900, 600), (800, 400), (800, 400), (800, 400))).expected(SMOKE)
    assert size.machines == {"cp-0": 1200, "w-1": 720}
    assert size.source == "the most in the last 5 runs of these values, times 1.2"
    assert size.memory_mib(SMOKE) == 1920


def test_a_run_that_took_more_raises_the_figure_of_the_next() -> None:
    assert known(*took((1000, 500), (1300, 500))).expected(SMOKE).machines["cp-0"] == 1560


def test_no_machine_counts_by_more_than_it_declares() -> None:
    assert known(*took((2000, 500))).expected(SMOKE).machines == {"cp-0": 2048, "w-1": 600}


def test_a_machine_that_nobody_has_measured_counts_as_declared() -> None:
    one = record(0, SMOKE.id, axes=SMOKE.values, provider="embedded", usage={"cp-0": MachineRecord(peak=1000)})
    size = known(one).expected(SMOKE)
    assert (size.machines, size.memory_mib(SMOKE)) == ({"cp-0": 1200}, 1200 + 1536)


def test_what_values_cost_comes_second_where_topology_and_scenario_are_known() -> None:
    size = known(*took((1000, 500))).expected(SIBLING)
    assert size.machines["w-1"] == pytest.approx(600, abs=2)
    assert size.source == "what its values cost in the last run, times 1.2"
    assert known(*took((1000, 500))).expected(STRANGER).source == DECLARED


def test_failed_runs_raise_it_and_are_not_enough_for_it() -> None:
    failed = took((1500, 100), outcome="failed")
    assert known(*failed).expected(SMOKE).machines == {}
    passed = took((1000, 500), (1000, 500))[:1]
    assert known(*passed, *failed).expected(SMOKE).machines == {"cp-0": 1800, "w-1": 600}


def test_other_providers_and_infra_profiles_without_the_rule_know_nothing() -> None:
    assert known(*took((1000, 500), provider="kubeconfig")).expected(SMOKE).machines == {}
    assert known(*took((1000, 500)), rule=None).expected(SMOKE).machines == {}


def test_cells_whose_machines_somebody_else_makes_count_as_declared() -> None:
    sizes = Sizes(known(*took((1000, 500))).runs, 1.2, lambda cell: cell.id == SIBLING.id)
    assert sizes.of_all([SMOKE, SIBLING, STRANGER]) == {"smoke": {"cp-0": 1200, "w-1": 600}}


@pytest.mark.parametrize("line", [b'{"usage": 1}', b'"usage"', to_line(record(0, SMOKE.id, provider="embedded"))])
def test_lines_without_a_measurement_are_left_out(line: bytes) -> None:
    assert Sizes.of(line + b"\n" + to_line(*took((1000, 500))), "embedded", RULE).runs[0].cell == SMOKE.id
    assert Sizes.of(line, "embedded", RULE).runs == ()


def test_it_is_read_from_the_file_that_runs_write(tmp_path: Path) -> None:
    settings = Settings(runs=tmp_path)
    assert Sizes.load(settings, {}, RULE).runs == ()
    FileStore(tmp_path / "history.jsonl").append(took((1000, 500)))
    assert Sizes.load(settings, {}, RULE).expected(SMOKE).machines == {"cp-0": 1200, "w-1": 600}
    (tmp_path / "history.jsonl").unlink()
    (tmp_path / "history.jsonl").mkdir()
    assert Sizes.load(settings, {}, RULE).runs == ()


def test_a_record_keeps_what_machines_took() -> None:
    (made,) = took((1000, 500))
    assert from_line(to_line(made)).usage == made.usage
