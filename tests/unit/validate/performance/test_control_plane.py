"""Histograms as programs expose them, read: samples, means, quantiles, and what was observed between two looks."""

from __future__ import annotations

import math

import pytest

from harness.validate.performance.control_plane import (
    Buckets,
    Sample,
    between,
    histograms,
    histograms_of,
    names,
    samples,
)


def test_only_the_metrics_that_are_asked_for_are_read() -> None:
    text = '# HELP a_total x\na_total 1\na_total_more 2\nb{} 3\nc{x="y"} 4 1700000000000\n'
    assert samples(text, ["a_total", "c"]) == [Sample("a_total", {}, 1.0), Sample("c", {"x": "y"}, 4.0)]


def test_labels_may_hold_anything() -> None:
    (found,) = samples(r'a{one="with \"quotes\", a comma\\ and\na line",le="+Inf",} 1e-3', ["a"])
    assert found == Sample("a", {"one": 'with "quotes", a comma\\ and\na line', "le": "+Inf"}, 0.001)


def test_special_numbers_are_read() -> None:
    assert [one.value for one in samples("a 1e+06\na +Inf\n", ["a"])] == [1e6, float("inf")]


@pytest.mark.parametrize("line", ["a", "a{x=1} 2", 'a{x="y" 2', "a{} two"])
def test_what_is_no_sample_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"not|could not"):
        samples(line, ["a"])


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


LINES = [
    'etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} 10',
    'etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"} 20',
    "etcd_disk_wal_fsync_duration_seconds_sum 0.05",
    "etcd_disk_wal_fsync_duration_seconds_count 20",
    'etcd_disk_backend_commit_duration_seconds_bucket{le="+Inf"} 4',
    "etcd_disk_backend_commit_duration_seconds_sum 0.08",
]


def test_both_histograms_are_found() -> None:
    found = histograms_of({"lines": LINES, "error": ""})
    assert {name: (one.count, one.mean) for name, one in found.items()} == {"fsync": (20, 0.0025), "commit": (4, 0.02)}


def test_a_machine_without_etcd_has_none() -> None:
    assert histograms_of(None) == {}
    assert histograms_of({"lines": [], "error": "refused"}) == {}
