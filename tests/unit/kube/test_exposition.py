"""Figures in Prometheus' text format."""

from __future__ import annotations

from harness.kube.exposition import Family, Histogram, Tally

ASKED = Family("asked_total", "counter", "Questions.", ("who", "how"))


def test_a_counter_has_a_line_for_each_of_its_labels_values() -> None:
    count = Tally(ASKED)
    for who in ("b", "a", "a"):
        count.add(who, 'by "mail"\n')
    assert count.lines().splitlines() == [
        "# HELP asked_total Questions.",
        "# TYPE asked_total counter",
        r'asked_total{who="a",how="by \"mail\"\n"} 2',
        r'asked_total{who="b",how="by \"mail\"\n"} 1',
    ]


def test_a_gauge_without_labels_has_no_braces() -> None:
    assert Family("up", "gauge", "Whether.").lines({(): 0.5}).endswith("\nup 0.5\n")


def test_a_histogram_counts_each_observation_in_all_bounds_that_it_is_within() -> None:
    seconds = Histogram(Family("took_seconds", "histogram", "How long.", ("what",)), (1.0, 2.5))
    for value in (0.5, 1.0, 2.0, 9.0):
        seconds.observe(value, "a")
    assert seconds.lines().splitlines()[2:] == [
        'took_seconds_bucket{what="a",le="1"} 2',
        'took_seconds_bucket{what="a",le="2.5"} 3',
        'took_seconds_bucket{what="a",le="+Inf"} 4',
        'took_seconds_sum{what="a"} 12.5',
        'took_seconds_count{what="a"} 4',
    ]
