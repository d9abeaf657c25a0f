"""Figures as checks carry them and as people read them."""

from __future__ import annotations

import pytest

from harness.validate.performance.figures import (
    KINDS,
    Figure,
    amount,
    calibrated,
    carried,
    carried_in,
    label_of,
    named,
    over_slo,
    slo_of,
    took,
)

FIGURE = Figure("pod_start_p99", "w-0", 1.234567, 0.25)


def test_what_is_carried_comes_back() -> None:
    assert carried_in({"figures": carried([FIGURE])}) == (Figure("pod_start_p99", "w-0", 1.2346, 0.25),)


@pytest.mark.parametrize(
    "row", [None, "text", [], ["a", "b", 1], ["a", "b", "1", 0], ["a", 2, 1, 0], ["a", "b", -1, 0], ["a", "b", True, 0]]
)
def test_what_is_no_figure_is_passed_over(row: object) -> None:
    good = ["dns_rate", "w-0", 5.0, 0.0]
    assert carried_in({"figures": [row, good]}) == (Figure("dns_rate", "w-0", 5.0),)
    assert carried_in({"figures": row}) == ()
    assert carried_in({}) == ()


def test_a_name_in_a_record_has_its_place_behind_it() -> None:
    assert named("api_p99 GET resource", 1.0, 0.5) == Figure("api_p99", "GET resource", 1.0, 0.5)
    assert named("scheduler_throughput", 80.0, 0.5) == Figure("scheduler_throughput", "", 80.0, 0.5)


def test_what_a_figure_takes_is_less_when_it_is_better() -> None:
    assert took(FIGURE) == 1.234567
    assert took(Figure("dns_rate", "w-0", 500.0)) == 0.002
    assert calibrated(FIGURE) == pytest.approx(4.938268)
    assert calibrated(Figure("dns_rate", "w-0", 500.0, 0.1)) == pytest.approx(0.02)
    assert took(Figure("service_programming", "w-0", 0.0)) > 0


def test_values_have_units_and_few_digits() -> None:
    assert amount("pod_start_p99", 1.2346) == "1.23 s"
    assert amount("pod_round_trip", 0.000123) == "0.123 ms"
    assert amount("dns_rate", 12345.6) == "12346 /s"
    assert amount("idle_memory", 512.34) == "512 MiB"
    assert amount("of_a_later_version", 2.0) == "2"


def test_a_kind_that_is_not_known_has_its_name() -> None:
    assert label_of(("of_a_later_version", "w-0")) == "of_a_later_version (w-0)"
    assert label_of(("scheduler_throughput", "")) == KINDS["scheduler_throughput"].label


def test_the_slo_of_a_request_depends_on_its_scope() -> None:
    assert slo_of("api_p99", "LIST namespace") == slo_of("api_p99", "LIST cluster") == 30.0
    assert slo_of("api_p99", "GET resource") == 1.0
    assert slo_of("idle_cpu", "w-0") is None
    assert over_slo(Figure("pod_start_p99", "w-0", 5.0)) is None
    assert over_slo(Figure("pod_start_p99", "w-0", 5.1)) == 5.0
