"""What is left of the events when Ansible did not end by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.machines.runner.playbook_events import changed_by, ended_by

FAILED = (
    '{"event": "failed", "task": "t", "handler": false, "host": "a", "pardon": "", "item": null, "tolerant": false,'
    ' "result": {"msg": "m"}}\n'
)
END = '{"event": "end", "failed": {"a": 1}, "unreachable": {}}\n'
CLEAN = '{"event": "end", "failed": {}, "unreachable": {}}\n'


@pytest.mark.parametrize("text", ["", FAILED, FAILED[:40], f"{FAILED}{END[:20]}", CLEAN, f"{FAILED}{CLEAN}"])
def test_a_run_without_an_end_or_without_guilt_was_ended_by_nothing(text: str, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(text, encoding="utf-8")
    assert ended_by(path) is None
    assert ended_by(tmp_path / "missing") is None


def test_a_whole_run_was_ended_by_its_failure(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(FAILED + END, encoding="utf-8")
    ended = ended_by(path)
    assert ended is not None
    assert (ended.first.what, ended.first.host, list(ended.others)) == ("task [t]", "a", [])


CHANGED = (
    '{"event": "changed", "play": "all", "task": "copy", "handler": false, "host": "a", "pardon": "", "item": null,'
    ' "tolerant": false, "result": {}}\n'
)


def test_tasks_that_changed_something_are_told_in_words_and_ended_nothing(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(CHANGED + CHANGED.replace("false", "true", 1) + CLEAN, encoding="utf-8")
    assert changed_by(path) == ("task [copy] of play [all] on a", "handler [copy] of play [all] on a")
    assert ended_by(path) is None
    path.write_text(CHANGED + FAILED + END, encoding="utf-8")
    assert ended_by(path) is not None


def test_a_run_of_which_no_end_is_written_down_says_nothing_of_changes(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(CHANGED, encoding="utf-8")
    assert changed_by(path) is None
    assert changed_by(tmp_path / "missing") is None
