"""What a Machine is used for, and the phase that follows."""

from __future__ import annotations

from typing import Any, cast

import pytest

from harness.kube.client import Cluster
from harness.kube.informer import Informer
from harness.kube.reconcile import Queue
from harness.operator.api.resources import MACHINE, UID_LABEL
from harness.operator.controllers.machine_phase import (
    MachineUse,
    etcd_is_gone,
    follow_claims,
    held,
    is_gone,
    phase_of,
    use_of,
)
from tests.unit.operator.controllers.objects import CLAIM, cluster, condition, machine, past

UP = condition("Reachable", "True")
FREE = {
    "nobody looked": ((), "Pending"),
    "bare": ((UP, condition("Empty", "True")), "Idle"),
    "unreachable": ((condition("Reachable", "False", "Unreachable"), condition("Empty", "Unknown")), "Unreachable"),
    "key refused": ((condition("Reachable", "False", "KeyRefused"), condition("Empty", "Unknown")), "Failed"),
    "not empty": ((UP, condition("Empty", "False", "NotEmpty")), "Failed"),
    "looked at before it was edited": ((UP, condition("Empty", "True", generation=0)), "Pending"),
}


@pytest.mark.parametrize("case", FREE)
def test_the_phase_of_a_free_machine_follows_its_conditions(case: str) -> None:
    conditions, wanted = FREE[case]
    assert phase_of(machine("m-0", *conditions), MachineUse.FREE, ()) == wanted


KUBEVIRT: dict[str, Any] = {"image": {"url": "http://m/x", "checksum": "sha256:0"}, "memory": "1Gi", "disk": "9Gi"}
READY = condition("InfrastructureReady", "True", "Running")
MADE = {
    "nothing is known": ((), "Provisioning"),
    "its image is imported": ((condition("InfrastructureReady", "False", "ImportingImage"),), "Provisioning"),
    "it runs": ((READY,), "Provisioning"),
    "it boots": ((READY, condition("Reachable", "False", "Booting"), condition("Empty", "Unknown")), "Provisioning"),
    "it can be used": ((READY, UP, condition("Empty", "True")), "Provisioned"),
    "it is lost": ((condition("InfrastructureReady", "False", "Lost"), UP), "Lost"),
}


@pytest.mark.parametrize("case", MADE)
def test_a_machine_that_is_made_is_provisioned_first(case: str) -> None:
    conditions, wanted = MADE[case]
    assert phase_of(machine("m-0", *conditions, kubevirt=KUBEVIRT, claim=CLAIM), MachineUse.CLAIMED, ()) == wanted


def test_a_machine_that_is_lost_is_so_whatever_it_is_used_for() -> None:
    found = machine("m-0", condition("InfrastructureReady", "False", "Lost"), claim=CLAIM)
    assert phase_of(found, MachineUse.DEPLOYED, ["worker"]) == "Lost"
    stopped = machine("m-0", condition("InfrastructureReady", "False", "Stopped"), claim=CLAIM)
    assert phase_of(stopped, MachineUse.DEPLOYED, ["worker"]) == "NotReady"


def test_a_node_s_own_word_counts_for_nothing_while_its_machine_is_down() -> None:
    down, ready = condition("InfrastructureReady", "False", "Starting"), condition("NodeReady", "True")
    assert phase_of(machine("m-0", down, ready, claim=CLAIM), MachineUse.DEPLOYED, ["worker"]) == "NotReady"


@pytest.mark.parametrize(
    ("use", "wanted"),
    [
        (MachineUse.CLAIMED, "Claimed"),
        (MachineUse.JOINING, "Deploying"),
        (MachineUse.LEAVING, "Removing"),
        (MachineUse.BROKEN, "Failed"),
    ],
)
def test_the_phase_of_a_machine_in_use_does_not_depend_on_its_last_login(use: MachineUse, wanted: str) -> None:
    down = condition("Reachable", "False", "Unreachable")
    assert phase_of(machine("m-0", down), use, ["worker"]) == wanted


@pytest.mark.parametrize(
    ("status", "wanted"), [("True", "Ready"), ("False", "NotReady"), ("Unknown", "Deployed"), (None, "Deployed")]
)
def test_a_deployed_machine_is_as_ready_as_its_node(status: str | None, wanted: str) -> None:
    conditions = [condition("NodeReady", status, generation=None)] if status else []
    assert phase_of(machine("m-0", *conditions), MachineUse.DEPLOYED, ["control-plane"]) == wanted
    assert phase_of(machine("m-0", *conditions), MachineUse.DEPLOYED, ["etcd"]) == "Ready"


Json = dict[str, Any]
RUNS = {"sequence": 2, "operation": "deploy", "machines": ["m-0"]}
RESETS = {"sequence": 2, "operation": "reset"}
CASES = {
    "no cluster yet": (None, MachineUse.CLAIMED),
    "nothing done yet": (cluster(), MachineUse.CLAIMED),
    "a cluster of the same name": (cluster("m-0", uid="another"), MachineUse.CLAIMED),
    "deploying": (cluster(operation=RUNS), MachineUse.JOINING),
    "deploying others": (cluster(operation={**RUNS, "machines": ["m-1"]}), MachineUse.CLAIMED),
    "deploying, told by what is applied": (
        cluster(operation={"operation": "deploy", "applies": {"machines": ["m-0"]}}),
        MachineUse.JOINING,
    ),
    "deployed": (cluster("m-0"), MachineUse.DEPLOYED),
    "changing": (cluster("m-0", operation={**RUNS, "operation": "reconfigure"}), MachineUse.DEPLOYED),
    "joining a cluster": (cluster("m-1", operation={**RUNS, "operation": "scale"}), MachineUse.JOINING),
    "a change failed": (cluster("m-0", history=(past("reconfigure", "failed"),)), MachineUse.DEPLOYED),
    "the deployment failed": (cluster(history=(past("deploy", "failed"),)), MachineUse.BROKEN),
    "the deployment was interrupted": (cluster(history=(past("deploy", "interrupted"),)), MachineUse.BROKEN),
    "tried again": (cluster(operation=RUNS, history=(past("deploy", "failed"),)), MachineUse.JOINING),
    "resetting": (cluster("m-0", operation=RESETS), MachineUse.LEAVING),
    "resetting what a failed deployment left": (cluster(operation=RESETS), MachineUse.LEAVING),
    "the reset failed": (cluster("m-0", history=(past("reset", "failed"),)), MachineUse.BROKEN),
    "reset": (cluster(history=(past("reset", "succeeded"), past("deploy", "failed"))), MachineUse.CLAIMED),
}


@pytest.mark.parametrize("case", CASES)
def test_the_use_of_a_claimed_machine_follows_its_cluster(case: str) -> None:
    found, wanted = CASES[case]
    assert use_of(machine(claim=CLAIM), found) is wanted


def test_a_cluster_without_an_owner_is_known_by_its_label() -> None:
    found = cluster("m-0")
    del found["metadata"]["ownerReferences"]
    for uid, use in (("another", MachineUse.CLAIMED), (CLAIM["uid"], MachineUse.DEPLOYED)):
        found["metadata"]["labels"] = {UID_LABEL: uid}
        assert use_of(machine(claim=CLAIM), found) is use


def test_a_machine_without_a_claim_is_free_whatever_a_cluster_says() -> None:
    assert use_of(machine(), cluster("m-0", operation=RUNS)) is MachineUse.FREE


def test_a_cluster_has_something_on_what_is_deployed_and_what_is_worked_on() -> None:
    assert held(cluster("m-1", operation=RUNS)) == {"m-0", "m-1"}
    assert held(cluster("m-1", operation=RESETS)) == {"m-1"}
    assert held(cluster(operation=RESETS)) == set()


def test_only_what_may_have_been_changed_has_to_be_undone() -> None:
    assert {use for use in MachineUse if use.holds} == {
        MachineUse.JOINING,
        MachineUse.DEPLOYED,
        MachineUse.LEAVING,
        MachineUse.BROKEN,
    }


def versioned_machine(version: int, cluster: str = "") -> Json:
    spec = {"claim": {"cluster": cluster}} if cluster else {}
    return {"metadata": {"namespace": "n", "name": "m", "resourceVersion": str(version)}, "spec": spec}


def taken(queue: Queue) -> set[str]:
    found = set()
    while len(queue):
        key = queue.take()
        assert key is not None
        queue.done(key)
        found.add(key[1])
    return found


def test_change_is_about_the_cluster_that_has_it_and_the_one_that_had() -> None:
    machines, queue = Informer(cast(Cluster, None), MACHINE), Queue()
    follow_claims(machines, queue)
    machines._store("ADDED", versioned_machine(1))
    assert taken(queue) == set()
    machines._store("MODIFIED", versioned_machine(2, "a"))
    assert taken(queue) == {"a"}
    machines._store("MODIFIED", versioned_machine(3, "b"))
    assert taken(queue) == {"a", "b"}
    machines._store("MODIFIED", versioned_machine(4))
    assert taken(queue) == {"b"}
    machines._store("MODIFIED", versioned_machine(5, "c"))
    machines._store("DELETED", versioned_machine(6, "c"))
    assert taken(queue) == {"c"}
    machines._store("ADDED", versioned_machine(7))
    assert taken(queue) == set()


LOST = condition("InfrastructureReady", "False", "Lost")


def deployed() -> Json:
    found = cluster("cp-0", "cp-1", "w-0")
    groups = {"cp-0": ["control_plane", "etcd"], "cp-1": ["control_plane", "etcd"], "w-0": ["node"]}
    hosts = [{"machine": name, "groups": of} for name, of in groups.items()]
    found["status"]["applied"]["hosts"] = hosts
    return found


def test_it_is_gone_once_no_control_plane_is_left() -> None:
    one = machine("cp-1", LOST)
    assert not is_gone(deployed(), [machine("cp-0"), one, machine("w-0", LOST)])
    assert is_gone(deployed(), [machine("cp-0", LOST), one, machine("w-0")])
    assert is_gone(deployed(), [one]), "a Machine that was deleted is not there either"


def test_etcd_is_gone_without_its_majority() -> None:
    assert etcd_is_gone(deployed(), [machine("cp-0"), machine("cp-1", LOST)])
    assert not etcd_is_gone(deployed(), [machine("cp-0"), machine("cp-1"), machine("w-0", LOST)])
    assert not etcd_is_gone(cluster(), [])


def test_one_that_was_never_deployed_is_not_gone() -> None:
    assert not is_gone(None, [])
    assert not is_gone(cluster(), [])
