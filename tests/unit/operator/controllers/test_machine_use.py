from __future__ import annotations

from typing import Any

import pytest

from harness.operator.api.resources import UID_LABEL
from harness.operator.controllers.machine_use import MachineUse, held, use_of
from tests.unit.operator.controllers.objects import CLAIM, cluster, machine, past

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
