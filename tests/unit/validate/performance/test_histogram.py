"""Histograms as programs expose them: means, quantiles, and what was observed between two looks."""

from __future__ import annotations

import math

import pytest

from harness.validate.performance.exposition import samples
from harness.validate.performance.histogram import Buckets, between, histograms, names

TEXT = """\
# TYPE took_seconds histogram
took_seconds_bucket{verb="GET",le="0.005"} 10
took_seconds_bucket{verb="GET",le="0.1"} 90
took_seconds_bucket{verb="GET",le="+Inf"} 100
took_seconds_sum{verb="GET"} 5
took_seconds_count{verb="GET"} 100
took_seconds_bucket{verb="PUT",le="0.005"} 0
took_seconds_bucket{verb="PUT",le="0.1"} 4
took_seconds_bucket{verb="PUT",le="+Inf"} 4
took_seconds_sum{verb="PUT"} 0.2
took_seconds_count{verb="PUT"} 4
took_seconds_of_another_bucket{verb="GET",le="+Inf"} 7
"""


def read(text: str = TEXT) -> dict[str, Buckets]:
    return histograms(samples(text, names("took_seconds")), "took_seconds", lambda labels: labels["verb"])


def test_a_quantile_is_interpolated_within_its_bucket() -> None:
    found = read()["GET"]
    assert (found.count, found.mean) == (100, 0.05)
    assert found.quantile(0.5) == pytest.approx(0.005 + 0.095 * 40 / 80)
    assert found.quantile(0.05) == pytest.approx(0.0025)


def test_what_lies_above_the_last_bound_counts_as_that_bound() -> None:
    assert read()["GET"].quantile(0.99) == 0.1


def test_nothing_observed_has_no_quantile() -> None:
    assert (Buckets({}).quantile(0.99), Buckets({}).mean, Buckets({}).count) == (0.0, 0.0, 0.0)
    assert Buckets({1.0: 0.0, math.inf: 0.0}).quantile(0.5) == 0.0


def test_only_what_came_in_between_counts() -> None:
    before, after = (
        read(),
        read(TEXT.replace('"0.1"} 90', '"0.1"} 190').replace("100\n", "200\n").replace("} 5", "} 15")),
    )
    found = between(before, after)
    assert set(found) == {"GET"}
    assert (found["GET"].count, found["GET"].mean) == (100, 0.1)


def test_a_program_that_started_anew_is_taken_as_it_is() -> None:
    assert read()["PUT"].since(read()["GET"]) == read()["PUT"]


def test_histograms_of_one_key_are_added() -> None:
    found = histograms(samples(TEXT, names("took_seconds")), "took_seconds", lambda _: "all")
    assert (found["all"].count, found["all"].total) == (104, 5.2)


def test_what_has_no_key_does_not_count() -> None:
    found = histograms(
        samples(TEXT, names("took_seconds")), "took_seconds", lambda labels: "x" if labels["verb"] == "PUT" else None
    )
    assert found["x"].count == 4
