"""A failed check reports everything a person needs; a check without machines is a bug of the harness."""

from __future__ import annotations

import pytest

from harness.errors import HarnessBug
from harness.validate.findings import CheckFailed, Mismatch, on_every, require, same_set


def test_a_check_without_machines_is_a_bug_of_the_harness() -> None:
    with pytest.raises(HarnessBug):
        on_every((), {}, lambda *_: [])


def test_sets_differ_by_what_is_missing_and_by_what_is_too_much() -> None:
    assert [str(one) for one in same_set("it", "pods", ("a", "b"), ("b", "c"))] == [
        "it: expected pods a, b; saw no a",
        "it: expected no other pods than a, b; saw c",
    ]
    assert [str(one) for one in same_set("it", "pods", (), ("c",))] == ["it: expected no pods; saw c"]


def test_a_failed_check_says_everything_a_person_needs() -> None:
    found = [Mismatch("cp-0 kubelet", "version '1.36.3'", "'1.35.4'"), Mismatch("w-0", "an answer", "none")]
    with pytest.raises(CheckFailed) as failed:
        require(found, claim="all is well", look="the log", do="vmatrix login cell cp-0")
    assert str(failed.value).splitlines() == [
        "not true: all is well",
        "  - cp-0 kubelet: expected version '1.36.3'; saw '1.35.4'",
        "  - w-0: expected an answer; saw none",
        "look at: the log",
        "type:    vmatrix login cell cp-0",
    ]
