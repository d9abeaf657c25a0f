"""What keeps executors from being started, and whom their end is blamed on then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.errors import Blame
from harness.kube.objects import stamp
from harness.operator.api.cluster import DeclaredCluster, Obstacle
from harness.operator.controllers.cluster_view import is_cancelled
from harness.operator.controllers.executions import (
    PATIENCE_SECONDS,
    SILENCE_SECONDS,
    after,
    cancelled,
    deleted,
    ended_at,
    forgotten,
    has_ended,
    is_given_up,
    obstacle_of,
    past,
    snapshots_after,
    surplus,
    termination_of,
    told,
    too_late,
    unstarted,
)
from harness.operator.controllers.machine_phase import MachineUse, use_of
from harness.operator.decide.observed import observed
from harness.operator.execute.termination import Termination
from tests.unit.operator.controllers.objects import CLAIM, cluster, idle
from tests.unit.operator.controllers.objects import past as ended

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
MOUNT = 'Warning FailedMount: MountVolume.SetUp failed: secret "keys" not found'
OPERATION = {"sequence": 2, "operation": "deploy", "attempt": 1, "job": "guest-2-deploy", "digest": "d"}


def pod(
    phase: str = "Pending", *, scheduled: str = "True", reason: str = "", state: Json | None = None, age: float = 0.0
) -> Json:
    """Return the pod of an executor."""
    found = {"type": "PodScheduled", "status": scheduled, "reason": reason, "message": "0/1 nodes are available"}
    status = {"phase": phase, "conditions": [found], "containerStatuses": [{"state": state or {}}]}
    made = stamp(NOW - timedelta(seconds=age))
    return {"metadata": {"name": "p", "namespace": "ns", "creationTimestamp": made}, "status": status}


def waiting(reason: str) -> Json:
    return {"waiting": {"reason": reason, "message": "no such host"}}


def obstacle(*pods: Json, events: tuple[str, ...] = ()) -> Obstacle | None:
    return obstacle_of(pods, lambda _: events, NOW)


def test_pod_that_no_node_takes_is_told_in_the_schedulers_words() -> None:
    found = obstacle(pod(scheduled="False", reason="Unschedulable"))
    said = "no node can run the executor's pod: 0/1 nodes are available"
    assert found == Obstacle(reason="NoNodeForPods", message=said)


def test_pod_whose_image_is_not_there_is_told() -> None:
    found = obstacle(pod(state=waiting("ImagePullBackOff")))
    assert found is not None
    assert (found.reason, "no such host" in found.message) == ("ImageNotPulled", True)


def test_what_only_events_tell_counts_once_a_pod_has_waited_for_a_while() -> None:
    events = (MOUNT.replace("keys", "other"), MOUNT, "Normal Scheduled: bound")
    assert obstacle(pod(state=waiting("ContainerCreating"), age=PATIENCE_SECONDS - 1), events=events) is None
    found = obstacle(pod(state=waiting("ContainerCreating"), age=PATIENCE_SECONDS), events=events)
    said = f"the executor's pod has no container yet: {MOUNT.removeprefix('Warning ')}"
    assert found == Obstacle(reason="ExecutorNotStarted", message=said)
    assert obstacle(pod(age=PATIENCE_SECONDS)) is None
    silent = obstacle(pod(age=SILENCE_SECONDS))
    assert silent is not None
    assert "nothing says why" in silent.message


def test_pod_that_runs_starts_or_goes_is_no_obstacle() -> None:
    starting = pod(scheduled="False", reason="SchedulerError"), pod(state=waiting("PodInitializing"))
    for one in (pod("Running", age=99), pod(), *starting):
        assert obstacle(one) is None
    going = pod(scheduled="False", reason="Unschedulable")
    going["metadata"]["deletionTimestamp"] = "x"
    assert obstacle(going) is None
    assert obstacle() is None


@pytest.mark.parametrize(
    ("reason", "blame"),
    [("ImageNotPulled", Blame.HARNESS), ("NoNodeForPods", Blame.INFRA), ("ExecutorNotStarted", Blame.INFRA)],
)
def test_the_end_names_the_obstacle_and_whom_it_is_blamed_on(reason: str, blame: Blame) -> None:
    end = unstarted({**OPERATION, "obstacle": {"reason": reason, "message": "why"}}, "given up")
    assert (end.outcome, end.blame, end.summary) == ("interrupted", blame, "given up: why")


def job(*, begun: bool = False, reason: str = "DeadlineExceeded") -> Json:
    meta: Json = {"name": "guest-2-deploy", "annotations": {"cluster.vmatrix.dev/progress": "{}"} if begun else {}}
    condition = {"type": "Failed", "status": "True", "reason": reason}
    return {"metadata": meta, "spec": {"activeDeadlineSeconds": 60}, "status": {"conditions": [condition]}}


def test_a_deadline_without_an_executor_is_not_the_products() -> None:
    end = too_late(OPERATION, job(), [pod()])
    assert end is not None
    assert (end.blame, end.summary) == (Blame.INFRA, "the executor was not started within 60 s")
    assert too_late(OPERATION, job(begun=True), []) is None
    assert too_late(OPERATION, job(reason="BackoffLimitExceeded"), []) is None
    assert too_late(OPERATION, job(), [pod("Running", state={"running": {}})]) is None
    assert too_late(OPERATION, job(), [pod(state={"terminated": {"exitCode": 1}})]) is None


def test_what_was_never_started_has_touched_nothing() -> None:
    entry = past(OPERATION, unstarted(OPERATION, "given up"), None, "2026-01-01T00:00:00Z", untouched=True)
    assert "log" not in entry
    body: Json = {"metadata": {"name": "guest"}, "status": {"sequence": 2, "history": [entry]}}
    assert not observed(DeclaredCluster.model_validate(body), (), NOW).touched
    earlier = {**entry, "sequence": 1, "untouched": False, "outcome": "failed"}
    body["status"]["history"].append(earlier)
    assert observed(DeclaredCluster.model_validate(body), (), NOW).touched, "the one before it has touched something"


def test_a_machine_is_not_broken_by_what_was_never_started() -> None:
    never = {**ended("deploy", "interrupted"), "untouched": True}
    machine = idle("m-0", claim=CLAIM)
    assert use_of(machine, cluster(history=(never,))) is MachineUse.CLAIMED
    assert use_of(machine, cluster(history=(ended("deploy", "interrupted"),))) is MachineUse.BROKEN


def test_jobs_that_were_given_up_are_not_kept() -> None:
    given_up = {"metadata": {"name": "a", "annotations": {"cluster.vmatrix.dev/given-up": "true"}}, "status": {}}
    assert is_given_up(given_up)
    assert surplus([given_up, {"metadata": {"name": "b"}, "status": {}}], keep_failed=3, keep_succeeded=1) == [given_up]


START, END = "2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z"
RETRIED: Json = {
    "sequence": 3,
    "attempt": 2,
    "operation": "deploy",
    "why": "w",
    "digest": "d",
    "job": "g-3-deploy-2",
}
APPLIED: Json = {"digest": "d", "version": "1.36.3", "machines": ["m-0"]}
GOOD, BAD = Termination("succeeded"), Termination("failed", blame="product", task="Join", host="m-0", summary="no")


def ended_job(kind: str = "", reason: str = "") -> Json:
    condition = {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": END}
    complete = {"completionTime": END} if kind == "Complete" else {}
    status = {"startTime": START, "conditions": [condition] if kind else [], **complete}
    return {
        "metadata": {"name": RETRIED["job"]},
        "spec": {"activeDeadlineSeconds": 60},
        "status": status,
    }


def failed_pod(message: str | None, reason: str = "Error") -> Json:
    ended = {"exitCode": 1, "reason": reason, **({"message": message} if message is not None else {})}
    return {"status": {"phase": "Failed", "containerStatuses": [{"state": {"terminated": ended}}]}}


def nothing() -> None:
    return None


@pytest.mark.parametrize(
    ("kind", "ended"), [("Complete", True), ("Failed", True), ("FailureTarget", False), ("", False)]
)
def test_job_has_ended_once_none_of_its_pods_lives(kind: str, ended: bool) -> None:
    assert has_ended(ended_job(kind)) is ended


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_end_is_when_the_job_says(kind: str) -> None:
    assert ended_at(ended_job(kind)) == END


def test_programs_own_words_count_first() -> None:
    assert termination_of(ended_job("Failed"), [failed_pod(None), failed_pod(BAD.to_text())], nothing) == BAD
    assert termination_of(ended_job("Complete"), [], lambda: BAD) == BAD
    assert termination_of(ended_job("Failed", "DeadlineExceeded"), [failed_pod(BAD.to_text())], nothing) == BAD


def test_complete_job_without_words_has_succeeded() -> None:
    assert termination_of(ended_job("Complete"), [], nothing).outcome == "succeeded"


def test_deadline_is_told_with_where_it_is_set() -> None:
    found = termination_of(ended_job("Failed", "DeadlineExceeded"), [failed_pod(None)], nothing)
    assert (found.outcome, found.blame) == ("failed", "product")
    assert "did not end within 60 s" in found.summary
    assert "spec.jobs.deadlineSeconds" in found.hint


def test_pods_own_reason_is_the_last_resort() -> None:
    found = termination_of(ended_job("Failed"), [failed_pod(None, "OOMKilled")], nothing)
    assert (found.outcome, found.blame) == ("interrupted", "infra")
    assert "OOMKilled" in found.summary
    assert "gone" in termination_of(ended_job("Failed"), [], nothing).summary


def test_entry_has_who_and_where_and_nothing_empty() -> None:
    assert past(RETRIED, BAD, START, END) == {
        "sequence": 3,
        "attempt": 2,
        "operation": "deploy",
        "why": "w",
        "digest": "d",
        "outcome": "failed",
        "blame": "product",
        "task": "Join",
        "host": "m-0",
        "summary": "no",
        "started": START,
        "ended": END,
        "log": "g-3-deploy-2-log",
    }


def test_success_moves_what_the_operation_applies() -> None:
    status = {"sequence": 3, "operation": {**RETRIED, "applies": APPLIED}, "history": [{"sequence": 2}]}
    entry = past(RETRIED, GOOD, START, END)
    assert after(status, entry) == {"sequence": 3, "applied": APPLIED, "history": [entry, {"sequence": 2}]}


def test_failure_leaves_what_was_applied() -> None:
    status = {"operation": {**RETRIED, "applies": {"digest": "new"}}, "applied": APPLIED}
    assert after(status, past(RETRIED, BAD, START, END))["applied"] == APPLIED


def test_nothing_is_applied_after_a_reset() -> None:
    reset = {**RETRIED, "operation": "reset"}
    assert "applied" not in after({"operation": reset, "applied": APPLIED}, past(reset, GOOD, START, END))


def test_history_keeps_twenty_and_tells_whose_log_goes() -> None:
    status: Json = {"operation": RETRIED, "history": [{"log": f"log-{number}"} for number in range(20)]}
    entry = past(RETRIED, BAD, START, END)
    assert forgotten(status, entry) == ["log-19"]
    assert len(after(status, entry)["history"]) == 20
    assert forgotten({"operation": RETRIED, "history": status["history"][:19]}, entry) == []


def test_history_keeps_the_last_operation_that_touched_a_machine() -> None:
    touched = [{"outcome": "failed", "log": "log-1"}, {"outcome": "failed", "log": "log-0"}]
    status: Json = {"operation": RETRIED, "history": touched}
    for number in range(30):
        entry = past({**RETRIED, "sequence": number}, BAD, None, END, untouched=True)
        assert "log-1" not in forgotten(status, entry)
        status = {**after(status, entry), "operation": RETRIED}
    history = status["history"]
    assert len(history) == 20
    assert history[0]["sequence"] == 29
    assert [one.get("log") for one in history if not one.get("untouched")] == ["log-1"]


def test_end_is_told_in_one_line() -> None:
    line = told(RETRIED, past(RETRIED, BAD, START, END))
    assert line == "deploy failed at task 'Join' on m-0 (product to blame): no (Job g-3-deploy-2)"
    assert told(RETRIED, past(RETRIED, GOOD, START, END)) == "deploy succeeded (Job g-3-deploy-2)"


def test_deleted_job_is_a_persons() -> None:
    assert (deleted().outcome, deleted().blame) == ("interrupted", "user")


def kept(name: str, kind: str, sequence: int, attempt: int = 1, **meta: Any) -> Json:
    """Return a Job that is there after its operation."""
    moment = "2026-01-01T00:00:00Z"  # all of them ended in the same second
    numbers = {"cluster.vmatrix.dev/sequence": str(sequence), "cluster.vmatrix.dev/attempt": str(attempt)}
    meta |= {"labels": numbers}
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": moment}] if kind else []
    return {"metadata": {"name": name, **meta}, "status": {"conditions": conditions, "completionTime": moment}}


def names(jobs: list[Json]) -> set[str]:
    return {one["metadata"]["name"] for one in jobs}


JOBS = [kept("a", "Failed", 1), kept("b", "Complete", 2), kept("c", "Failed", 3), kept("d", "Complete", 4)]


def test_the_latest_of_each_end_are_kept() -> None:
    assert names(surplus(JOBS, keep_failed=1, keep_succeeded=1)) == {"a", "b"}
    assert surplus(JOBS, keep_failed=3, keep_succeeded=3) == []
    assert names(surplus(JOBS, keep_failed=0, keep_succeeded=0)) == {"a", "b", "c", "d"}


def test_the_latest_attempt_is_kept_also_the_tenth() -> None:
    tries = [kept(f"try-{attempt}", "Failed", 9, attempt) for attempt in (2, 10, 9)]
    assert names(surplus(tries, keep_failed=1, keep_succeeded=0)) == {"try-2", "try-9"}


def test_what_runs_or_is_being_deleted_is_left_alone() -> None:
    more = [kept("runs", "", 5), kept("goes", "Failed", 0, deletionTimestamp="2026-01-01T00:00:00Z")]
    assert surplus(more, keep_failed=0, keep_succeeded=0) == []


def test_an_executor_that_was_killed_was_at_the_task_that_it_told_last() -> None:
    killed = Termination("interrupted", blame="infra", summary="killed")
    at = {"play": "Join the nodes", "task": "node : Join the cluster"}
    entry = past({**RETRIED, **at}, killed, START, END)
    assert (entry["play"], entry["task"]) == ("Join the nodes", "node : Join the cluster")
    assert "task" not in past(RETRIED | {"play": "", "task": ""}, killed, START, END)
    assert "task" not in past({**RETRIED, **at}, GOOD, START, END)


def test_cluster_that_could_not_be_adopted_was_not_touched() -> None:
    adopting = {**RETRIED, "operation": "adopt"}
    assert past(adopting, BAD, START, END)["untouched"]
    assert "untouched" not in past(adopting, GOOD, START, END)
    assert "untouched" not in past(RETRIED, BAD, START, END)


def test_entry_names_the_backup_that_the_operation_was_about() -> None:
    about = {"backup": "a", "uid": "u", "claim": "c", "file": "g/a.db"}
    backing = {**RETRIED, "operation": "backup", "snapshot": about}
    entry = past(backing, GOOD, START, END)
    assert (entry["backup"], entry["backupUid"]) == ("a", "u")
    status = after({"operation": backing, "applied": APPLIED}, entry, {"revision": 7})
    assert (status["applied"], status["snapshots"]) == (APPLIED, [{**about, "revision": 7}])


@pytest.mark.parametrize(
    ("operation", "play", "host", "outcome", "untouched"),
    [
        ("upgrade", "Fetch new binaries and images", "m-0", "failed", True),
        ("upgrade", "Fetch new binaries and images", "", "failed", False),  # nobody says that a task failed
        ("upgrade", "Fetch new binaries and images", "m-0", "interrupted", False),
        ("upgrade", "Upgrade the control planes, one after the other", "m-0", "failed", False),
        ("recover", "Choose the machines that act", "m-0", "failed", False),  # after the restore
    ],
)
def test_failure_of_a_task_that_only_checks_touches_nothing(
    operation: str, play: str, host: str, outcome: Any, untouched: bool
) -> None:
    running = {**RETRIED, "operation": operation, "applies": APPLIED}
    entry = past(running, Termination(outcome, play=play, host=host), START, END)
    assert (entry.get("untouched", False), "log" in entry) == (untouched, True)
    status = after({"operation": running, "applied": APPLIED}, entry)
    assert ("unsettled" in status) == (not untouched and operation == "upgrade")


PLACE = {"backup": "a", "uid": "uid-a", "claim": "claim", "file": "guest/a.db"}
OLD = {**PLACE, "backup": "old", "uid": "uid-old", "file": "guest/old.db"}
SNAPSHOT_OPERATION: dict[str, Any] = {"operation": "backup", "snapshot": PLACE}


DRILLED: dict[str, Any] = {
    "sequence": 5,
    "operation": "drill",
    "job": "guest-5-drill",
    "digest": "d",
    "snapshot": {**PLACE, "drill": "2026-01-01T00:00:00Z"},
}


def test_the_end_of_a_drill_is_remembered_with_its_backup_and_the_last_that_succeeded_stays() -> None:
    status = {"operation": DRILLED, "sequence": 5, "snapshots": [PLACE], "applied": APPLIED}
    good = after(status, past(DRILLED, Termination("succeeded"), None, "2026-01-01T00:10:00Z"), {"objects": 2000})
    last = good["drill"]["last"]
    assert (last["outcome"], last["objects"], last["time"]) == ("succeeded", 2000, "2026-01-01T00:00:00Z")
    assert last["backupUid"] == PLACE["uid"]
    assert good["drill"]["proven"] == last
    assert good["snapshots"] == [PLACE], "a drill deletes nothing"
    bad = after({**good, "operation": DRILLED}, past(DRILLED, Termination("failed", summary="keys differ"), None, None))
    assert (bad["drill"]["last"]["outcome"], bad["drill"]["last"]["summary"]) == ("failed", "keys differ")
    assert bad["drill"]["proven"] == last
    assert bad["snapshots"] == [PLACE]
    assert "unsettled" not in bad, "no machine is changed by a drill"


def test_snapshot_that_was_taken_comes_first_with_what_was_found_out() -> None:
    made = snapshots_after([OLD], SNAPSHOT_OPERATION, {"revision": 7, "member": "m-0", "strange": "x"})
    assert made == [{**PLACE, "revision": 7, "member": "m-0"}, OLD]


def test_file_that_was_written_again_is_known_once() -> None:
    earlier = {**PLACE, "uid": "uid-earlier", "revision": 1}
    assert snapshots_after([earlier, OLD], SNAPSHOT_OPERATION, {}) == [PLACE, OLD]


def test_files_that_the_operation_deleted_are_known_no_more() -> None:
    telling = {**SNAPSHOT_OPERATION, "snapshot": {**PLACE, "forget": ["guest/old.db"]}}
    elsewhere = {**OLD, "claim": "other"}
    assert snapshots_after([OLD, elsewhere], telling, {}) == [PLACE, elsewhere]
    assert snapshots_after([OLD, PLACE], {**telling, "operation": "recover"}, {}) == [PLACE]


def test_a_file_that_was_looked_for_is_absent_or_there_and_others_are_as_before() -> None:
    telling = {**SNAPSHOT_OPERATION, "snapshot": {**PLACE, "expected": ["guest/old.db"]}}
    absent, elsewhere = {**OLD, "absent": True}, {**OLD, "claim": "other", "absent": True}
    assert snapshots_after([OLD, elsewhere], telling, {"absent": ["guest/old.db"]}) == [PLACE, absent, elsewhere]
    assert snapshots_after([absent, elsewhere], telling, {}) == [PLACE, OLD, elsewhere]
    assert snapshots_after([absent], SNAPSHOT_OPERATION, {}) == [PLACE, absent], "an older executor does not look"


def test_an_object_that_is_locked_is_still_known_with_its_time() -> None:
    s3 = {"bucket": "backups", "secretRef": {"name": "k"}}
    place = {"backup": "a", "uid": "uid-a", "s3": s3, "file": "guest/a.db"}
    old = {**place, "backup": "old", "uid": "uid-old", "file": "guest/old.db"}
    telling = {"operation": "backup", "snapshot": {**place, "forget": ["guest/old.db", "guest/older.db"]}}
    older = {**old, "file": "guest/older.db"}
    until = "2026-01-03T00:00:00Z"
    made = snapshots_after([old, older], telling, {"locked": {"guest/old.db": until}})
    assert [one["file"] for one in made] == ["guest/a.db", "guest/old.db"]
    assert made[1]["lockedUntil"] == until
    assert made[0]["s3"]["bucket"] == "backups"


def test_words_of_another_form_say_nothing() -> None:
    assert snapshots_after([], SNAPSHOT_OPERATION, {"revision": "many"}) == [PLACE]


def test_other_operations_change_nothing() -> None:
    assert snapshots_after([OLD], {"operation": "deploy"}, {}) == [OLD]


CANCELLED_OPERATION = {"sequence": 5, "operation": "upgrade"}


def test_only_the_number_of_the_operation_stops_it() -> None:
    def asked(value: str) -> bool:
        return is_cancelled({"metadata": {"annotations": {"cluster.vmatrix.dev/cancel": value}}}, CANCELLED_OPERATION)

    assert asked("5")
    assert not asked("4")
    assert not asked("")
    assert not is_cancelled({"metadata": {}}, CANCELLED_OPERATION)
    assert not is_cancelled(None, CANCELLED_OPERATION)


def test_what_was_stopped_is_the_users_and_keeps_where_it_was() -> None:
    end = cancelled(Termination("interrupted", blame="infra", play="p", task="t", summary="it was told to end"))
    assert (end.outcome, end.blame, end.play, end.task) == ("cancelled", "user", "p", "t")
    assert end.summary == "somebody stopped it by annotation; it was told to end"
    assert (cancelled().outcome, cancelled().summary) == ("cancelled", "somebody stopped it by annotation")


def test_what_had_succeeded_before_has_succeeded() -> None:
    assert cancelled(Termination("succeeded")) == Termination("succeeded")
