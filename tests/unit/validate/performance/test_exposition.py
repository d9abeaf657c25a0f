"""Samples of a few metrics out of many."""

from __future__ import annotations

import pytest

from harness.validate.performance.exposition import Sample, samples


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
