"""A whole set: how it is selected, and what a spec without its image came to."""

from __future__ import annotations

import pytest

from harness.errors import InfraError
from harness.spec.suites import CERTIFICATION, E2E
from harness.validate.conformance.upstream_run import (
    TOLD,
    SpecSet,
    WholeRun,
    differences,
    judged,
    properties,
    refuse_unpushed,
    unjudged,
)
from harness.validate.conformance.verdicts import SpecOutcome, SpecVerdict

MISSING = {"volume/nfs:1.6.0": "its server is a part of the kernel"}


def test_all_of_the_set_is_selected_by_its_label_and_less_by_names() -> None:
    assert SpecSet(CERTIFICATION, ("a", "b"), ("b", "a")).label == "Conformance"
    assert SpecSet(CERTIFICATION, ("a", "b"), ("b",)).label == ""
    assert SpecSet(CERTIFICATION, ("a", "b"), ("b", "a"), {"a": "why"}).label == ""
    assert SpecSet(E2E, ("a", "b"), ("b", "a"), {"a": "why"}).run == ("b",)
    assert SpecSet(E2E, ("a",), ("a",)).label == ""


def test_a_spec_that_failed_without_an_image_that_is_known_to_be_missing_was_not_run() -> None:
    failed = SpecVerdict(SpecOutcome.FAILED, 300.0, "timed out", unpulled=("10.0.0.1:5000/volume/nfs:1.6.0",))
    found = judged(failed, MISSING)
    assert found.outcome is SpecOutcome.NOT_RUN
    assert unjudged(found) == "image volume/nfs:1.6.0 is missing, because its server is a part of the kernel"
    assert properties(found) == {"spec": "not-run", "seconds": 300.0}


@pytest.mark.parametrize(
    "verdict",
    [
        SpecVerdict(SpecOutcome.FAILED, 1.0, "wrong", unpulled=("10.0.0.1:5000/nginx:1",)),
        SpecVerdict(SpecOutcome.FAILED, 1.0, "wrong"),
        SpecVerdict(SpecOutcome.PASSED, 1.0, unpulled=("10.0.0.1:5000/volume/nfs:1.6.0",)),
    ],
)
def test_no_other_verdict_changes(verdict: SpecVerdict) -> None:
    assert judged(verdict, MISSING) is verdict


def test_a_spec_that_skipped_itself_is_told_in_its_own_words() -> None:
    verdict = SpecVerdict(SpecOutcome.SKIPPED, text="the spec was skipped: skipped - needs two zones")
    assert unjudged(verdict) == "skipped by the spec itself: needs two zones"
    assert unjudged(SpecVerdict(SpecOutcome.PASSED)) is None
    assert unjudged(SpecVerdict(SpecOutcome.FAILED, text="wrong")) is None


def test_a_mirror_without_what_vmatrix_makes_is_the_infras_fault() -> None:
    refuse_unpushed(WholeRun({}, ()))
    with pytest.raises(InfraError, match="the mirror lacks nginx:1"):
        refuse_unpushed(WholeRun({}, ("nginx:1",)))


def test_lists_that_differ_say_in_what_and_do_not_end_in_a_flood() -> None:
    assert differences(["a", "b"], ["b", "a"]) == []
    assert differences(["a", "b"], ["b", "c"]) == ["not in the file: c", "not in e2e.test: a"]
    assert differences([], [str(n) for n in range(100)])[TOLD:] == [f"not in the file: {100 - TOLD} more"]
