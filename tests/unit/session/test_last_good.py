"""Between which commits a cell began to fail, by the history."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import BadInput
from harness.session.last_good import first_failure_at, good_and_bad


def ran(commit: str, outcome: str, blame: str = "", *, cell: str = "c", changed: bool = False) -> Any:
    return SimpleNamespace(
        cell=cell, outcome=outcome, blame=blame, where=SimpleNamespace(commit=commit, changed=changed)
    )


HISTORY = [
    ran("a", "failed", "product"),
    ran("b", "passed"),
    ran("c", "passed", cell="other"),
    ran("d", "failed", "infra"),
    ran("e", "failed", "product", changed=True),
    ran("f", "failed", "product"),
    ran("g", "failed", "product"),
]


def test_the_last_pass_and_the_first_failure_of_the_product_since() -> None:
    assert good_and_bad(HISTORY, "c", None, None) == ("b", "f")


def test_what_a_person_names_counts() -> None:
    assert good_and_bad(HISTORY, "c", "v1", None) == ("v1", "f")
    assert good_and_bad(HISTORY, "c", None, "main") == ("b", "main")


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([], "in which c passed"),
        (HISTORY[:1], "in which c passed"),
        (HISTORY[:4], "failed since by the product's fault"),
    ],
)
def test_a_history_that_does_not_say(records: list[Any], says: str) -> None:
    with pytest.raises(BadInput, match=says) as refused:
        good_and_bad(records, "c", None, None)
    assert "REV" in refused.value.hint


def test_what_failed_first_at_a_commit_is_the_last_runs_step_or_check() -> None:
    def failed(steps: list[Any], notes: list[Any]) -> Any:
        made = ran("f", "failed", "product")
        made.steps, made.notes = steps, notes
        return made

    step = SimpleNamespace(name="deploy", outcome="failed", message="task [x] failed\nmore")
    note = SimpleNamespace(checks=("nodes: test_a", "nodes: test_b"), outcome="failed", message="not true: y")
    passed = SimpleNamespace(name="provision", outcome="passed", message="")
    assert first_failure_at([failed([passed, step], [note])], "c", "f") == "deploy: task [x] failed"
    assert first_failure_at([failed([passed], [note])], "c", "f") == "nodes: test_a: not true: y"
    assert first_failure_at([failed([passed], [])], "c", "g") == ""
