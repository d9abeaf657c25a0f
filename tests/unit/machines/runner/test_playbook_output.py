"""What Ansible's output says: which task failed on which host, and whose fault it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import InfraError, InfraRetriable, ProductError
from harness.machines.runner.playbook_output import (
    Ended,
    Recap,
    TaskFailure,
    changed_by,
    ended_by,
    failure_of,
    last_task,
    recap,
)
from harness.proc import Completed

FAILED = """
PLAY [control_plane] ***
TASK [control_plane : Initialise] **************
fatal: [cp-0]: FAILED! => {"changed": true, "cmd": ["kubeadm", "init"], "msg": "non-zero return code", "rc": 1}
PLAY RECAP *********
cp-0 : ok=12   changed=8    unreachable=0    failed=1    skipped=2    rescued=0    ignored=0
w-0                        : ok=10   changed=7    unreachable=0    failed=0    skipped=1    rescued=0    ignored=0
"""
UNREACHABLE = """
TASK [bootstrap_os : Gather] ***
fatal: [w-0]: UNREACHABLE! => {"changed": false, "msg": "Failed to connect: timed out"}
"""
LOOP = """
TASK [preinstall : Write] ***
failed: [cp-0] (item=a) => {"ansible_loop_var": "item", "changed": false, "item": "a", "msg": "No space left on device"}
"""


DONE = Completed(("ansible-playbook",), 2, "", "", 1.0)


def failure(output: str, status: int = 2) -> ProductError | InfraError:
    return failure_of(
        Completed(("ansible-playbook",), status, output, "", 1.0), Path("cluster.yml"), Path("deploy.log")
    )


def test_a_failed_task_is_the_products_fault_and_is_named() -> None:
    found = failure(FAILED)
    assert isinstance(found, ProductError)
    assert found.summary == "task [control_plane : Initialise] failed on cp-0: non-zero return code"
    assert found.paths == (Path("deploy.log"),)


def test_an_unreachable_machine_is_the_infras_fault() -> None:
    found = failure(UNREACHABLE, 4)
    assert isinstance(found, InfraError)
    assert "w-0 could not be reached in task [bootstrap_os : Gather]: Failed to connect" in found.summary


def test_a_failed_loop_item_is_found() -> None:
    assert failure(LOOP).summary == "task [preinstall : Write] failed on cp-0: No space left on device"


def test_an_end_without_a_failed_task_is_said() -> None:
    assert "ended with status 5 before any task failed" in failure("ERROR! syntax", 5).summary


def test_the_recap_is_read() -> None:
    assert recap(FAILED) == (Recap("cp-0", 12, 8, 0, 1), Recap("w-0", 10, 7, 0, 0))


@pytest.mark.parametrize(("output", "name"), [(FAILED, "control_plane : Initialise"), ("", "none")])
def test_the_last_task_is_named(output: str, name: str) -> None:
    assert last_task(output) == name


def test_a_process_of_ansibles_that_was_killed_is_the_infrastructures_fault() -> None:
    output = "TASK [etcd : Start] ***\n[ERROR]: Task failed: A worker was found in a dead state\n"
    found = failure(output, 1)
    assert isinstance(found, InfraRetriable)
    assert found.summary == "ansible-playbook was killed, one process of it, in task [etcd : Start]"


def test_an_error_is_told_once_and_a_long_message_is_cut_between_words() -> None:
    line = "ERROR: no such flag"
    repeated = Ended(
        TaskFailure("Join", False, "w-0", False, False, None, {"msg": line, "stderr_lines": [line] * 3}), ()
    )
    assert failure_of(DONE, Path("cluster.yml"), Path("log"), repeated).summary == f"task [Join] failed on w-0: {line}"
    address = "http://192.0.2.1:8080/bin/kubeadm/1.36.99/kubeadm"
    long = Ended(TaskFailure("Ask", False, "w-0", False, False, None, {"msg": " ".join([address] * 20)}), ())
    words = failure_of(DONE, Path("cluster.yml"), Path("log"), long).summary.split()
    assert words[-1] == "..."
    assert set(words[5:-1]) == {address}


FAILED_EVENT = (
    '{"event": "failed", "task": "t", "handler": false, "host": "a", "pardon": "", "item": null, "tolerant": false,'
    ' "result": {"msg": "m"}}\n'
)
END = '{"event": "end", "failed": {"a": 1}, "unreachable": {}}\n'
CLEAN = '{"event": "end", "failed": {}, "unreachable": {}}\n'


@pytest.mark.parametrize(
    "text", ["", FAILED_EVENT, FAILED_EVENT[:40], f"{FAILED_EVENT}{END[:20]}", CLEAN, f"{FAILED_EVENT}{CLEAN}"]
)
def test_a_run_without_an_end_or_without_guilt_was_ended_by_nothing(text: str, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(text, encoding="utf-8")
    assert ended_by(path) is None
    assert ended_by(tmp_path / "missing") is None


def test_a_whole_run_was_ended_by_its_failure(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(FAILED_EVENT + END, encoding="utf-8")
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
    path.write_text(CHANGED + FAILED_EVENT + END, encoding="utf-8")
    assert ended_by(path) is not None


def test_a_run_of_which_no_end_is_written_down_says_nothing_of_changes(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(CHANGED, encoding="utf-8")
    assert changed_by(path) is None
    assert changed_by(tmp_path / "missing") is None
