"""The message of an executor's end: whatever is said fits, and is read as it was written where it does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import Blame, InfraError, InfraRetriable, ProductError, VmatrixError
from harness.operator.execute import termination
from harness.operator.execute.termination import (
    ANNOTATION,
    MOST_BYTES,
    PlayProgress,
    Termination,
    clipped,
    of_pod,
    progress_of,
    waits_for,
)
from harness.paths import project_dir

OUTCOMES = st.sampled_from(["succeeded", "failed", "interrupted"])
BLAMES = st.sampled_from(["", "product", "infra", "harness", "user"])
RECAPS = st.dictionaries(st.text(max_size=60), st.text(max_size=60), max_size=100)


def ends(words: st.SearchStrategy[str], recaps: st.SearchStrategy[dict[str, str]]) -> st.SearchStrategy[Termination]:
    """Return ends of any kind."""
    return st.builds(
        Termination,
        outcome=OUTCOMES,
        blame=BLAMES,
        play=words,
        task=words,
        host=words,
        summary=words,
        hint=words,
        recap=recaps,
        revision=words,
    )


LONG = st.integers(0, 9000).flatmap(lambda length: st.sampled_from("aä\n🎲").map(lambda letter: letter * length))


@given(ends(st.text(max_size=20), st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3)))
def test_what_fits_is_read_as_it_was_written(end: Termination) -> None:
    assert Termination.parse(end.to_text()) == end


@given(ends(LONG, RECAPS))
def test_whatever_is_said_fits_and_says_whose_fault_it_is(end: Termination) -> None:
    text = end.to_text()
    assert len(text.encode()) <= MOST_BYTES
    found = Termination.parse(text)
    assert found is not None
    assert (found.outcome, found.blame) == (end.outcome, end.blame)


@given(st.text() | st.binary().map(lambda content: content.decode("latin-1")))
def test_any_other_text_is_no_message(text: str) -> None:
    assert Termination.parse(text) is None or text.startswith("{")


@pytest.mark.parametrize("text", ["", "Killed", "{}", '{"outcome": "fine"}', "[1]", '{"outcome": ["failed"]}'])
def test_a_program_that_was_killed_has_said_nothing(text: str) -> None:
    assert Termination.parse(text) is None


def test_a_long_summary_stays_readable_beside_the_task_and_the_host() -> None:
    end = Termination("failed", "product", "Nodes", "Join", "w-0", "x" * 9000, "look", {"w-0": "ok=1"}, "abc")
    found = Termination.parse(end.to_text())
    assert found is not None
    assert len(found.summary) >= 1200
    assert found.summary.endswith("x...")
    assert replace(found, summary=end.summary) == end


def test_a_recap_of_many_hosts_gives_way_before_the_summary() -> None:
    recap = {f"worker-{number}": "ok=61 changed=20 unreachable=0 failed=0" for number in range(200)}
    found = Termination.parse(Termination("failed", "product", summary="s" * 600, recap=recap).to_text())
    assert found is not None
    assert found.summary == "s" * 600
    assert 20 < len(found.recap) < 200


@pytest.mark.parametrize(("most", "made"), [(9, "something"), (8, "somet..."), (4, "s..."), (3, ""), (0, "")])
def test_a_text_shows_where_it_was_cut(most: int, made: str) -> None:
    assert clipped("something", most) == made


LOG = Path("/tmp/work/ansible.log")
SHOW = "vmatrix operator log prod 3"


def events(path: Path, event: str, play: str = "Etcd", task: str = "Start", **result: Any) -> Path:
    """Write the events of a playbook that failed in a play before the last that began."""
    failed = {"event": event, "play": play, "task": task, "handler": False, "host": "cp-0", "pardon": ""}
    lines = [
        {**failed, "tolerant": False, "item": None, "result": result or {"msg": "no"}},
        {"event": "end", "hosts": ["cp-0"], "failed": {"cp-0": 1}, "unreachable": {}},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def at(play: str, task: str) -> PlayProgress:
    return PlayProgress(lambda _: None, play=play, task=task)


def test_a_failure_is_told_where_it_was_and_not_where_others_had_come(tmp_path: Path) -> None:
    path = events(tmp_path / "events", "failed")
    end = termination.end_of(ProductError("no", paths=[LOG]), at("Nodes", "Join"), path, "", SHOW)
    assert (end.play, end.task, end.host) == ("Etcd", "Start", "cp-0")


def test_an_end_without_a_failure_is_told_with_the_last_that_began(tmp_path: Path) -> None:
    end = termination.end_of(termination.ExecutorInterrupted(), at("Nodes", "Join"), tmp_path / "none", "", SHOW)
    assert (end.outcome, end.play, end.task, end.host) == ("interrupted", "Nodes", "Join", "")


@pytest.mark.parametrize(
    ("error", "event", "hint"),
    [
        (ProductError("no", hint="see /tmp", paths=[LOG]), "failed", f"`{SHOW}` shows all that Ansible said"),
        (InfraError("lost", hint="see /tmp", paths=[LOG]), "unreachable", termination.ANSWER),
        (InfraRetriable("cut", hint="run the cell again", paths=[LOG]), "failed", termination.REPEATED),
        (VmatrixError("no Secret", hint="make it"), "failed", "make it"),
    ],
)
def test_a_hint_leads_to_what_is_there_still(error: VmatrixError, event: str, hint: str, tmp_path: Path) -> None:
    found = termination.end_of(error, at("", ""), events(tmp_path / "events", event), "", SHOW)
    assert found.hint == hint
    assert found.blame == error.blame


def test_an_image_names_its_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    output = "cp-0 : ok=1 changed=0 unreachable=0 failed=0"
    monkeypatch.setenv(termination.REVISION, "v1-7-gabc")
    assert termination.end_of(None, at("", ""), tmp_path, output, SHOW).revision == "v1-7-gabc"
    monkeypatch.delenv(termination.REVISION)
    assert termination.revision()


def plays() -> set[str]:
    """Return the names of all plays of the packaged playbooks."""
    entries = (path for path in (project_dir() / "playbooks").glob("*.yml") if path.name != "galaxy.yml")
    return {play["name"] for path in entries for play in yaml.safe_load(path.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("play", sorted(termination.REQUEST_PLAYS))
def test_a_request_that_is_refused_is_the_users(play: str, tmp_path: Path) -> None:
    assert play in plays()
    found = termination.end_of(ProductError("no"), at("", ""), events(tmp_path / "events", "failed", play), "", SHOW)
    assert found.blame == Blame.USER
    lost = termination.end_of(InfraError("lost"), at("", ""), events(tmp_path / "lost", "unreachable", play), "", SHOW)
    assert lost.blame == Blame.INFRA


# Refusals that the author of an object cannot mend, and whose they are.
NOT_BY_REQUEST = {
    "ca_rotation : Refuse CAs whose keys are elsewhere": "the operator does not rotate CAs",
    "ca_rotation : Refuse a name that is none": "the operator does not rotate CAs",
    "ca_rotation : Refuse another rotation than the one that goes on": "the operator does not rotate CAs",
    "ca_rotation : Refuse to go on in the middle of an upgrade": "the operator does not rotate CAs",
    "ca_rotation : Refuse to go on with a member down": "the operator does not rotate CAs",
    "ca_rotation : Refuse to go on with a node down": "the operator does not rotate CAs",
    "ca_rotation : Refuse to go on with an API server down": "the operator does not rotate CAs",
    "ca_rotation : Refuse to leave machines out": "the operator does not rotate CAs",
    "control_plane : Refuse to begin a cluster while control planes are left out": "the executor leaves out none",
    "control_plane : Refuse to begin another cluster": "the executor chooses the machines of a run",
    "control_plane : Refuse a configuration with which the kubelet says something else": "the role refuses all",
    "control_plane : Say what is wrong": "the same",
    "control_plane_join : Refuse to join with credentials that have ended": "the same",
    "control_plane_join : Refuse to join without credentials": "the executor chooses the machines of a run",
    "daemon : Say why the unit does not run": "the role settings blames the settings where they are new",
    "encryption_key : Refuse to go on before every Secret is written": "the API server refuses them",
    "encryption_key : Refuse to go on in the middle of a change of the key": "the operator does not change keys",
    "encryption_key : Refuse to go on with an API server that has not read the keys": "the API server is not well",
    "encryption_key : Refuse to leave control planes out": "the executor chooses the machines of a run",
    "etcd : Refuse to begin a cluster without all its members": "the executor chooses the machines of a run",
    "etcd : Refuse to continue without the CA": "a machine lost a file that the playbooks wrote",
    "etcd_backup : Refuse to run without a path for the snapshot": "the executor sets the path",
    "etcd_backup_source : Refuse to continue without a healthy member": "no member answers",
    "etcd_defragmentation : Refuse to clear the alarm of a member without room": "data of the cluster fill it",
    "etcd_defragmentation : Refuse to go on with a member down": "members do not answer",
    "etcd_defragmentation : Refuse to go on with corrupt data": "a member's disk or etcd has damaged them",
    "etcd_member : Refuse a restart that would stop etcd": "members do not answer",
    "etcd_member : Refuse to join without another member": "a machine lost its data",
    "etcd_member : Say what is wrong with the settings": "the role settings blames them where they are new",
    "etcd_member_removal : Refuse to go on without a majority": "members do not answer",
    "etcd_member_removal : Refuse to remove all members": "the operator names the machines",
    "etcd_member_removal : Refuse to remove members while too few others are healthy": "members do not answer",
    "clone_check : Refuse to begin without a snapshot": "the executor has checked that it is there",
    "clone_check : Refuse to begin without a confirmation": "the operator names the snapshot's time",
    "etcd_restore : Refuse to go back without a confirmation": "the operator names the snapshot's time",
    "etcd_restore : Refuse to continue if only some machines see a quorum": "members answer differently",
    "etcd_restore : Refuse to take an error for a lost quorum": "etcd refuses the question",
    "etcd_restore : Refuse to continue without a snapshot": "the executor sets the path",
    "etcd_restore : Refuse data that cannot be moved": "somebody mounted it on the machine",
    "etcd_restore : Say why the snapshot was not restored": "a disk may be full",
    "etcd_restore : Refuse to restore some members alone": "the executor chooses the machines of a run",
    "etcd_drill : Refuse to run without a snapshot": "the executor sets the path",
    "etcd_prefix : Refuse to delete objects of control planes that have not been reset": "the operator resets them all",
    "etcd_upgrade : Refuse to go on with a member down": "a member is not well",
    "etcd_upgrade : Refuse to go on with an alarm": "a member is not well",
    "etcd_users : Refuse to go on without the program that signs": "the image of executors has it",
    "kubeadm_addons : Say why kube-proxy does not come up": "the role settings blames them where they are new",
    "kubelet_serving : Refuse kubelets that do not": "a kubelet does not do what it is told",
    "kubelet_serving : Refuse to go on without their requests": "the same",
    "kubelet_update : Say that the kubelet does not run with these settings": "the same",
    "external_ca : Refuse requests for anything else than this machine needs": "a machine asks for them",
    "node : Refuse to join with credentials that have ended": "the executor chooses the machines of a run",
    "node : Refuse to join without credentials": "the executor chooses the machines of a run",
    "node_drain : Refuse to drain with credentials that have ended": "the executor chooses the machines of a run",
    "node_drain : Refuse to drain without credentials": "the executor chooses the machines of a run",
    "node_drain : Refuse to go on with a node that is not empty": "pods of anybody may stay",
    "node_uncordon : Refuse to uncordon without credentials that are valid": "the same",
    "preflight : Refuse an external CA without the program that signs": "the image of executors has it",
    "preflight : Refuse an etcd that does not answer": "it may not be well",
    "rebuild_check : Refuse another snapshot than the one that machines have joined with": "the operator has one join",
    "rebuild_check : Refuse to begin etcd without a snapshot": "the executor sets the path",
    "rebuild_check : Refuse to begin on another machine than the one that has the snapshot's data": (
        "the operator has one begin, and goes on with it"
    ),
    "rebuild_check : Refuse to begin without the cluster's CAs": "it is not begun then",
    "rebuild_check : Refuse to leave machines of etcd and of the control plane out": (
        "the executor chooses the machines of a run"
    ),
    "rebuild_check : Refuse to replace what etcd runs with, without a confirmation": (
        "the operator names the snapshot's time"
    ),
    "recover_lost : Refuse to continue if no control plane or no etcd member is left": "it is not begun then",
    "recover_lost : Refuse unknown names": "the operator names the machines",
    "removal : Refuse a value that is not a list of names": "the operator names the machines",
    "removal : Refuse unknown names": "the operator names the machines",
    "removal_drain : Refuse to go on with nodes that are not empty": "pods of anybody may stay",
    "removal_ready : Refuse to start without a control plane that responds": "machines do not answer",
    "removal_ready : Refuse to start without an etcd member that responds": "machines do not answer",
    "reset : Refuse a firewall that cannot be read": "it is the machine's",
    "reset : Refuse to go on with processes that do not end": "they wait for the machine's kernel",
    "reset : Refuse to delete through a mount": "somebody mounted it on the machine",
    "running_version : Refuse to go on in the middle of a rotation of CAs": "the operator does not rotate CAs",
    "scale_check : Refuse to scale without an existing cluster": "the cluster is gone",
    "settings : Say that the former settings do not run either": "the way back failed",
    "static_pods : Say that no container begins": "the role settings blames the settings where they are new",
    "static_pods : Say that the component does not serve": "the same",
    "upgrade_prefetch : Refuse to go on without an image": "the registry may not answer",
    "version_skew : Refuse a machine that is not a node": "the executor chooses the machines of a run",
    "version_skew : Refuse a machine that is not ready": "a machine is not well",
    "version_skew : Refuse to go on in the middle of a rotation of CAs": "the operator does not rotate CAs",
    "version_skew : Refuse to go on without an API server": "it is not well",
}
REFUSES = {"ansible.builtin.fail", "ansible.builtin.assert"}


def refusals(tasks: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the names of the tasks that refuse something, also those in blocks."""
    for task in tasks:
        if REFUSES & task.keys():
            yield task["name"]
        for part in ("block", "rescue", "always"):
            yield from refusals(task.get(part, []))


def test_every_refusal_of_the_playbooks_has_somebody_to_blame() -> None:
    found = {
        f"{path.parent.parent.name} : {name}"
        for path in (project_dir() / "playbooks/roles").glob("*/tasks/*.yml")
        for name in refusals(yaml.safe_load(path.read_text(encoding="utf-8")) or [])
    }
    assert found == NOT_BY_REQUEST.keys() | termination.REQUEST_TASKS
    assert not NOT_BY_REQUEST.keys() & termination.REQUEST_TASKS


def blame(task: str, path: Path, error: VmatrixError | None = None, **result: Any) -> Blame | str:
    found = events(path / "events", "unreachable" if isinstance(error, InfraError) else "failed", task=task, **result)
    return termination.end_of(error or ProductError("no"), at("", ""), found, "", SHOW).blame


@pytest.mark.parametrize("task", sorted(termination.REQUEST_TASKS))
def test_what_the_playbooks_refuse_for_the_object_is_the_users(task: str, tmp_path: Path) -> None:
    assert blame(task, tmp_path) == Blame.USER
    assert blame(task, tmp_path, InfraError("lost")) == Blame.INFRA


@pytest.mark.parametrize("task", sorted(NOT_BY_REQUEST))
def test_what_the_playbooks_refuse_for_themselves_is_not(task: str, tmp_path: Path) -> None:
    assert blame(task, tmp_path) == Blame.PRODUCT


@pytest.mark.parametrize(
    ("task", "result", "whose"),
    [
        ("etcd : Validating arguments against arg spec 'main' - Deploy etcd", {}, Blame.USER),
        ("Validating arguments against arg spec", {}, Blame.PRODUCT),
        ("Validating arguments against arg spec 'main'", {}, Blame.USER),
        ("kubernetes_binaries : Obtain them", {"msg": "404", "blame": "user"}, Blame.USER),
        ("kubernetes_binaries : Obtain them", {"msg": "time-out"}, Blame.PRODUCT),
        ("Initialise", {"msg": "no", "stderr_lines": ["[ERROR ImagePull]: failed: not found"]}, Blame.USER),
        ("Initialise", {"msg": "x\n\t[ERROR ImagePull]: failed: manifest unknown"}, Blame.USER),
        ("Initialise", {"msg": "no", "stderr_lines": ["[ERROR ImagePull]: connection refused"]}, Blame.PRODUCT),
    ],
)
def test_what_others_refuse_for_the_object_is_the_users(
    task: str, result: dict[str, Any], whose: Blame, tmp_path: Path
) -> None:
    assert blame(task, tmp_path, **result) == whose


def pod(state: dict[str, Any], **status: Any) -> dict[str, Any]:
    """Return a pod whose container is in a state."""
    return {"status": {"containerStatuses": [{"name": "executor", "state": state}], **status}}


def ended(message: str = "", **said: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": 1, "message": message, **said}}


def test_an_executor_that_could_say_it_is_believed() -> None:
    said = Termination("failed", "product", task="Join", host="w-0", summary="no")
    assert of_pod(pod(ended(said.to_text()))) == said


def test_an_evicted_executor_that_could_say_it_is_believed_too() -> None:
    said = Termination("interrupted", "infra", task="Join")
    condition = {"type": "DisruptionTarget", "status": "True"}
    assert of_pod(pod(ended(said.to_text()), conditions=[condition])) == said


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (None, "is gone"),
        (pod(ended(exitCode=137, reason="OOMKilled")), "OOMKilled, status 137"),
        (pod(ended(exitCode=137, reason="Error")), "Error, status 137"),
        (pod({}, conditions=[{"type": "DisruptionTarget", "status": "True"}]), "evicted"),
        (pod({}, reason="NodeLost"), "NodeLost"),
        ({"status": {}}, "no reason"),
    ],
)
def test_a_killed_executor_is_the_infrastructures_fault(seen: dict[str, Any] | None, said: str) -> None:
    end = of_pod(seen)
    assert (end.outcome, end.blame) == ("interrupted", Blame.INFRA)
    assert said in end.summary
    assert end.hint


def test_an_image_that_cannot_be_had_is_told_and_a_slow_one_is_awaited() -> None:
    missing = pod({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}})
    assert waits_for(missing) == "ImagePullBackOff: not found"
    assert of_pod(missing).blame == Blame.HARNESS
    assert waits_for(pod({"waiting": {"reason": "ContainerCreating"}})) is None
    assert waits_for(pod({"running": {}})) is None


SECONDS = 60.0  # against hanging


class Heard:
    """What was written; the first `refusals` writes are refused."""

    def __init__(self, refusals: int = 0) -> None:
        self.values: list[dict[str, str]] = []
        self.refusals = refusals
        self.told = threading.Event()

    def write(self, value: str) -> None:
        """Take a value."""
        if self.refusals:
            self.refusals -= 1
            raise InfraRetriable("no API")
        self.values.append(json.loads(value))
        self.told.set()


def test_the_newest_is_told_once_and_what_was_over_before_is_not() -> None:
    heard = Heard()
    progress = PlayProgress(heard.write, every=0.001)
    progress.play, progress.task = "Etcd", "Start"
    progress.play, progress.task = "Nodes", "Join"
    progress.start()
    assert heard.told.wait(SECONDS)
    heard.told.clear()
    progress.task = "Wait"
    assert heard.told.wait(SECONDS)
    progress.stop()
    assert heard.values == [{"play": "Nodes", "task": "Join"}, {"play": "Nodes", "task": "Wait"}]


def test_nothing_is_told_before_the_first_play() -> None:
    heard = Heard()
    progress = PlayProgress(heard.write, every=0.001)
    progress.stop()
    progress._tell()
    assert heard.values == []


def test_what_the_api_did_not_take_is_told_again() -> None:
    heard = Heard(refusals=3)
    progress = PlayProgress(heard.write, every=0.001, play="Nodes")
    progress.start()
    assert heard.told.wait(SECONDS)
    progress.stop()
    assert heard.refusals == 0


@pytest.mark.parametrize(
    ("value", "found"),
    [('{"play": "a", "task": "b"}', ("a", "b")), ("{}", ("", "")), ("nonsense", ("", "")), ("[]", ("", ""))],
)
def test_an_annotation_is_read_whatever_it_is(value: str, found: tuple[str, str]) -> None:
    assert progress_of({"metadata": {"annotations": {ANNOTATION: value}}}) == found
    assert progress_of({"metadata": {}}) == ("", "")
