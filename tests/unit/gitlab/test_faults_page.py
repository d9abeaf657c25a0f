"""The table of docs/gitlab-faults.md is what is kept of the faults around a real runner's jobs."""

from __future__ import annotations

from tests.gitlab import faults

WHOLE = {"state", "reason", "code", "tries", "says", "left", "seen"}


def test_the_page_has_what_is_kept() -> None:
    text = faults.PAGE.read_text(encoding="utf-8")
    assert faults.page(text) == text, "python -m tests.gitlab.faults"


def test_what_is_kept_is_of_faults_that_are_looked_at() -> None:
    kept = faults.read()
    assert kept.keys() <= faults.FAULTS.keys()
    assert {name for name, found in kept.items() if found.keys() != WHOLE} == set()


def test_a_fault_without_a_result_says_so() -> None:
    lines = list(faults.written({}))
    assert sum("not run yet" in line for line in lines) == len(faults.FAULTS) == len(lines) - 2
