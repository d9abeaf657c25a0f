"""A ClusterDeployment is deleted: before, while and after something is deployed; with and without a reset."""

from __future__ import annotations

import pytest

from harness.kube.client import Cluster
from harness.kube.objects import dig
from harness.kube.resources import JOB, SECRET
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE
from harness.operator.context import OperatorContext
from harness.operator.registry import stop
from harness.until import NotYet
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.world import MINE, NAME, OPTIONS, SUCCEEDED, World, failed

DEPLOY, RESET = f"{NAME}-1-deploy", f"{NAME}-2-reset"


def test_before_anything_is_deployed_it_goes_at_once(world: World, operator: OperatorContext) -> None:
    world.declare(machines=0)
    world.condition("Accepted", "True")
    world.delete()
    world.gone(CLUSTER_DEPLOYMENT)
    world.gone(CLUSTER)
    assert world.kubelet.jobs() == []


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_after_a_deployment_it_waits_for_the_reset(
    propagation: str, world: World, operator: OperatorContext, api: Cluster
) -> None:
    world.deployed()
    api.delete(CLUSTER_DEPLOYMENT, NAME, world.namespace, propagation=propagation)
    job = world.kubelet.job(RESET)
    assert dig(job, "metadata", "labels", "cluster.vmatrix.dev/operation") == "reset"
    world.condition("Progressing", "True", "Reset")
    assert dig(world.status(), "applied", "machines") == ["m-0"]
    world.kubelet.end(RESET, message=SUCCEEDED)
    world.gone(CLUSTER_DEPLOYMENT)
    world.gone(CLUSTER)
    world.gone(JOB, RESET)
    world.gone(SECRET, f"{NAME}-kubeconfig")


def test_while_a_deployment_runs_it_waits_for_its_end_and_the_reset(world: World, operator: OperatorContext) -> None:
    world.declare()
    world.kubelet.run(DEPLOY)
    world.delete()
    world.succeed(DEPLOY)
    world.kubelet.job(RESET)
    world.kubelet.end(RESET, message=SUCCEEDED)
    world.gone(CLUSTER_DEPLOYMENT)


def test_after_a_deployment_that_failed_machines_are_reset_too(world: World, operator: OperatorContext) -> None:
    world.declare()
    world.kubelet.job(DEPLOY)
    world.kubelet.end(DEPLOY, exit_code=1, message=failed("product"))
    world.history(1)
    world.delete()
    world.kubelet.job(RESET)
    world.kubelet.end(RESET, message=SUCCEEDED)
    world.gone(CLUSTER_DEPLOYMENT)


def test_machines_that_are_left_are_not_reset(world: World, operator: OperatorContext) -> None:
    world.declare(deletion={"machines": "Leave"})
    world.succeed(DEPLOY)
    world.history(1)
    world.delete()
    world.gone(CLUSTER_DEPLOYMENT)
    world.gone(CLUSTER)
    assert RESET not in world.kubelet.jobs()


def test_cluster_of_an_object_whose_finalizer_was_taken_off_goes_too(world: World, operator: OperatorContext) -> None:
    world.deployed()
    world.edit(paused=True)
    world.delete()
    world.api.merge(CLUSTER_DEPLOYMENT, NAME, {"metadata": {"finalizers": None}}, world.namespace)
    world.gone(CLUSTER_DEPLOYMENT)
    world.gone(CLUSTER)


def test_reset_that_failed_keeps_the_object_until_machines_are_to_be_left(
    world: World, operator: OperatorContext
) -> None:
    world.deployed()
    world.delete()
    world.kubelet.job(RESET)
    world.kubelet.end(RESET, exit_code=1, message=failed("product", task="Remove kubelet", host="m-0"))
    said = world.condition("Degraded", "True", "Failed")
    assert "Remove kubelet" in said["message"]
    assert "Leave" in said["message"]
    world.edit(deletion={"machines": "Leave"})
    world.gone(CLUSTER_DEPLOYMENT)


def test_reset_is_tried_again_on_request(world: World, operator: OperatorContext) -> None:
    world.deployed()
    world.delete()
    world.kubelet.job(RESET)
    world.kubelet.end(RESET, exit_code=1, message=failed("product"))
    world.condition("Degraded", "True")
    world.annotate(retry="1")
    world.kubelet.job(f"{NAME}-3-reset")
    world.kubelet.end(f"{NAME}-3-reset", message=SUCCEEDED)
    world.gone(CLUSTER_DEPLOYMENT)


def test_paused_object_is_not_reset(world: World, operator: OperatorContext) -> None:
    world.deployed()
    world.edit(paused=True)
    world.delete()
    said = world.condition("Progressing", "False", "Paused")
    assert "deletion waits" in said["message"]
    assert world.kubelet.jobs() == [DEPLOY]
    world.edit(paused=False)
    world.kubelet.job(RESET)


def test_deletion_that_nobody_saw_is_done_later(world: World, operator: OperatorContext, manager: StartManager) -> None:
    world.deployed()
    stop(operator)
    world.delete()
    manager(*MINE, options=OPTIONS)
    world.kubelet.job(RESET)
    world.kubelet.end(RESET, message=SUCCEEDED)
    world.gone(CLUSTER_DEPLOYMENT)


def test_next_object_of_the_name_begins_anew(world: World, operator: OperatorContext) -> None:
    world.deployed()
    first = (world.get(CLUSTER) or {})["metadata"]["uid"]
    world.delete()
    world.kubelet.job(RESET)
    world.kubelet.end(RESET, message=SUCCEEDED)
    world.gone(CLUSTER_DEPLOYMENT)
    again = world.api.create(CLUSTER_DEPLOYMENT, world.body)

    def another() -> bool | NotYet:
        found = world.get(CLUSTER)
        return (found is not None and found["metadata"]["uid"] != first) or NotYet("it is the first one's")

    world.wait(another, "a Cluster of its own")
    claim = {"spec": {"claim": {"cluster": NAME, "set": "cp", "uid": again["metadata"]["uid"]}}}
    world.api.merge(MACHINE, "m-0", claim, world.namespace)
    world.succeed(DEPLOY)
    assert [entry["sequence"] for entry in world.history(1)] == [1]
