"""The same run several times: how many passed, and which exit code says it."""

from __future__ import annotations

import pytest

from harness import proc
from harness.interpreter import PYTEST, call
from harness.session.exit_codes import repeated, told, worst


@pytest.mark.parametrize(
    ("codes", "fail_fast", "runs", "code"),
    [
        ([0, 0, 0], False, 3, 0),
        ([0, 1, 0], False, 3, 1),
        ([0, 1, 0], True, 2, 1),
        ([75, 1, 3], False, 3, 1),
        ([3, 75, 0], False, 3, 3),
        ([2, 0, 0], False, 1, 2),
        ([4, 0, 0], False, 1, 4),
        ([0, 130, 0], False, 2, 130),
        ([0, -15, 0], False, 2, 143),
    ],
)
def test_each_run_is_a_process_and_the_worst_one_counts(
    codes: list[int], fail_fast: bool, runs: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, called = list(codes), list[list[str]]()

    def attend(words: list[str]) -> int:
        called.append(words)
        return left.pop(0)

    monkeypatch.setattr(proc, "attend", attend)
    assert repeated(["tests/cells", "--tier", "smoke"], 3, fail_fast=fail_fast) == code
    assert called == [call(PYTEST, "tests/cells", "--tier", "smoke")] * runs


def test_what_is_said_at_the_end() -> None:
    assert told([0, 1, 1, 3], 5) == ["1 of 4 runs passed, 1 not begun", "  exit code 1: 2", "  exit code 3: 1"]
    assert told([0, 0], 2) == ["2 of 2 runs passed"]
    assert worst([]) == 0
