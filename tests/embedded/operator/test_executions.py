"""Operations end: what is written of them, whoever was there, and what is kept."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.kube.client import Cluster, Json
from harness.kube.objects import deleting, dig, is_condition
from harness.kube.resources import CONFIG_MAP, JOB, NODE, POD, SECRET
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT
from harness.operator.context import OperatorContext
from harness.operator.controllers.executions import ended_at
from harness.operator.decide import operations
from harness.operator.decide.desired import DIGITS
from harness.operator.execute import logs
from harness.operator.execute.termination import Termination, annotate
from harness.operator.registry import stop
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import REAL_JOBS, StartManager
from tests.embedded.operator.played import WAIT_SECONDS
from tests.embedded.operator.world import KUBECONFIG, MINE, NAME, OPTIONS, SUCCEEDED, World, failed

DEPLOY = f"{NAME}-1-deploy"
LONG_AGO = "2001-01-01T00:00:00Z"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing tried again by itself before a test says that time has passed."""
    monkeypatch.setattr(operations, "FIRST_SECONDS", operations.LONGEST_SECONDS)


def fail(world: World, job: str, message: str) -> Json:
    world.kubelet.job(job)
    return world.kubelet.end(job, exit_code=1, message=message)


def events(world: World) -> str:
    return "\n".join(world.api.events_of(world.namespace, NAME))


def test_operation_that_succeeded_is_what_is_deployed(world: World, operator: OperatorContext) -> None:
    world.declare()
    job = world.succeed(DEPLOY)
    (entry,) = world.history(1)
    assert (entry["operation"], entry["outcome"], entry["log"]) == ("deploy", "succeeded", f"{DEPLOY}-log")
    assert (entry["started"], entry["ended"]) == (dig(job, "status", "startTime"), ended_at(job))
    status = world.status()
    assert "operation" not in status
    assert (status["applied"]["version"], status["applied"]["machines"]) == ("1.36.3", ["m-0"])
    assert len(status["applied"]["digest"]) == len(entry["digest"]) == DIGITS  # of the wish, and of what was given
    world.wait(lambda: "deploy succeeded" in events(world) or NotYet(events(world)), "an Event")


def test_kubeconfig_is_handed_out_as_other_tools_look_for_it(world: World, operator: OperatorContext) -> None:
    world.deployed()
    secret = world.get(SECRET, f"{NAME}-kubeconfig")
    assert secret is not None
    assert secret["type"] == "cluster.x-k8s.io/secret"
    assert secret["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == NAME
    assert base64.b64decode(secret["data"]["value"]) == KUBECONFIG


def test_kubeconfig_that_somebody_deletes_is_handed_out_again(
    world: World, operator: OperatorContext, manager: StartManager
) -> None:
    world.deployed()
    stop(operator)
    world.api.delete(SECRET, f"{NAME}-kubeconfig", world.namespace)
    manager(*MINE, options=OPTIONS)
    world.wait(lambda: world.get(SECRET, f"{NAME}-kubeconfig") or NotYet("it is not there"), "the Secret")


def test_failure_of_the_playbooks_is_told_and_not_repeated(world: World, operator: OperatorContext) -> None:
    world.declare()
    fail(world, DEPLOY, failed("product", play="etcd", task="Start etcd", host="m-0", hint="look there"))
    (entry,) = world.history(1)
    said = {key: entry[key] for key in ("outcome", "blame", "play", "task", "host", "summary", "hint")}
    assert said == {
        "outcome": "failed",
        "blame": "product",
        "play": "etcd",
        "task": "Start etcd",
        "host": "m-0",
        "summary": "it broke",
        "hint": "look there",
    }
    told = world.condition("Degraded", "True", "Failed")["message"]
    assert all(word in told for word in ("Start etcd", "m-0", "it broke", "look there"))
    world.condition("Progressing", "False", "Failed")
    world.wait(lambda: "deploy failed at task 'Start etcd' on m-0" in events(world) or NotYet("no"), "an Event")
    assert "applied" not in world.status()
    assert world.kubelet.jobs() == [DEPLOY]


def test_annotation_has_what_failed_tried_again(world: World, operator: OperatorContext) -> None:
    world.declare()
    fail(world, DEPLOY, failed("product"))
    world.condition("Degraded", "True")
    world.annotate(retry="1")
    world.succeed(f"{NAME}-2-deploy")
    assert [entry["outcome"] for entry in world.history(2)] == ["succeeded", "failed"]
    world.condition("Degraded", "False")


def test_edit_has_what_failed_tried_again(world: World, operator: OperatorContext) -> None:
    world.declare()
    fail(world, DEPLOY, failed("product"))
    world.condition("Degraded", "True")
    world.edit(etcd={"extraArgs": {"quota-backend-bytes": "1"}})
    world.kubelet.job(f"{NAME}-2-deploy")
    assert world.kubelet.jobs() == [DEPLOY, f"{NAME}-2-deploy"]


def let_time_pass(world: World) -> None:
    """Have the last operation ended long ago."""
    status = world.status()
    history = [{**status["history"][0], "ended": LONG_AGO}, *status["history"][1:]]
    world.api.merge(CLUSTER, NAME, {"status": {"history": history}}, world.namespace, subresource="status")


def test_failure_of_the_infrastructure_is_tried_again_by_itself(world: World, operator: OperatorContext) -> None:
    world.declare(jobs={"retries": 1})
    fail(world, DEPLOY, failed("infra"))
    waits = world.condition("Progressing", "True", "RetryLater")
    assert "attempt 2 of 2 follows" in waits["message"]
    world.condition("Degraded", "False")
    let_time_pass(world)
    fail(world, f"{DEPLOY}-2", failed("infra"))
    assert [(entry["sequence"], entry["attempt"]) for entry in world.history(2)] == [(1, 2), (1, 1)]
    said = world.condition("Degraded", "True", "Failed")
    assert "failed 2 times" in said["message"]
    let_time_pass(world)
    world.condition("Degraded", "True", "Failed")
    assert world.kubelet.jobs() == [DEPLOY, f"{DEPLOY}-2"]


def test_end_that_nobody_saw_is_told_with_the_jobs_own_times(
    world: World, operator: OperatorContext, manager: StartManager
) -> None:
    world.declare()
    world.kubelet.run(DEPLOY)
    stop(operator)
    job = world.succeed(DEPLOY)
    assert "history" not in world.status()
    manager(*MINE, options=OPTIONS)
    (entry,) = world.history(1)
    assert (entry["started"], entry["ended"]) == (dig(job, "status", "startTime"), ended_at(job))
    assert world.kubelet.jobs() == [DEPLOY]


def test_end_of_a_pod_that_is_gone_is_told_by_its_log(
    world: World, operator: OperatorContext, manager: StartManager, api: Cluster
) -> None:
    world.declare()
    world.kubelet.run(DEPLOY)
    stop(operator)
    end = Termination("failed", blame="product", task="Join", host="m-0", summary="refused")
    logs.write(api, world.namespace, DEPLOY, "everything", end)
    fail(world, DEPLOY, "")
    for pod in api.list(POD, world.namespace).items:
        api.delete(POD, pod["metadata"]["name"], world.namespace, grace=0)
    manager(*MINE, options=OPTIONS)
    (entry,) = world.history(1)
    assert (entry["blame"], entry["task"], entry["summary"]) == ("product", "Join", "refused")


def test_executor_that_was_killed_is_no_failure_of_the_playbooks(world: World, operator: OperatorContext) -> None:
    world.declare()
    world.kubelet.job(DEPLOY)
    world.kubelet.end(DEPLOY, exit_code=137, reason="OOMKilled")
    (entry,) = world.history(1)
    assert (entry["outcome"], entry["blame"]) == ("interrupted", "infra")
    assert "OOMKilled" in entry["summary"]
    world.condition("Progressing", "True", "RetryLater")


def test_evicted_executor_goes_on_in_the_same_job(world: World, operator: OperatorContext) -> None:
    world.declare()
    world.kubelet.run(DEPLOY)
    first = world.kubelet.evict(DEPLOY)
    second = world.kubelet.pod(DEPLOY)
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    world.succeed(DEPLOY)
    (entry,) = world.history(1)
    assert (entry["attempt"], entry["outcome"]) == (1, "succeeded")
    assert world.kubelet.jobs() == [DEPLOY]


def test_job_that_somebody_deletes_ends_its_operation(world: World, operator: OperatorContext, api: Cluster) -> None:
    world.declare()
    world.kubelet.run(DEPLOY)
    world.wait(lambda: dig(world.status(), "operation", "started") or NotYet("it has not started"), "its start")
    api.delete(JOB, DEPLOY, world.namespace)
    (entry,) = world.history(1)
    assert (entry["outcome"], entry["blame"]) == ("interrupted", "user")
    assert "somebody deleted the Job" in entry["summary"]
    let_time_pass(world)
    world.succeed(f"{DEPLOY}-2")
    assert world.history(2)[0]["outcome"] == "succeeded"


@REAL_JOBS
def test_job_past_its_deadline_is_told(world: World, operator: OperatorContext, api: Cluster) -> None:
    world.declare()
    world.kubelet.run(DEPLOY)
    annotate(api, world.namespace, DEPLOY, "{}")
    api.merge(JOB, DEPLOY, {"spec": {"activeDeadlineSeconds": 1}}, world.namespace)
    (entry,) = world.history(1)
    assert (entry["outcome"], entry["blame"]) == ("failed", "product")
    assert "did not end within 1 s" in entry["summary"]
    assert "deadlineSeconds" in entry["hint"]


def test_status_says_where_the_executor_is(world: World, operator: OperatorContext, api: Cluster) -> None:
    world.declare()
    world.kubelet.run(DEPLOY)
    annotate(api, world.namespace, DEPLOY, json.dumps({"play": "Install etcd", "task": "Start etcd"}))

    def told() -> bool | NotYet:
        found = world.status().get("operation") or {}
        wanted = ("Install etcd", "Start etcd", dig(world.get(JOB, DEPLOY), "status", "startTime") or "its start")
        return (found.get("play"), found.get("task"), found.get("started")) == wanted or NotYet(str(found))

    assert world.wait(told, "the play, the task and the Job's start")


def scheduler_knows(api: Cluster, namespace: str) -> None:
    """Return once the scheduler finds no node for a pod: it hears of nodes and of pods on different ways."""
    spec = {"containers": [{"name": "c", "image": "nothing:1"}]}

    def nowhere() -> bool | NotYet:
        made = api.ensure(POD, POD.manifest("asked", namespace, labels={}, spec=spec))
        if dig(made, "spec", "nodeName"):
            api.delete(POD, "asked", namespace, grace=0)
            return NotYet("it found one")
        return is_condition(made, "PodScheduled", "False", "Unschedulable") or NotYet("it has not looked")

    until(nowhere, deadline=Deadline.after(WAIT_SECONDS), what="the scheduler to find no node", interval=0.1)


@contextmanager
def no_node(api: Cluster, namespace: str) -> Iterator[None]:
    """Let no node take pods meanwhile."""
    names = [node["metadata"]["name"] for node in api.list(NODE).items]
    for name in names:
        api.merge(NODE, name, {"spec": {"unschedulable": True}})
    try:
        scheduler_knows(api, namespace)
        yield
    finally:
        for name in names:
            api.merge(NODE, name, {"spec": {"unschedulable": None}})


@REAL_JOBS
def test_it_is_said_that_no_node_can_run_pods(world: World, operator: OperatorContext, api: Cluster) -> None:
    with no_node(api, world.namespace):
        world.declare()
        said = world.condition("Progressing", "True", "NoNodeForPods")
        assert "no node can run the executor's pod" in said["message"]
        assert "unschedulable" in said["message"]
        world.condition("Ready", "False", "NoNodeForPods")
    world.succeed(DEPLOY)
    world.history(1)


def not_pulled(world: World, job: str) -> None:
    """Let a Job's pod wait for an image that does not come."""
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}}
    container = {"name": "executor", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": waiting}
    patch = {"status": {"containerStatuses": [container]}}
    world.api.merge(POD, world.kubelet.pod(job)["metadata"]["name"], patch, world.namespace, subresource="status")


def ends_its_pods(world: World, job: str) -> None:
    """Take a Job's pods from the API once they are to go, as their kubelet does."""

    def gone() -> bool | NotYet:
        pods = world.api.list(POD, world.namespace, labels=f"batch.kubernetes.io/job-name={job}").items
        for pod in pods:
            if deleting(pod):
                world.api.delete(POD, pod["metadata"]["name"], world.namespace, grace=0)
        return NotYet(f"there are {len(pods)}") if pods else True

    world.wait(gone, f"the pods of {job} to be gone")


def test_it_is_said_that_the_image_cannot_be_pulled(world: World, operator: OperatorContext, api: Cluster) -> None:
    world.declare()
    not_pulled(world, DEPLOY)
    assert "no such host" in world.condition("Progressing", "True", "ImageNotPulled")["message"]
    assert world.status()["operation"]["obstacle"]["reason"] == "ImageNotPulled"
    world.wait(
        lambda: "ImageNotPulled: the executor cannot start" in events(world) or NotYet(events(world)), "an Event"
    )


@REAL_JOBS
def test_newer_wish_ends_an_operation_that_was_never_started(world: World, operator: OperatorContext) -> None:
    world.declare()
    not_pulled(world, DEPLOY)
    world.condition("Progressing", "True", "ImageNotPulled")
    world.edit(playbooks={"image": "registry.invalid/vmatrix:2"})
    ends_its_pods(world, DEPLOY)
    (entry,) = world.history(1)
    assert (entry["outcome"], entry["blame"], entry["untouched"]) == ("interrupted", "harness", True)
    assert "no such host" in entry["summary"]
    world.succeed(f"{NAME}-2-deploy")
    assert world.history(2)[0]["outcome"] == "succeeded"
    world.gone(JOB, DEPLOY)


@REAL_JOBS
def test_deletion_ends_an_operation_that_was_never_started_and_resets_nothing(
    world: World, operator: OperatorContext, api: Cluster
) -> None:
    with no_node(api, world.namespace):
        world.declare()
        world.condition("Progressing", "True", "NoNodeForPods")
        world.delete()
        ends_its_pods(world, DEPLOY)
        world.gone(CLUSTER_DEPLOYMENT)
    assert f"{NAME}-2-reset" not in world.kubelet.jobs()


@REAL_JOBS
def test_operation_whose_executor_has_begun_is_not_ended_by_a_newer_wish(
    world: World, operator: OperatorContext, api: Cluster
) -> None:
    world.declare()
    not_pulled(world, DEPLOY)
    world.condition("Progressing", "True", "ImageNotPulled")
    annotate(api, world.namespace, DEPLOY, "{}")  # it was started after all, which its pod does not tell yet
    world.edit(version="1.35.4")
    world.condition("Progressing", "True", "ImageNotPulled")
    world.succeed(DEPLOY)
    (entry,) = world.history(1)
    assert (entry["outcome"], entry.get("untouched")) == ("succeeded", None)
    assert not dig(world.get(JOB, DEPLOY), "spec", "suspend")


def test_jobs_are_kept_as_the_object_says_and_logs_stay(world: World, operator: OperatorContext) -> None:
    world.declare(jobs={"keepFailed": 1, "keepSucceeded": 0})
    fail(world, DEPLOY, failed("product"))
    world.history(1)
    world.annotate(retry="1")
    fail(world, f"{NAME}-2-deploy", failed("product"))
    world.history(2)
    world.gone(JOB, DEPLOY)
    world.gone(CONFIG_MAP, DEPLOY)
    assert world.get(JOB, f"{NAME}-2-deploy") is not None
    assert world.get(CONFIG_MAP, f"{NAME}-2-deploy") is not None
    world.annotate(retry="2")
    world.succeed(f"{NAME}-3-deploy")
    world.gone(JOB, f"{NAME}-3-deploy")
    assert all(world.get(CONFIG_MAP, f"{NAME}-{number}-deploy-log") for number in (1, 2, 3))


def test_history_has_an_end_and_so_have_logs(world: World, operator: OperatorContext, manager: StartManager) -> None:
    world.declare()
    world.kubelet.run(DEPLOY)
    world.wait(lambda: dig(world.status(), "operation", "started") or NotYet("it has not started"), "its start")
    stop(operator)
    past = {"operation": "deploy", "outcome": "failed", "digest": "other"}
    old = [{**past, "sequence": -number, "log": f"old-{number}"} for number in range(20)]
    patch = {"status": {"history": old}}
    world.api.merge(CLUSTER, NAME, patch, world.namespace, subresource="status")
    for number in (18, 19):
        world.api.create(CONFIG_MAP, CONFIG_MAP.manifest(f"old-{number}", world.namespace, labels={}))
    world.keep_kubeconfig()
    world.kubelet.end(DEPLOY, message=SUCCEEDED)
    manager(*MINE, options=OPTIONS)
    world.gone(CONFIG_MAP, "old-19")
    assert [entry["sequence"] for entry in world.history(20)] == [1, *(-number for number in range(19))]
    assert world.get(CONFIG_MAP, "old-18") is not None


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_operations_are_counted(outcome: str, world: World, operator: OperatorContext) -> None:
    world.declare()
    if outcome == "succeeded":
        world.succeed(DEPLOY)
    else:
        fail(world, DEPLOY, failed("product"))
    line = f'vmatrix_operator_operations_total{{operation="deploy",outcome="{outcome}"}} 1.0'

    def counted() -> bool | NotYet:
        text = operator.metrics.text(operator.controllers, leading=True)
        return line in text or NotYet(text)

    assert world.wait(counted, line)
