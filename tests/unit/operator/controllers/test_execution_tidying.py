"""Which Jobs are deleted."""

from __future__ import annotations

from typing import Any

from harness.operator.controllers.execution_tidying import surplus

Json = dict[str, Any]


def job(name: str, kind: str, minute: int, **meta: Any) -> Json:
    moment = f"2026-01-01T00:{minute:02}:00Z"
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": moment}] if kind else []
    return {"metadata": {"name": name, **meta}, "status": {"conditions": conditions, "completionTime": moment}}


def names(jobs: list[Json]) -> set[str]:
    return {one["metadata"]["name"] for one in jobs}


JOBS = [job("a", "Failed", 1), job("b", "Complete", 2), job("c", "Failed", 3), job("d", "Complete", 4)]


def test_the_latest_of_each_end_are_kept() -> None:
    assert names(surplus(JOBS, keep_failed=1, keep_succeeded=1)) == {"a", "b"}
    assert surplus(JOBS, keep_failed=3, keep_succeeded=3) == []
    assert names(surplus(JOBS, keep_failed=0, keep_succeeded=0)) == {"a", "b", "c", "d"}


def test_what_runs_or_is_being_deleted_is_left_alone() -> None:
    more = [job("runs", "", 5), job("goes", "Failed", 0, deletionTimestamp="2026-01-01T00:00:00Z")]
    assert surplus(more, keep_failed=0, keep_succeeded=0) == []
