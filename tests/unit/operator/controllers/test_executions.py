"""What keeps executors from being started, and whom their end is blamed on then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.errors import Blame
from harness.kube.objects import stamp
from harness.operator.api.cluster import DeclaredCluster, Obstacle
from harness.operator.controllers.execution_end import is_given_up, past, surplus
from harness.operator.controllers.executions import PATIENCE_SECONDS, SILENCE_SECONDS, obstacle_of, too_late, unstarted
from harness.operator.controllers.machine_phase import MachineUse, use_of
from harness.operator.decide.observed import observed
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
