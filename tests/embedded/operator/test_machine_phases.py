"""A Machine's phase follows its cluster, and what holds a Machine that is deleted; on a real API server."""

from __future__ import annotations

import pytest

from harness.kube.client import ApiFailure, Json
from harness.kube.objects import dig, now
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE
from harness.operator.controllers.machine import HOLD
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.logins import PlayedLogins
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.unit.operator.api.objects import wanted_set

pytestmark = pytest.mark.usefixtures("logins")


@pytest.fixture
def claimed(declared: Declared, manager: StartManager) -> Declared:
    """Return objects of which Machine m-0 is claimed by cluster one."""
    return claim(declared, manager)


def claim(declared: Declared, manager: StartManager, **spec: object) -> Declared:
    manager("machine", "machineset", "claims")
    declared.machine("m-0")
    declared.deployment("one", wanted_set("cp", "control-plane", "worker"), **spec)
    declared.phase("m-0", "Claimed")
    return declared


def node_ready(declared: Declared, status: str) -> None:
    """Write what the controller of nodes' health would."""
    own = {"type": "NodeReady", "status": status, "reason": "Played", "message": "", "lastTransitionTime": now()}

    def write() -> bool | NotYet:
        found = declared.get("m-0")
        others = [c for c in found["status"]["conditions"] if c["type"] != "NodeReady"]
        read_at = {"resourceVersion": found["metadata"]["resourceVersion"]}
        patch = {"metadata": read_at, "status": {"conditions": [*others, own]}}
        try:
            declared.api.merge(MACHINE, "m-0", patch, declared.namespace, subresource="status")
        except ApiFailure as failure:
            return NotYet(failure.summary)
        return True

    until(write, deadline=Deadline.after(WAIT_SECONDS), what="NodeReady to be written", interval=INTERVAL)


def test_the_phases_of_a_cluster_that_is_deployed_and_reset(claimed: Declared, logins: PlayedLogins) -> None:
    claimed.works("one", "deploy", "m-0")
    claimed.phase("m-0", "Deploying")
    claimed.worked("one", "deploy", "m-0")
    claimed.phase("m-0", "Deployed")
    node_ready(claimed, "True")
    claimed.phase("m-0", "Ready")
    node_ready(claimed, "False")
    claimed.phase("m-0", "NotReady")
    node_ready(claimed, "Unknown")
    claimed.phase("m-0", "Deployed")
    claimed.works("one", "reset", "m-0")
    claimed.phase("m-0", "Removing")
    claimed.worked("one", "reset")
    claimed.phase("m-0", "Claimed")
    assert logins.asked == ["m-0"]
    claimed.api.delete(CLUSTER_DEPLOYMENT, "one", claimed.namespace)
    claimed.phase("m-0", "Idle")
    assert logins.asked == ["m-0", "m-0"]


@pytest.mark.parametrize("operation", ["deploy", "reset"])
def test_what_an_operation_that_failed_left_is_not_idle(claimed: Declared, operation: str) -> None:
    claimed.works("one", operation, "m-0")
    claimed.worked("one", operation, outcome="failed")
    claimed.phase("m-0", "Failed")
    claimed.works("one", operation, "m-0")
    claimed.phase("m-0", "Deploying" if operation == "deploy" else "Removing")


def test_a_change_of_a_cluster_leaves_its_machines_as_they_are(claimed: Declared) -> None:
    claimed.worked("one", "deploy", "m-0")
    node_ready(claimed, "True")
    claimed.phase("m-0", "Ready")
    claimed.works("one", "reconfigure", "m-0")
    claimed.wait("m-0", lambda found: dig(found, "status", "phase") == "Ready", "still ready")
    claimed.worked("one", "reconfigure", "m-0", outcome="failed")
    claimed.phase("m-0", "Ready")


def test_a_machine_that_only_runs_etcd_is_ready_without_a_node(declared: Declared, manager: StartManager) -> None:
    manager("machine", "machineset")
    declared.machine("m-0")
    etcd = wanted_set("etcd", "etcd", names=["m-0"])
    declared.deployment("one", wanted_set("cp", "control-plane", names=["m-1"]), etcd)
    declared.phase("m-0", "Claimed")
    declared.worked("one", "deploy", "m-0")
    declared.phase("m-0", "Ready")


def test_a_machine_that_nothing_is_on_is_deleted_at_once(claimed: Declared) -> None:
    assert "finalizers" not in claimed.get("m-0")["metadata"]
    claimed.api.delete(MACHINE, "m-0", claimed.namespace)
    claimed.gone("m-0")


def test_a_machine_in_use_is_deleted_after_its_cluster_was_reset(claimed: Declared) -> None:
    claimed.works("one", "deploy", "m-0")
    claimed.wait("m-0", held, "held")
    claimed.worked("one", "deploy", "m-0")
    claimed.api.delete(MACHINE, "m-0", claimed.namespace)
    assert held(claimed.phase("m-0", "Deployed"))
    claimed.said("m-0", "Warning InUse: ClusterDeployment one uses this Machine; it is deleted once the cluster was")
    claimed.worked("one", "reset")
    claimed.gone("m-0")


def test_a_machine_of_a_cluster_that_leaves_its_machines_is_not_held(declared: Declared, manager: StartManager) -> None:
    claim(declared, manager, deletion={"machines": "Leave"})
    declared.worked("one", "deploy", "m-0")
    declared.phase("m-0", "Deployed")
    assert not held(declared.get("m-0"))
    declared.api.delete(MACHINE, "m-0", declared.namespace)
    declared.gone("m-0")


def test_a_hold_ends_with_the_cluster(claimed: Declared) -> None:
    claimed.worked("one", "deploy", "m-0")
    claimed.wait("m-0", held, "held")
    claimed.api.delete(CLUSTER_DEPLOYMENT, "one", claimed.namespace)
    claimed.gone("one", CLUSTER)
    found = claimed.wait("m-0", lambda one: not dig(one, "spec", "claim") and not held(one), "released and not held")
    assert found["metadata"].get("deletionTimestamp") is None


def held(found: Json) -> bool:
    return HOLD in (found["metadata"].get("finalizers") or [])
