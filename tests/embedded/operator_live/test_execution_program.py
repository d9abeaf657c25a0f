"""Executors on a real API server, with real Ansible on this host: what they keep of a cluster however they end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.kube.client import Cluster
from harness.kube.resources import JOB, SECRET
from harness.operator.execute import logs
from harness.operator.execute.inputs import state_name
from harness.operator.execute.logs import show_log
from harness.operator.execute.termination import progress_of
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.executions import NAME, Executor, Lab
from tests.embedded.operator.played import WAIT_SECONDS

COPY = "ansible.builtin.copy"
KEEP = {"name": "Keep", COPY: {"dest": "{{ cluster_kubeconfig_path }}.join", "content": "token: abcdef.0123456789\n"}}
FIND = {"name": "Find", "ansible.builtin.command": "cat {{ cluster_kubeconfig_path }}.join"}
FAIL = {"name": "Join", "ansible.builtin.fail": {"msg": "refused: abcdef.0123456789"}}
KEPT = {"kubeconfig.join": b"token: abcdef.0123456789\n"}


@pytest.fixture
def lab(api: Cluster, namespace: str, infra: EmbeddedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Return operations in a namespace of the test's own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return Lab(api, namespace, infra.kubeconfig(), tmp_path)


def waiting(folder: Path) -> tuple[dict[str, object], Path]:
    """Return a task that says that it has begun and then waits, and the file by which it does."""
    begun = folder / "begun"
    return {"name": "Wait", "ansible.builtin.shell": f"touch {begun} && sleep 900"}, begun


def await_file(path: Path, executor: Executor) -> None:
    """Wait until a task has begun."""

    def there() -> bool | NotYet:
        assert executor.process.poll() is None, executor.process.communicate()[0]
        return path.exists() or NotYet("the task has not begun")

    until(there, deadline=Deadline.after(WAIT_SECONDS * 4), what=f"{path.name} to be there", interval=0.05)


def test_the_state_of_the_first_play_is_kept_when_the_second_fails(lab: Lab) -> None:
    made = lab.make()
    executor = lab.run(made, [[KEEP], [FAIL]])
    assert executor.process.returncode == 1
    assert lab.state() == KEPT
    kept = logs.read(lab.api, lab.namespace, made.job)
    assert kept is not None
    assert kept.termination == executor.end
    assert (executor.end.play, executor.end.task, executor.end.host) == ("Second", "Join", "cp-0")
    assert "TASK [Join]" in kept.text
    assert "abcdef.0123456789" not in kept.text + executor.said + executor.end.to_text()


def test_an_executor_that_was_killed_leaves_what_its_successor_finds(lab: Lab, tmp_path: Path) -> None:
    first = lab.make()
    wait, begun = waiting(tmp_path)
    executor = lab.start(first, [[KEEP], [wait]])
    await_file(begun, executor)
    executor.process.kill()
    executor.wait()
    assert lab.state() == KEPT
    assert logs.read(lab.api, lab.namespace, first.job) is None
    assert not executor.report.exists()
    second = lab.make(attempt=2)
    again = lab.run(second, [[FIND], []], work="another")
    assert again.process.returncode == 0, again.said
    assert lab.state() == KEPT


def test_an_executor_that_is_told_to_end_keeps_state_and_log(lab: Lab, tmp_path: Path) -> None:
    made = lab.make()
    wait, begun = waiting(tmp_path)
    executor = lab.start(made, [[KEEP, wait], []])
    await_file(begun, executor)
    executor.process.send_signal(signal.SIGTERM)
    assert executor.wait() == 75
    assert (executor.end.outcome, executor.end.blame, executor.end.task) == ("interrupted", "infra", "Wait")
    assert lab.state() == KEPT
    kept = logs.read(lab.api, lab.namespace, made.job)
    assert kept is not None
    assert kept.termination == executor.end


def test_the_job_says_where_its_executor_is(lab: Lab, tmp_path: Path) -> None:
    made = lab.make()
    wait, begun = waiting(tmp_path)
    executor = lab.start(made, [[KEEP], [wait]])
    await_file(begun, executor)

    def said() -> bool | NotYet:
        found = progress_of(lab.api.get(JOB, made.job, lab.namespace) or {})
        return found == ("Second", "Wait") or NotYet(f"it says {found}")

    until(said, deadline=Deadline.after(WAIT_SECONDS), what="the task in the Job's annotation", interval=0.1)
    executor.process.terminate()
    executor.wait()


def test_a_state_that_is_the_same_is_not_written(lab: Lab) -> None:
    made = lab.make()
    assert lab.run(made, [[KEEP], []]).process.returncode == 0
    before = lab.api.get(SECRET, state_name(NAME), lab.namespace)
    assert lab.run(made, [[KEEP], [FIND]], work="another").process.returncode == 0
    assert lab.api.get(SECRET, state_name(NAME), lab.namespace) == before


def test_nothing_is_kept_of_a_cluster_that_was_reset(lab: Lab) -> None:
    assert lab.run(lab.make(), [[KEEP], []]).process.returncode == 0
    failed = lab.run(lab.make(sequence=4, operation="reset"), [[FIND], [FAIL]])
    assert failed.process.returncode == 1
    assert lab.state() == KEPT
    done = lab.run(lab.make(sequence=4, operation="reset", attempt=2), [[FIND], []])
    assert done.process.returncode == 0
    assert lab.state() == {}


def test_an_executor_without_a_state_begins_nothing(lab: Lab) -> None:
    made = lab.make()
    lab.api.delete(SECRET, state_name(NAME), lab.namespace)
    executor = lab.run(made, [[KEEP], []])
    assert executor.process.returncode == 75
    assert "is gone" in executor.end.summary
    assert "PLAY" not in executor.said


def test_a_success_whose_state_cannot_be_kept_is_none(lab: Lab, tmp_path: Path) -> None:
    made = lab.make()
    begun, go = tmp_path / "begun", tmp_path / "go"
    wait = {"name": "Wait", "ansible.builtin.shell": f"touch {begun}; until [ -e {go} ]; do sleep 0.1; done"}
    executor = lab.start(made, [[wait, KEEP], []])
    await_file(begun, executor)
    lab.api.delete(SECRET, state_name(NAME), lab.namespace)
    go.touch()
    assert executor.wait() == 75
    assert (executor.end.outcome, executor.end.blame) == ("failed", "infra")


def test_the_log_of_an_operation_is_shown_when_its_job_is_gone(lab: Lab) -> None:
    made = lab.make()
    lab.run(made, [[KEEP], [FAIL]])
    lab.api.delete(JOB, made.job, lab.namespace)
    lines: list[str] = []
    show_log(lab.api, lab.namespace, NAME, 3, lines.append)
    assert any(line.startswith("TASK [Join]") for line in lines)
    assert lines[-2].startswith("failed: task [Join] failed on cp-0")


def test_an_executor_that_could_not_begin_leaves_the_state_as_it_is(lab: Lab) -> None:
    assert lab.run(lab.make(), [[KEEP], []]).process.returncode == 0
    made = lab.make(sequence=4)
    (lab.folder / "playbooks" / made.entry).unlink()
    executor = lab.start(made, [[KEEP], []], work="another", with_playbook=False)
    assert executor.wait() == 2
    assert "there is no playbook" in executor.end.summary
    assert lab.state() == KEPT


def test_an_operation_that_nobody_knows_is_told_with_those_that_are(lab: Lab) -> None:
    lab.make()
    with pytest.raises(BadInput, match="nothing is known of operation 7 of cluster prod") as refused:
        show_log(lab.api, lab.namespace, NAME, 7, print)
    assert refused.value.hint == "known: 3"
    with pytest.raises(BadInput, match="any operation of cluster other"):
        show_log(lab.api, lab.namespace, "other", None, print)
