"""The webhooks behind a real API server: mistakes are refused in the words that a condition has without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.infra.cluster.rights import Right
from harness.kube.client import Cluster, Json
from harness.kube.failures import ApiFailure
from harness.kube.objects import condition, dig
from harness.kube.resources import NAMESPACE
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE, MACHINE_SET
from harness.operator.api.rules import read
from harness.operator.decide.variables import load_releases
from harness.operator.rights import USE
from harness.providers.embedded import EmbeddedProvider
from harness.until import NotYet
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.hooks import Served, serving
from tests.embedded.operator.people import permit, person
from tests.embedded.operator.world import MINE, OPTIONS, World
from tests.unit.operator.api.mistakes import BAD, JUDGED
from tests.unit.operator.api.objects import deployment, wanted_set

IN_USE = (
    "metadata.name: Machine m-0 is in use by set cp of cluster one: lower the set's replicas, or have it replaced: "
    "kubectl annotate vma m-0 cluster.vmatrix.dev/replace=WHY"
)
DERIVED = "MachineSet guest-cp is derived: edit spec.machineSets of ClusterDeployment guest instead"
KNOWN = load_releases().kubernetes
WRITES = (
    Right(CLUSTER_DEPLOYMENT, ("create", "get", "patch"), "clusters"),
    Right(MACHINE_SET, ("get", "patch"), "sets"),
)


@pytest.fixture
def served(api: Cluster, namespace: str) -> Iterator[Served]:
    """Return webhooks that nobody calls yet."""
    with serving(api, namespace) as made:
        yield made


@pytest.fixture
def hooks(served: Served) -> Served:
    """Return webhooks that are called."""
    served.configure()
    return served


@pytest.fixture
def alice(api: Cluster, namespace: str, infra: EmbeddedProvider, tmp_path: Path) -> Cluster:
    """Return a client of somebody who may write ClusterDeployments, and take no Machines."""
    made = person(api, namespace, "alice", infra.kubeconfig(), tmp_path)
    permit(api, namespace, "alice", *WRITES)
    return made


def refusal(api: Cluster, body: Json) -> ApiFailure:
    """Return how the API refuses a ClusterDeployment."""
    with pytest.raises(ApiFailure) as failure:
        api.create(CLUSTER_DEPLOYMENT, body)
    return failure.value


def named(obj: Json, namespace: str) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "name": "guest", "namespace": namespace}}


@pytest.mark.parametrize("case", sorted(JUDGED))
def test_a_mistake_is_refused_in_the_words_that_its_condition_has_without_webhooks(
    served: Served, world: World, manager: StartManager, case: str
) -> None:
    body = named(BAD[case][0], served.namespace)
    (mistake,) = read(body, KNOWN)[1]
    world.api.create(CLUSTER_DEPLOYMENT, body)
    manager("clusterdeployment", options=OPTIONS)
    assert world.condition("Accepted", "False")["message"] == mistake.text
    world.delete()
    world.gone(CLUSTER_DEPLOYMENT)

    served.configure()
    failure = refusal(world.api, body)
    assert (failure.code, failure.reason) == (422, "Invalid")
    assert failure.message.endswith(f"denied the request: {mistake.text}")


EDITS: dict[str, tuple[Json, str]] = {
    "downgrade": ({"version": "1.35.4"}, "spec.version: Kubernetes 1.35.4 is older than 1.36.3"),
    "older etcd": ({"components": {"etcd": "3.0.0"}}, "spec.components.etcd: etcd 3.0.0 is older than"),
    "no majority": (
        {"machineSets": [wanted_set("cp", "control-plane", "worker", replicas=1)]},
        "of 3 etcd members 2 would leave, and the others are no majority",
    ),
    "another network by a variable": (
        {"variables": {"cluster_pod_cidr": "10.99.0.0/16"}},
        "spec.variables.cluster_pod_cidr: cluster_pod_cidr cannot change",
    ),
}


def test_edits_that_no_operation_carries_out_are_refused_in_the_words_of_their_condition(
    served: Served, world: World, manager: StartManager
) -> None:
    manager(*MINE, options=OPTIONS)
    made = world.declare(machines=3)
    world.succeed("guest-1-deploy")
    world.history(1)
    before = {"version": "1.36.3", "components": {"etcd": None}}
    before["variables"] = {"cluster_pod_cidr": None}
    before["machineSets"] = made["spec"]["machineSets"]
    said: dict[str, str] = {}
    for name, (edit, words) in EDITS.items():
        world.edit(**edit)
        said[name] = world.condition("Accepted", "False")["message"]
        assert words in said[name]
        world.edit(**before)
        world.condition("Accepted", "True")

    served.configure()
    for name, (edit, _) in EDITS.items():
        with pytest.raises(ApiFailure) as failure:
            world.edit(**edit)
        assert failure.value.message.endswith(f"denied the request: {said[name]}")


def test_a_minor_that_no_hop_leads_over_is_refused_in_the_words_of_its_condition(
    served: Served, world: World, manager: StartManager
) -> None:
    manager(*MINE, options=OPTIONS)
    world.deployed()
    world.edit(paused=True)
    world.condition("Progressing", "False", "Paused")
    old = {"status": {"applied": {"version": "1.32.0"}}}  # as an operator before this one deployed it
    world.api.merge(CLUSTER, "guest", old, world.namespace, subresource="status")
    world.edit(version="1.36.1")
    skipped = world.condition("Accepted", "False")["message"]
    assert "from Kubernetes 1.32.0 to 1.36.1 a minor version is skipped" in skipped
    world.edit(version="1.36.3")

    served.configure()
    with pytest.raises(ApiFailure) as failure:
        world.edit(version="1.36.1")
    assert failure.value.message.endswith(f"denied the request: {skipped}")


def test_an_object_with_an_old_mistake_takes_edits_that_add_none(served: Served, api: Cluster) -> None:
    api.create(CLUSTER_DEPLOYMENT, named(BAD["unknown version"][0], served.namespace))
    served.configure()
    edited = api.merge(CLUSTER_DEPLOYMENT, "guest", {"spec": {"paused": True}}, served.namespace)
    assert edited["spec"]["paused"] is True
    with pytest.raises(ApiFailure, match=r"spec\.variables\.cluster_hosts: the operator sets this variable itself"):
        api.merge(CLUSTER_DEPLOYMENT, "guest", {"spec": {"variables": {"cluster_hosts": []}}}, served.namespace)
    api.merge(CLUSTER_DEPLOYMENT, "guest", {"spec": {"version": "1.36.3"}}, served.namespace)


def test_who_may_not_use_machines_is_told_which_verb_is_missing(hooks: Served, api: Cluster, alice: Cluster) -> None:
    namespace = hooks.namespace
    failure = refusal(alice, deployment(name="guest", namespace=namespace))
    assert failure.code == 403
    assert f'User "system:serviceaccount:{namespace}:alice" cannot use resource "machines"' in failure.message
    assert "set cp takes its machines from a pool" in failure.message

    permit(api, namespace, "alice", *WRITES, Right(MACHINE, ("use",), "one of them", names=("a",)))
    one = deployment(wanted_set("cp", "control-plane", names=["a"]), name="one", namespace=namespace)
    other = deployment(wanted_set("cp", "control-plane", names=["b"]), name="other", namespace=namespace)

    def taken(body: Json) -> bool | NotYet:
        try:
            alice.create(CLUSTER_DEPLOYMENT, body)
        except ApiFailure as error:  # rights take a moment to be known
            return NotYet(error.message)
        return True

    hooks.wait(lambda: taken(one), "the named machine to be taken")
    assert 'machines.cluster.vmatrix.dev "b" is forbidden' in refusal(alice, other).message

    permit(api, namespace, "alice", *WRITES, *USE)
    hooks.wait(lambda: taken(deployment(name="guest", namespace=namespace)), "the pool to be used")


def test_an_edit_that_takes_no_more_machines_needs_no_right_to_use_them(
    hooks: Served, api: Cluster, alice: Cluster
) -> None:
    sets = [wanted_set("cp", "control-plane"), wanted_set("w", "worker", replicas=2)]
    api.create(CLUSTER_DEPLOYMENT, deployment(*sets, name="guest", namespace=hooks.namespace))

    def scale(replicas: int) -> Json:
        wanted = [sets[0], {**sets[1], "replicas": replicas}]
        return alice.merge(CLUSTER_DEPLOYMENT, "guest", {"spec": {"machineSets": wanted}}, hooks.namespace)

    def scaled() -> bool | NotYet:
        try:
            return bool(scale(1))
        except ApiFailure as error:  # rights take a moment to be known
            return NotYet(error.message)

    hooks.wait(scaled, "the set to be smaller")
    with pytest.raises(ApiFailure, match='cannot use resource "machines"'):
        scale(2)


def test_who_wished_and_who_approved_is_written_down_and_cannot_be_claimed(
    hooks: Served, api: Cluster, alice: Cluster
) -> None:
    body = deployment(name="guest", namespace=hooks.namespace)
    body["metadata"]["annotations"] = {"cluster.vmatrix.dev/requested-by": "somebody-else"}
    made = api.create(CLUSTER_DEPLOYMENT, body)["metadata"]["annotations"]
    assert made["cluster.vmatrix.dev/requested-by"].startswith("vmatrix-admin")
    user = f"system:serviceaccount:{hooks.namespace}:alice"

    def said(patch: Json) -> dict[str, str] | NotYet:
        try:
            found = alice.merge(CLUSTER_DEPLOYMENT, "guest", patch, hooks.namespace)
        except ApiFailure as error:  # rights take a moment to be known
            return NotYet(error.message)
        return {str(key).rpartition("/")[2]: str(value) for key, value in found["metadata"]["annotations"].items()}

    approval = {"metadata": {"annotations": {"cluster.vmatrix.dev/approve": "2"}}}
    hooks.wait(lambda: said(approval), "the approval")
    found = said({"spec": {"paused": True}})
    assert isinstance(found, dict)
    assert (found["approved-by"], found["requested-by"]) == (user, user)
    claimed = {f"cluster.vmatrix.dev/{name}": "somebody-else" for name in ("approved-by", "requested-by")}
    found = said({"metadata": {"annotations": claimed}})
    assert isinstance(found, dict)
    assert (found["approved-by"], found["requested-by"]) == (user, user), "also where nothing else is changed"


def test_a_set_is_written_by_nobody_but_the_operator(
    hooks: Served, world: World, manager: StartManager, alice: Cluster
) -> None:
    manager("clusterdeployment", options=OPTIONS)
    world.declare()
    world.wait(lambda: world.get(MACHINE_SET, "guest-cp") or NotYet("none yet"), "the set, by the operator")

    def refused() -> bool | NotYet:
        with pytest.raises(ApiFailure) as failure:
            alice.merge(MACHINE_SET, "guest-cp", {"spec": {"replicas": 3}}, hooks.namespace)
        return DERIVED in failure.value.message or NotYet(failure.value.message)

    hooks.wait(refused, "the edit to be refused")


def test_without_webhooks_an_edit_of_a_set_is_put_back_and_said_to_be(world: World, manager: StartManager) -> None:
    manager(*MINE, options=OPTIONS)
    world.declare()
    world.condition("Progressing", "True", "Deploy")
    world.wait(lambda: world.get(MACHINE_SET, "guest-cp") or NotYet("none yet"), "the set")
    world.api.merge(MACHINE_SET, "guest-cp", {"spec": {"replicas": 3}}, world.namespace)

    def said() -> Json | NotYet:
        found = world.get(MACHINE_SET, "guest-cp") or {}
        edited = condition(found, "Edited")
        back = dig(found, "spec", "replicas") == 1
        return edited if edited and back else NotYet(f"it is {found}")

    edited = world.wait(said, "the edit to be put back")
    assert (edited["status"], edited["reason"], edited["message"]) == ("True", "PutBack", DERIVED)


def test_a_machine_in_use_is_not_deleted_unless_it_is_to_be_replaced(hooks: Served, declared: Declared) -> None:
    for name in ("m-0", "m-1"):
        declared.machine(name)
    made = declared.deployment("one", wanted_set("cp", "control-plane"))
    claim = {"cluster": "one", "set": "cp", "uid": made["metadata"]["uid"]}
    declared.api.merge(MACHINE, "m-0", {"spec": {"claim": claim}}, declared.namespace)
    declared.worked("one", "deploy", "m-0")
    with pytest.raises(ApiFailure, match=IN_USE):
        declared.api.delete(MACHINE, "m-0", declared.namespace)
    with pytest.raises(ApiFailure, match=IN_USE.replace("metadata.name", "spec.claim")):
        declared.api.merge(MACHINE, "m-0", {"spec": {"claim": None}}, declared.namespace)
    assert declared.api.delete(MACHINE, "m-1", declared.namespace)
    asked = {"metadata": {"annotations": {"cluster.vmatrix.dev/replace": "its disk is broken"}}}
    declared.api.merge(MACHINE, "m-0", asked, declared.namespace)
    assert declared.api.delete(MACHINE, "m-0", declared.namespace)


def test_a_cluster_that_is_deployed_is_deleted_with_its_deployment_alone(hooks: Served, declared: Declared) -> None:
    api, namespace = declared.api, declared.namespace
    for name in ("one", "bare"):
        declared.deployment(name, wanted_set("cp", "control-plane"))
    declared.worked("one", "deploy", "m-0")
    with pytest.raises(ApiFailure, match=r"Cluster one knows what is deployed.*: delete ClusterDeployment one instead"):
        api.delete(CLUSTER, "one", namespace)
    assert api.delete(CLUSTER, "bare", namespace)
    assert api.delete(CLUSTER_DEPLOYMENT, "one", namespace)  # the garbage collector takes its Cluster
    hooks.wait(lambda: True if api.get(CLUSTER, "one", namespace) is None else NotYet("it is there"), "no Cluster")


@pytest.mark.usefixtures("logins")
def test_without_webhooks_a_deletion_that_waits_says_the_same(declared: Declared, manager: StartManager) -> None:
    manager("machine", options=OPTIONS)
    declared.machine("m-0")
    made = declared.deployment("one", wanted_set("cp", "control-plane"))
    claim = {"cluster": "one", "set": "cp", "uid": made["metadata"]["uid"]}
    declared.api.merge(MACHINE, "m-0", {"spec": {"claim": claim}}, declared.namespace)
    declared.worked("one", "deploy", "m-0")
    declared.wait("m-0", lambda found: bool(found["metadata"].get("finalizers")), "held")
    assert condition(declared.get("m-0"), "InUse") is None
    declared.api.delete(MACHINE, "m-0", declared.namespace)
    said = declared.reason("m-0", "InUse", "DeletionWaits")
    assert (said["status"], said["message"]) == ("True", IN_USE)


def test_a_dead_server_refuses_wishes_alone(hooks: Served, declared: Declared, world: World) -> None:
    """Deletions, finalizers, status and labels go on; so does the deletion of the whole namespace."""
    api, namespace = hooks.api, hooks.namespace
    declared.machine("m-0")
    made = declared.deployment("one", wanted_set("cp", "control-plane"), deletion={"machines": "Leave"})
    claim = {"cluster": "one", "set": "cp", "uid": made["metadata"]["uid"]}
    api.merge(MACHINE, "m-0", {"spec": {"claim": claim}}, namespace)
    declared.worked("one", "deploy", "m-0")
    api.merge(CLUSTER_DEPLOYMENT, "one", {"metadata": {"finalizers": ["tests.vmatrix.dev/held"]}}, namespace)
    hooks.die()
    with pytest.raises(ApiFailure, match="failed calling webhook"):
        api.merge(CLUSTER_DEPLOYMENT, "one", {"spec": {"paused": True}}, namespace)
    api.merge(CLUSTER_DEPLOYMENT, "one", {"metadata": {"labels": {"a": "b"}}}, namespace)
    api.merge(CLUSTER_DEPLOYMENT, "one", {"status": {"machines": "1/1"}}, namespace, subresource="status")
    api.delete(NAMESPACE, namespace)
    world.wait(lambda: dig(world.get(CLUSTER_DEPLOYMENT, "one"), "metadata", "deletionTimestamp") or NotYet("no"), "it")
    api.merge(CLUSTER_DEPLOYMENT, "one", {"spec": {"paused": True}}, namespace)  # of what is being deleted
    api.merge(CLUSTER_DEPLOYMENT, "one", {"metadata": {"finalizers": None}}, namespace)

    def gone() -> bool | NotYet:
        found = api.get(NAMESPACE, namespace)
        return True if found is None else NotYet(str(condition(found, "NamespaceContentRemaining")))

    hooks.wait(gone, "the namespace to be gone")
