from __future__ import annotations

from typing import Any

import pytest

from harness.operator.controllers.claims import needless
from tests.unit.operator.api import objects
from tests.unit.operator.controllers.objects import CLAIM, UID, cluster, idle

Json = dict[str, Any]


def deployment(replicas: int = 1, name: str = "cp", uid: str = UID, **spec: Any) -> Json:
    """Return ClusterDeployment `one` with one set."""
    found = objects.deployment(objects.wanted_set(name, "worker", replicas=replicas), name="one", **spec)
    found["metadata"]["uid"] = uid
    return found


def going() -> Json:
    found = deployment(0)
    found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return found


M0, M1 = idle("m-0", claim=CLAIM), idle("m-1", claim=CLAIM)
CASES: dict[str, tuple[Json | None, Json | None, str]] = {
    "wanted": (deployment(2), cluster(), ""),
    "gone": (None, None, "cluster one is gone"),
    "gone, what was on it with it": (None, cluster("m-1"), "cluster one is gone"),
    "another of the name": (deployment(2, uid="x"), cluster(), "cluster one is gone, and another one has its name"),
    "no such set": (deployment(2, name="w"), cluster(), "cluster one has no set cp any more"),
    "no such set, deployed": (deployment(2, name="w"), cluster("m-1"), ""),
    "too many": (deployment(1), cluster(), "set cp of cluster one wants fewer machines"),
    "too many, this one deployed": (deployment(1), cluster("m-1"), ""),
    "too many, being deployed": (deployment(1), cluster(operation={"operation": "deploy", "machines": ["m-1"]}), ""),
    "paused": (deployment(0, paused=True), cluster(), ""),
    "being deleted": (going(), cluster(), ""),
}


@pytest.mark.parametrize("case", CASES)
def test_the_claim_of_the_younger_of_two_machines(case: str) -> None:
    declared, found, why = CASES[case]
    assert needless(M1, declared, found, [M0, M1]) == why


def test_a_machine_that_is_deployed_is_kept_before_an_older_one() -> None:
    assert needless(M0, deployment(1), cluster("m-1"), [M0, M1]) == "set cp of cluster one wants fewer machines"


def test_a_machine_whose_name_was_taken_out_of_the_set() -> None:
    declared = deployment(1)
    declared["spec"]["machineSets"][0]["machines"] = {"names": ["m-1"]}
    assert needless(M0, declared, cluster(), [M0]) == "set cp of cluster one does not name it any more"
    assert needless(M1, declared, cluster(), [M1]) == ""
