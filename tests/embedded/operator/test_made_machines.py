"""Sets whose machines are made: names, replacement, fewer, the end; on a real API server. KubeVirt's part is played."""

from __future__ import annotations

import pytest

from harness.kube.client import Json
from harness.kube.objects import dig
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, MACHINE, MACHINE_SET
from harness.operator.controllers.machine import HOLD
from harness.operator.registry import stop
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.logins import PlayedLogins
from tests.embedded.operator.made import infrastructure, made_set, runs
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.unit.operator.api.objects import wanted_set

CP = wanted_set("cp", "control-plane", names=["nobody"])
ALL = ("machine", "machineset", "claims")
pytestmark = pytest.mark.usefixtures("logins")


def names(declared: Declared) -> list[str]:
    return sorted(found["metadata"]["name"] for found in declared.api.list(MACHINE, declared.namespace).items)


def has(declared: Declared, *wanted: str) -> None:
    """Wait until there are these Machines and no others."""

    def probe() -> bool | NotYet:
        found = names(declared)
        return found == sorted(wanted) or NotYet(f"there are {found}")

    until(probe, deadline=Deadline.after(WAIT_SECONDS), what=f"Machines {wanted}", interval=INTERVAL)


def edit(declared: Declared, replicas: int, **kubevirt: str) -> None:
    """Change the wish, and the MachineSet that another controller derives from it."""
    one = made_set(replicas, **kubevirt)
    spec: Json = {"spec": {"machineSets": [CP, one]}}
    declared.api.merge(CLUSTER_DEPLOYMENT, "one", spec, declared.namespace)
    declared.api.merge(MACHINE_SET, "one-w", {"spec": one}, declared.namespace)


@pytest.fixture
def pair(declared: Declared, manager: StartManager) -> Declared:
    """Return objects of cluster one with two machines that were made and deployed."""
    manager(*ALL)
    declared.deployment("one", CP, made_set(2))
    has(declared, "one-w-1", "one-w-2")
    for name in names(declared):
        runs(declared, name)
        declared.phase(name, "Provisioned")
    declared.works("one", "deploy", "one-w-1", "one-w-2")
    declared.phase("one-w-1", "Deploying")
    declared.worked("one", "deploy", "one-w-1", "one-w-2")
    for name in names(declared):
        declared.wait(name, lambda found: HOLD in (found["metadata"].get("finalizers") or ()), "held")
    return declared


def test_machines_are_made_and_logged_in_to_once_they_run(
    declared: Declared, manager: StartManager, logins: PlayedLogins
) -> None:
    manager(*ALL)
    declared.deployment("one", CP, made_set(2))
    has(declared, "one-w-1", "one-w-2")
    assert dig(declared.phase("one-w-1", "Provisioning"), "spec", "claim", "cluster") == "one"
    runs(declared, "one-w-1")
    declared.phase("one-w-1", "Provisioned")
    assert logins.asked == ["one-w-1"]
    declared.wait("one-w", lambda found: dig(found, "status", "provisioned") == 1, "half there", MACHINE_SET)
    assert dig(declared.get("one-w", MACHINE_SET), "status", "made") == 2


def test_a_machine_that_somebody_deletes_is_replaced_by_one_of_another_name(
    declared: Declared, manager: StartManager
) -> None:
    manager(*ALL)
    declared.deployment("one", CP, made_set(2))
    has(declared, "one-w-1", "one-w-2")
    declared.api.delete(MACHINE, "one-w-2", declared.namespace)
    has(declared, "one-w-1", "one-w-3")


def test_a_machine_in_use_that_is_deleted_stays_until_it_was_removed(pair: Declared) -> None:
    pair.api.delete(MACHINE, "one-w-1", pair.namespace)
    has(pair, "one-w-1", "one-w-2", "one-w-3")
    pair.works("one", "remove-node", "one-w-1")
    assert pair.get("one-w-1")["metadata"]["deletionTimestamp"]
    pair.worked("one", "remove-node", "one-w-2")
    has(pair, "one-w-2", "one-w-3")


def test_a_lost_machine_is_replaced_and_goes_once_it_was_removed(pair: Declared) -> None:
    infrastructure(pair, "one-w-2", "False", "Lost")
    has(pair, "one-w-1", "one-w-2", "one-w-3")
    pair.said("one-w-2", "Warning Replaced: it is lost")
    assert pair.phase("one-w-2", "Lost")["metadata"]["finalizers"] == [HOLD]
    pair.worked("one", "remove-node", "one-w-1")
    has(pair, "one-w-1", "one-w-3")


def test_a_machine_that_is_only_stopped_stays(pair: Declared) -> None:
    infrastructure(pair, "one-w-2", "False", "Stopped")
    pair.reason("one-w-2", "InfrastructureReady", "Stopped")
    runs(pair, "one-w-2")
    assert names(pair) == ["one-w-1", "one-w-2"]
    assert not pair.get("one-w-2")["metadata"].get("deletionTimestamp")


def test_of_a_set_that_wants_fewer_the_marked_one_goes_first_then_the_last(
    declared: Declared, manager: StartManager
) -> None:
    manager(*ALL)
    declared.deployment("one", CP, made_set(4))
    has(declared, "one-w-1", "one-w-2", "one-w-3", "one-w-4")
    marked = {"metadata": {"annotations": {"cluster.vmatrix.dev/delete-me": "it is noisy"}}}
    declared.api.merge(MACHINE, "one-w-1", marked, declared.namespace)
    declared.wait("one-w", lambda found: dig(found, "status", "claimed") == 4, "whole", MACHINE_SET)
    edit(declared, 2)
    has(declared, "one-w-2", "one-w-3")
    edit(declared, 3)
    has(declared, "one-w-2", "one-w-3", "one-w-5")


def test_machines_that_never_ran_follow_their_set(declared: Declared, manager: StartManager) -> None:
    manager(*ALL)
    declared.deployment("one", CP, made_set(2))
    has(declared, "one-w-1", "one-w-2")
    runs(declared, "one-w-1")
    edit(declared, 2, memory="1Gi")
    has(declared, "one-w-1", "one-w-3")
    assert declared.get("one-w-3")["spec"]["kubevirt"]["memory"] == "1Gi"


def test_a_new_manager_makes_none_a_second_time(declared: Declared, manager: StartManager) -> None:
    first = manager(*ALL)
    declared.deployment("one", CP, made_set(2))
    has(declared, "one-w-1", "one-w-2")
    stop(first)
    declared.api.delete(MACHINE, "one-w-2", declared.namespace)
    manager(*ALL)
    has(declared, "one-w-1", "one-w-3")


def test_they_go_with_their_cluster_whether_or_not_a_manager_runs(pair: Declared) -> None:
    pair.api.delete(CLUSTER_DEPLOYMENT, "one", pair.namespace)
    has(pair)
