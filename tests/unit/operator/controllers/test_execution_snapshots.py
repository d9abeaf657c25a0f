"""The snapshots that a Cluster knows of, once an operation on one has ended."""

from __future__ import annotations

from typing import Any

from harness.operator.controllers.execution_snapshots import snapshots_after

PLACE = {"backup": "a", "uid": "uid-a", "claim": "claim", "file": "guest/a.db"}
OLD = {**PLACE, "backup": "old", "uid": "uid-old", "file": "guest/old.db"}
OPERATION: dict[str, Any] = {"operation": "backup", "snapshot": PLACE}


def test_snapshot_that_was_taken_comes_first_with_what_was_found_out() -> None:
    made = snapshots_after([OLD], OPERATION, {"revision": 7, "member": "m-0", "strange": "x"})
    assert made == [{**PLACE, "revision": 7, "member": "m-0"}, OLD]


def test_file_that_was_written_again_is_known_once() -> None:
    earlier = {**PLACE, "uid": "uid-earlier", "revision": 1}
    assert snapshots_after([earlier, OLD], OPERATION, {}) == [PLACE, OLD]


def test_files_that_the_operation_deleted_are_known_no_more() -> None:
    telling = {**OPERATION, "snapshot": {**PLACE, "forget": ["guest/old.db"]}}
    elsewhere = {**OLD, "claim": "other"}
    assert snapshots_after([OLD, elsewhere], telling, {}) == [PLACE, elsewhere]
    assert snapshots_after([OLD, PLACE], {**telling, "operation": "recover"}, {}) == [PLACE]


def test_words_of_another_form_say_nothing() -> None:
    assert snapshots_after([], OPERATION, {"revision": "many"}) == [PLACE]


def test_other_operations_change_nothing() -> None:
    assert snapshots_after([OLD], {"operation": "deploy"}, {}) == [OLD]
