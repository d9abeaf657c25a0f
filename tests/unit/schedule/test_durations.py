"""What cells are expected to take, by a history of which nothing may be right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.history import file
from harness.history.file import FileStore
from harness.history.record import Record, to_line
from harness.model import Cell
from harness.schedule.durations import Durations, estimate
from harness.spec.settings import Settings
from tests.unit.history.make import record
from tests.unit.schedule.matrix import cell

SMOKE = cell("smoke", 2048, 1536)
SIBLING = cell("sibling", 2048, 1536)
SIBLING = replace(SIBLING, values={**SIBLING.values, "kubernetes": "1.35.4"})
STRANGER = cell("stranger", 2048, topology="all-in-one", scenario="upgrade")


def took(*seconds: float, of: Cell = SMOKE, provider: str = "embedded", **more: Any) -> list[Record]:
    """Return a record for each of some runs, the oldest first."""
    made = {"axes": of.values, "provider": provider, "estimate": round(estimate(of), 1), **more}
    return [record(n, of.id, of=len(seconds), seconds=float(value), **made) for n, value in enumerate(seconds)]


def known(*records: Record, provider: str = "embedded") -> Durations:
    return Durations.of(b"".join(map(to_line, records)), provider)


def test_nothing_known_is_the_estimate() -> None:
    expected = known().expected(SMOKE)
    assert expected.seconds == estimate(SMOKE)
    assert expected.source == "estimated from its machines and phases"


def test_a_cells_own_last_runs_count_first() -> None:
    expected = known(*took(50, of=SIBLING), *took(1000, 1000, 90, 110, 100, 95, 105)).expected(SMOKE)
    assert (expected.seconds, expected.source) == (100, "the median of 5 runs of these values")


def test_the_last_runs_are_the_latest_in_whatever_order_they_were_added() -> None:
    assert known(*reversed(took(1000, 1000, 90, 110, 100, 95, 105))).expected(SMOKE).seconds == 100


def test_runs_of_the_same_values_count_whatever_the_id_was() -> None:
    assert known(*took(90, of=replace(SMOKE, id="former"))).expected(SMOKE).seconds == 90


def test_what_values_cost_comes_second() -> None:
    expected = known(*took(90, 120, 100)).expected(SIBLING)
    assert expected.seconds == pytest.approx(100, rel=0.05)
    assert expected.source.endswith("by what its values cost in 3 runs")


def test_an_estimate_is_stretched_as_the_infra_stretches_others() -> None:
    expected = known(*took(2 * estimate(SMOKE))).expected(STRANGER)
    assert expected.seconds == pytest.approx(2 * estimate(STRANGER), rel=0.01)
    assert "times 2.00" in expected.source


def test_a_record_of_before_estimates_tells_of_its_cell_and_stretches_nothing() -> None:
    old = known(*took(77, estimate=0.0))
    assert old.expected(SMOKE).seconds == 77
    assert old.expected(STRANGER).seconds == estimate(STRANGER)


@pytest.mark.parametrize("change", [{"outcome": "failed"}, {"outcome": "quarantined"}, {"provider": "kubeconfig"}])
def test_failed_runs_and_other_providers_say_nothing(change: dict[str, Any]) -> None:
    assert known(*took(7, **change)).expected(SMOKE).seconds == estimate(SMOKE)


@pytest.mark.parametrize(("recorded", "asked"), [("local", "embedded"), ("embedded", "local"), ("local", "local")])
def test_a_provider_is_the_same_by_its_former_name(recorded: str, asked: str) -> None:
    assert known(*took(7, provider=recorded), provider=asked).expected(SMOKE).seconds == 7


@pytest.mark.parametrize(
    "rubbish", [b"{", b"[]", b"7", b"null", b'{"cell": 1}', b"\x00\xff", b'{"v":1,"id":"x","cell":"smoke","seco']
)
def test_what_is_no_record_is_left_out(rubbish: bytes) -> None:
    first, second = map(to_line, took(100, 110))
    assert Durations.of(rubbish + b"\n" + first + rubbish + b"\n" + second, "embedded").expected(SMOKE).seconds == 105


@pytest.mark.parametrize("seconds", [b"NaN", b"Infinity", b"-1", b"0", b'"9"', b"true", b"null"])
def test_a_duration_that_is_none_is_left_out(seconds: bytes) -> None:
    line = to_line(replace(took(100)[0], seconds=123.5)).replace(b"123.5", seconds)
    assert Durations.of(line, "embedded").runs == ()


def test_a_record_that_is_there_twice_counts_once() -> None:
    assert len(known(*took(100), *took(100)).runs) == 1


def test_a_desk_reads_the_file_that_its_runs_are_kept_in(tmp_path: Path) -> None:
    settings = Settings(runs=tmp_path, report_history="package")
    assert Durations.load(settings, {}).runs == ()
    FileStore(tmp_path / "history.jsonl").append(took(100))
    assert Durations.load(settings, {}).expected(SMOKE).seconds == 100


def test_of_a_long_file_only_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FileStore(tmp_path / "history.jsonl").append(took(*range(100, 200)))
    monkeypatch.setattr(file, "RECENT_BYTES", 5000)
    runs = Durations.load(Settings(runs=tmp_path), {}).runs
    assert 0 < len(runs) < 20
    assert runs[-1].seconds == 199


@pytest.mark.parametrize("environment", [{}, {"CI_JOB_ID": "7"}])
def test_a_history_that_cannot_be_read_is_none(
    tmp_path: Path, environment: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(runs=tmp_path, report_history="package")
    (tmp_path / "history.jsonl").mkdir()
    assert Durations.load(settings, environment).runs == ()
    assert "the history cannot be read" in caplog.text


def test_more_machines_and_more_phases_take_longer() -> None:
    small, larger = cell("a", 2048), cell("b", 2048, 1536, 1536)
    upgraded = cell("c", 2048, scenario="upgrade")
    assert 60 < estimate(small) < estimate(larger) < estimate(upgraded)
    assert estimate(cell("d", 2048, scenario="never-heard-of")) > estimate(small)


def test_a_product_says_how_long_its_phases_take() -> None:
    own = cell("a", 2048, 1536, scenario="upgrade")
    said = replace(own, phases=tuple(replace(phase, seconds=550.0) for phase in own.phases))
    around = estimate(replace(own, phases=tuple(replace(phase, seconds=1.0) for phase in own.phases)))
    assert estimate(said) - around == 2 * 549
