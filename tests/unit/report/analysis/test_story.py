"""A cell's figures over the nights: the worst place of each, and what is slower in the last record."""

from __future__ import annotations

from harness.history.record import Record
from harness.report.analysis.story import figures_of, of_record
from harness.validate.performance.comparison import NOW, PAST
from harness.validate.performance.figures import Figure
from tests.unit.history.make import record


def measured(night: int, stage: str = "deploy", **figures: float) -> Record:
    """Return a record with figures, of each two places of which the second is the worse."""
    amounts = {f"{name} w-{n}": (value * (1 + 0.01 * n), 0.0) for name, value in figures.items() for n in (0, 1)}
    return record(night, figures={stage: amounts})


def test_the_worst_place_of_each_kind_is_told_by_night() -> None:
    records = [(0, measured(0, pod_start_p50=1.0, dns_rate=100.0)), (2, measured(2, pod_start_p50=2.0))]
    found = figures_of(records, 4)
    assert found.series == {"pod_start_p50": (1.01, None, 2.02, None), "dns_rate": (100.0, None, None, None)}


def test_the_last_record_is_compared_by_phase() -> None:
    nights = [measured(n, pod_start_p50=1.0 if n < PAST else 2.0) for n in range(PAST + NOW)]
    found = figures_of(list(enumerate(nights)), len(nights))
    slower = found.compared["deploy"].slower
    assert {(one.figure.where, round(one.ratio, 2)) for one in slower} == {("w-0", 2.0), ("w-1", 2.0)}


def test_another_phase_is_another_series() -> None:
    nights = [measured(n, pod_start_p50=1.0) for n in range(PAST)]
    nights += [measured(n, "upgrade", pod_start_p50=9.0) for n in range(PAST, PAST + NOW)]
    found = figures_of(list(enumerate(nights)), len(nights))
    assert found.series["pod_start_p50"][:PAST] == (None,) * PAST
    assert found.compared["upgrade"].compared == 0


def test_a_cell_without_figures_has_none() -> None:
    assert figures_of([(0, record())], 1).series == {}


def test_kinds_of_a_later_version_come_last_under_their_names() -> None:
    found = figures_of([(0, measured(0, of_a_later_version=1.0, pod_start_p50=1.0))], 1)
    assert list(found.series) == ["pod_start_p50", "of_a_later_version"]


def test_a_record_has_figures_by_name_and_place() -> None:
    made = record(figures={"deploy": {"api_p99 GET resource": (0.5, 0.1)}})
    assert of_record(made, "deploy") == {("api_p99", "GET resource"): Figure("api_p99", "GET resource", 0.5, 0.1)}
