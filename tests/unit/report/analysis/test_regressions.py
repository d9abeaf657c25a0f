"""What got worse with a value by more than chance, and how much of the matrix a week judged."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import comb

import pytest

from harness.history.record import Record
from harness.report.analysis.nights import nights_of
from harness.report.analysis.planned import Week, week_of
from harness.report.analysis.regressions import fisher, worse_of
from tests.unit.history.make import checked, record

DNS = "network: test_dns"
READY = "nodes: test_ready"
CELLS = [{"ip": ip, "os": os, "size": size} for ip, os, size in product(("v4", "dual"), "abc", "xyz")]


def night(number: int, fails: dict[str, str] | None, of: int = 6, tag: str = "") -> list[Record]:
    """Return a night in which a check fails in the cells with some values."""
    made = []
    for place, axes in enumerate(CELLS):
        bad = fails is not None and fails.items() <= axes.items()
        base = record(number, f"c{place}", of=of, outcome="failed" if bad else "passed", axes=axes)
        base = replace(base, where=replace(base.where, tag=tag))
        made.append(checked(base, {READY: "p", DNS: "f" if bad else "p"}))
    return made


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ((3, 4, 1, 4), 17 / 70),  # Fisher's own: who tasted the milk first
        ((0, 10, 0, 10), 1.0),
        ((0, 10, 5, 10), 1.0),
        ((10, 10, 0, 10), 1 / comb(20, 10)),
        ((1, 1, 0, 9), 0.1),
    ],
)
def test_fishers_exact_test_of_more_failures(table: tuple[int, int, int, int], expected: float) -> None:
    assert fisher(*table) == pytest.approx(expected)


def test_a_value_with_which_a_check_got_worse_is_named_first() -> None:
    nights = nights_of([r for n in range(6) for r in night(n, {"ip": "dual"} if n == 5 else None)])
    first = worse_of(nights)[0]
    assert (first.axis, first.value, first.check) == ("ip", "dual", DNS)
    assert (first.failed, first.judged, first.failed_before, first.judged_before) == (9, 9, 0, 45)
    assert first.p == pytest.approx(fisher(9, 9, 0, 45))
    assert first.against == ""


@pytest.mark.parametrize("fails", [None, {"ip": "dual"}, {"ip": "dual", "os": "a", "size": "x"}])
def test_what_fails_as_often_as_before_is_not_named(fails: dict[str, str] | None) -> None:
    assert worse_of(nights_of([r for n in range(6) for r in night(n, fails)])) == ()


def test_one_failure_is_within_chance() -> None:
    lone = {"ip": "dual", "os": "a", "size": "x"}
    nights = nights_of([r for n in range(6) for r in night(n, lone if n == 5 else None)])
    assert worse_of(nights) == ()


def test_nights_of_a_tag_are_what_the_last_one_is_compared_with() -> None:
    tagged = [*night(0, {"ip": "dual"}, tag="v1"), *night(1, None, tag="v2")]
    nights = nights_of([r for n in range(2, 6) for r in night(n, {"ip": "dual"})])
    assert worse_of(nights) == ()
    found = worse_of(nights, tagged)
    assert {one.against for one in found} == {"v2"}
    assert (found[0].axis, found[0].value, found[0].judged_before) == ("ip", "dual", 9)


def test_a_week_counts_different_cells_pairs_and_triples() -> None:
    nights = nights_of([r for n in range(6) for r in night(n, None)])
    pairs = 2 * 3 + 2 * 3 + 3 * 3
    assert week_of(nights, None) == Week(6, 18, pairs, 18, None)
    possible = frozenset({(("ip", "v4"), ("os", "a")), (("ip", "v4"), ("os", "d"))})
    assert week_of(nights, possible) == Week(6, 18, 1, 18, 2)
    assert week_of((), None) is None


def test_a_week_has_seven_days() -> None:
    nights = nights_of([r for n in range(20) for r in night(n, None, of=20)])
    found = week_of(nights, None)
    assert found is not None
    assert found.nights == 7
