"""A ClusterDeployment: what it owns, what its status says, and what becomes of an object with mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from harness.kube.client import Cluster, Json
from harness.kube.informer import labels_of
from harness.kube.objects import condition, dig
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE_SET, RESET_FINALIZER
from harness.until import NotYet
from tests.embedded.operator.world import NAME, World
from tests.unit.operator.api.objects import deployment, wanted_set

pytestmark = pytest.mark.usefixtures("operator")


def there(world: World, kind: Any, name: str) -> Json:
    return world.wait(lambda: world.get(kind, name) or NotYet("it is not there"), f"{kind.kind} {name}")


def finalizers(world: World) -> list[str]:
    return dig(world.get(CLUSTER_DEPLOYMENT), "metadata", "finalizers") or []


def test_it_owns_a_cluster_of_its_name_and_a_set_for_each_of_its_sets(world: World) -> None:
    sets = [wanted_set("cp", "control-plane", "worker"), wanted_set("w", "worker", replicas=2)]
    made = world.api.create(CLUSTER_DEPLOYMENT, deployment(*sets, name=NAME, namespace=world.namespace))
    for kind, name in ((CLUSTER, NAME), (MACHINE_SET, f"{NAME}-cp"), (MACHINE_SET, f"{NAME}-w")):
        child = there(world, kind, name)
        assert labels_of(child)["cluster.vmatrix.dev/uid"] == made["metadata"]["uid"]
        assert labels_of(child)["cluster.vmatrix.dev/cluster"] == NAME
    assert dig(world.get(MACHINE_SET, f"{NAME}-w"), "spec", "replicas") == 2


def test_what_has_no_mistake_is_accepted_and_waits_for_its_machines(world: World) -> None:
    world.api.create(CLUSTER_DEPLOYMENT, deployment(name=NAME, namespace=world.namespace))
    world.condition("Accepted", "True")
    waits = world.condition("Progressing", "True", "WaitingForMachines")
    assert "set cp has 0 of 1 machines: 1 missing" in waits["message"]
    assert dig(world.get(CLUSTER_DEPLOYMENT), "status", "machines") == "0/1"
    assert world.kubelet.jobs() == []


def test_nothing_is_made_of_an_unknown_version(world: World) -> None:
    world.declare(version="1.99.0")
    said = world.condition("Accepted", "False", "InvalidSpec")
    assert "spec.version: Kubernetes 1.99.0 is not a release that is known" in said["message"]
    world.condition("Ready", "False")
    assert world.get(CLUSTER) is None
    assert world.get(MACHINE_SET, f"{NAME}-cp") is None
    assert finalizers(world) == []


def test_correcting_it_is_all_that_is_needed(world: World) -> None:
    world.declare(version="1.99.0")
    world.condition("Accepted", "False")
    world.edit(version="1.36.3")
    world.condition("Accepted", "True")
    world.kubelet.job(f"{NAME}-1-deploy")


def test_network_with_a_machine_in_it_is_a_mistake(world: World) -> None:
    world.declare(network={"pods": "192.0.2.0/24"})
    said = world.condition("Accepted", "False")
    assert "spec.network.pods: the network 192.0.2.0/24 overlaps 192.0.2.10/32" in said["message"]


def test_an_edit_with_a_mistake_leaves_what_was_made(world: World) -> None:
    world.deployed()
    world.edit(version="1.99.0", machineSets=[wanted_set("cp", "control-plane", "worker", replicas=3)])
    world.condition("Accepted", "False")
    world.condition("Progressing", "False", "NotAccepted")
    assert dig(world.get(MACHINE_SET, f"{NAME}-cp"), "spec", "replicas") == 1
    assert world.kubelet.jobs() == [f"{NAME}-1-deploy"]


@pytest.mark.parametrize(("kind", "name"), [(CLUSTER, NAME), (MACHINE_SET, f"{NAME}-cp")])
def test_child_that_somebody_deletes_is_made_again(world: World, kind: Any, name: str) -> None:
    world.declare(machines=0)
    uid = there(world, kind, name)["metadata"]["uid"]
    world.api.delete(kind, name, world.namespace)

    def other() -> bool | NotYet:
        found = world.get(kind, name)
        return (found is not None and found["metadata"]["uid"] != uid) or NotYet("it is not there again")

    assert world.wait(other, f"another {name}")


def test_set_that_somebody_edits_is_corrected(world: World) -> None:
    world.declare(machines=0)
    there(world, MACHINE_SET, f"{NAME}-cp")
    world.api.merge(MACHINE_SET, f"{NAME}-cp", {"spec": {"replicas": 5}}, world.namespace)

    def corrected() -> bool | NotYet:
        return dig(world.get(MACHINE_SET, f"{NAME}-cp"), "spec", "replicas") == 1 or NotYet("it is not")

    assert world.wait(corrected, "the number of the object")


def test_set_whose_size_changes_or_that_goes_is_followed(world: World) -> None:
    sets = [wanted_set("cp", "control-plane", "worker"), wanted_set("w", "worker")]
    world.api.create(CLUSTER_DEPLOYMENT, deployment(*sets, name=NAME, namespace=world.namespace))
    there(world, MACHINE_SET, f"{NAME}-w")
    world.edit(machineSets=[wanted_set("cp", "control-plane", "worker", replicas=3)])
    world.gone(MACHINE_SET, f"{NAME}-w")

    def larger() -> bool | NotYet:
        return dig(world.get(MACHINE_SET, f"{NAME}-cp"), "spec", "replicas") == 3 or NotYet("it is not")

    assert world.wait(larger, "the new number")


def test_cluster_that_is_another_objects_is_left_alone(world: World, api: Cluster) -> None:
    body = CLUSTER.manifest(NAME, world.namespace, labels={"whose": "a-person"})
    uid = api.create(CLUSTER, body)["metadata"]["uid"]
    world.declare()
    there(world, CLUSTER, NAME)
    world.wait(lambda: finalizers(world) or NotYet("it was not looked at"), "a look at the object")
    found = there(world, CLUSTER, NAME)
    assert (found["metadata"]["uid"], found.get("status")) == (uid, None)
    assert world.kubelet.jobs() == []


def test_finalizer_waits_for_a_reset_only_where_there_is_to_be_one(world: World) -> None:
    world.declare(machines=0)
    world.wait(lambda: finalizers(world) or NotYet("there is none"), "a finalizer")
    assert finalizers(world) == [RESET_FINALIZER]
    world.edit(deletion={"machines": "Leave"})
    world.wait(lambda: not finalizers(world) or NotYet("it is there"), "no finalizer")


def test_ready_needs_ready_machines(world: World) -> None:
    world.declare(machines=3)
    world.succeed(f"{NAME}-1-deploy")
    world.history(1)
    world.say("m-0", "Ready")
    world.say("m-1", "Ready")
    said = world.condition("Ready", "False", "NotReady")
    assert "m-2" in said["message"]
    world.say("m-2", "Ready")
    world.condition("Ready", "True")
    status = dig(world.get(CLUSTER_DEPLOYMENT), "status")
    assert (status["machines"], status["version"], status["endpoint"]) == ("3/3", "1.36.3", "https://192.0.2.10:6443")
    world.say("m-2", "NotReady")
    world.condition("Ready", "False")
    assert "m-2 is NotReady" in (condition(world.get(CLUSTER_DEPLOYMENT), "MachinesReady") or {})["message"]
