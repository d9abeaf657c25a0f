"""Who gets which Machines, who has to wait and why, and when claims are given up; on a real API server."""

from __future__ import annotations

import threading

import pytest

from harness.kube.client import Cluster, Json
from harness.kube.failures import Unreachable
from harness.kube.objects import condition, dig
from harness.kube.resources import POD
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, CLUSTER_LABEL, MACHINE, MACHINE_SET
from harness.operator.context import OperatorContext
from harness.operator.controllers.machine_choice import CLAIMED
from harness.operator.controllers.machineset import MachineSetController
from harness.providers.embedded import EmbeddedProvider
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.logins import PlayedLogins, bare
from tests.embedded.operator.played import WAIT_SECONDS
from tests.embedded.operator.recorded import Asked, RecordedCluster
from tests.unit.operator.api.objects import wanted_set

ALL = ("machine", "machineset", "claims")
TWO = wanted_set("cp", "control-plane"), wanted_set("w", "worker")  # of one pool
pytestmark = pytest.mark.usefixtures("logins")


def pool(replicas: int, name: str = "cp") -> Json:
    return wanted_set(name, "control-plane", "worker", replicas=replicas)


def idle(declared: Declared, *names: str) -> None:
    """Make Machines of one pool and wait until they are idle."""
    for name in names:
        declared.machine(name)
    for name in names:
        declared.phase(name, "Idle")


def counts(declared: Declared, name: str, claimed: int) -> Json:
    """Return a MachineSet once so many machines are claimed."""
    return declared.wait(
        name, lambda found: dig(found, "status", "claimed") == claimed, f"{claimed} claimed", MACHINE_SET
    )


def patches(asked: Asked, name: str) -> bool:
    """Tell whether a request is to change a Machine's spec."""
    return asked.method == "PATCH" and asked.path.endswith(f"/machines/{name}")


def test_as_many_machines_are_claimed_as_are_wanted(declared: Declared, manager: StartManager) -> None:
    manager(*ALL)
    idle(declared, "m-0", "m-1", "m-2", "m-3")
    deployment = declared.deployment("one", pool(3))
    found = counts(declared, "one-cp", 3)
    assert (condition(found, CLAIMED) or {})["status"] == "True"
    assert declared.claimed("one") == ["m-0", "m-1", "m-2"]
    claim = {"cluster": "one", "set": "cp", "uid": deployment["metadata"]["uid"]}
    assert declared.phase("m-0", "Claimed")["spec"]["claim"] == claim
    assert declared.get("m-0")["status"]["roles"] == ["control-plane", "worker"]
    assert dig(declared.get("m-3"), "status", "phase") == "Idle"


def test_a_pool_that_is_too_small_says_what_is_missing_and_why(
    declared: Declared, manager: StartManager, logins: PlayedLogins
) -> None:
    logins.answers["m-2"] = bare("m-2", "/var/lib/kubelet/config.yaml")
    manager(*ALL)
    idle(declared, "m-0", "m-1")
    declared.machine("m-2")
    declared.phase("m-2", "Failed")
    declared.deployment("one", pool(1))
    counts(declared, "one-cp", 1)
    declared.deployment("two", pool(3))
    said = (
        "waiting for 2 more machines with labels rack=a: 2 exist, 1 is Failed (m-2), 1 is claimed by cluster one (m-0)"
    )

    def says(found: Json) -> bool:
        return (condition(found, CLAIMED) or {}).get("message") == said

    found = declared.wait("two-cp", says, "waiting", MACHINE_SET)
    assert (found["status"]["wanted"], found["status"]["claimed"]) == (3, 1)
    for name in ("m-3", "m-4"):
        declared.machine(name)
    counts(declared, "two-cp", 3)
    assert declared.claimed("two") == ["m-1", "m-3", "m-4"]


def test_named_machines_are_claimed_and_no_others(declared: Declared, manager: StartManager) -> None:
    manager(*ALL)
    idle(declared, "m-0", "m-1")
    declared.deployment("one", wanted_set("cp", "control-plane", replicas=3, names=["m-1", "m-7", "m-8"]))
    found = counts(declared, "one-cp", 1)
    said = "waiting for 2 more machines of m-1, m-7, m-8: m-7, m-8 not found"
    assert (condition(found, CLAIMED) or {})["message"] == said
    assert declared.claimed("one") == ["m-1"]


def test_a_paused_cluster_claims_nothing_until_it_goes_on(declared: Declared, manager: StartManager) -> None:
    manager(*ALL)
    declared.deployment("one", pool(1), paused=True)
    idle(declared, "m-0")
    counts(declared, "one-cp", 0)
    assert declared.claimed("one") == []
    declared.api.merge(CLUSTER_DEPLOYMENT, "one", {"spec": {"paused": False}}, declared.namespace)
    declared.phase("m-0", "Claimed")


def test_a_machine_that_somebody_else_was_faster_with_is_not_taken_from_them(
    infra: EmbeddedProvider, declared: Declared, manager: StartManager
) -> None:
    manager("machine")
    idle(declared, "m-0", "m-1")
    other = {"cluster": "other", "set": "cp", "uid": "u"}

    def faster(asked: Asked) -> None:
        if patches(asked, "m-0"):
            declared.api.merge(MACHINE, "m-0", {"spec": {"claim": other}}, declared.namespace)

    declared.deployment("one", pool(1))
    manager("machineset", client=RecordedCluster.open(infra.kubeconfig(), before=faster))
    counts(declared, "one-cp", 1)
    assert declared.claimed("one") == ["m-1"]
    assert declared.get("m-0")["spec"]["claim"] == other


def test_a_claim_that_an_earlier_manager_made_last_counts(
    infra: EmbeddedProvider, declared: Declared, manager: StartManager
) -> None:
    manager("machine")
    idle(declared, "m-0", "m-1")
    uid = declared.deployment("one", pool(1))["metadata"]["uid"]
    own = {"cluster": "one", "set": "cp", "uid": uid}

    def unseen(asked: Asked) -> None:
        if patches(asked, "m-0"):
            declared.api.merge(MACHINE, "m-0", {"spec": {"claim": own}}, declared.namespace)

    manager("machineset", client=RecordedCluster.open(infra.kubeconfig(), before=unseen))
    counts(declared, "one-cp", 1)
    assert declared.claimed("one") == ["m-0"]


def test_a_claim_whose_answer_was_lost_is_not_made_twice(
    infra: EmbeddedProvider, declared: Declared, manager: StartManager
) -> None:
    manager("machine")
    idle(declared, "m-0", "m-1")
    lost: list[Asked] = []

    def lose(asked: Asked) -> None:
        if patches(asked, "m-0") and not lost:
            lost.append(asked)
            raise Unreachable("the answer was lost")

    declared.deployment("one", pool(1))
    manager("machineset", client=RecordedCluster.open(infra.kubeconfig(), after=lose))
    counts(declared, "one-cp", 1)
    assert (declared.claimed("one"), len(lost)) == (["m-0"], 1)


def test_two_sets_that_reach_for_one_machine_never_both_have_it(
    infra: EmbeddedProvider, declared: Declared, manager: StartManager, namespace: str
) -> None:
    manager("machine")
    idle(declared, "m-0")
    meet = threading.Barrier(2)

    def together(asked: Asked) -> None:
        if patches(asked, "m-0"):
            meet.wait(WAIT_SECONDS)

    def claim_for(name: str) -> None:
        client = RecordedCluster.open(infra.kubeconfig(), before=together)
        context = OperatorContext.of(client, infra.kubeconfig(), namespace=namespace)
        sets = MachineSetController(context)
        context.informers.start()
        context.informers.wait()
        sets.reconcile((namespace, f"one-{name}"))
        context.informers.stop()

    declared.deployment("one", *TWO)
    threads = [threading.Thread(target=claim_for, args=(name,)) for name in ("cp", "w")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    found = [declared.get(f"one-{name}", MACHINE_SET) for name in ("cp", "w")]
    assert sorted(one["status"]["claimed"] for one in found) == [0, 1]
    (loser,) = (one for one in found if not one["status"]["claimed"])
    said = (condition(loser, CLAIMED) or {})["message"]
    assert said.endswith("1 exists, 1 is claimed by cluster one (m-0)")


@pytest.mark.parametrize("machines", ["before", "after", "between"])
def test_of_two_clusters_that_want_more_than_there_is_the_older_one_has_all_of_its_machines(
    declared: Declared, manager: StartManager, machines: str
) -> None:
    manager(*ALL)
    names = ("m-0", "m-1", "m-2")
    if machines == "before":
        idle(declared, *names)
    declared.deployment("old", *TWO)
    if machines == "between":
        declared.machine("m-0")  # which is idle for as long as nobody has claimed it
        declared.wait("m-0", lambda found: dig(found, "spec", "claim", "cluster") == "old", "claimed")
    declared.deployment("young", *TWO)
    if machines != "before":
        for name in names[machines == "between" :]:
            declared.machine(name)
    for one in ("old-cp", "old-w"):
        counts(declared, one, 1)

    def waits(_: Json) -> bool:
        found = [declared.get(f"young-{one}", MACHINE_SET) for one in ("cp", "w")]
        said = [(condition(one, CLAIMED) or {}).get("message", "") for one in found]
        return any(one.startswith("waiting for 1 more machine with labels rack=a: 3 exist") for one in said)

    declared.wait("young-w", waits, "waiting", MACHINE_SET)
    assert [len(declared.claimed(name)) for name in ("old", "young")] == [2, 1]


def test_a_younger_cluster_gives_back_what_an_older_one_waits_for(declared: Declared, manager: StartManager) -> None:
    manager(*ALL)
    declared.deployment("old", *TWO, paused=True)
    declared.deployment("young", pool(1), wanted_set("w", "worker", replicas=2))
    idle_soon = ("m-0", "m-1")
    for name in idle_soon:
        declared.machine(name)
    declared.wait("m-1", lambda found: dig(found, "spec", "claim", "cluster") == "young", "claimed")
    declared.wait("m-0", lambda found: dig(found, "spec", "claim", "cluster") == "young", "claimed")
    declared.api.merge(CLUSTER_DEPLOYMENT, "old", {"spec": {"paused": False}}, declared.namespace)
    for one in ("old-cp", "old-w"):
        counts(declared, one, 1)
    assert declared.claimed("old") == ["m-0", "m-1"]
    declared.said("m-0", "Normal Released: cluster old is older and waits for it")
    assert "cluster.vmatrix.dev/leaving" not in (declared.get("m-0")["metadata"].get("annotations") or {})


def test_machines_of_a_cluster_that_is_gone_are_looked_at_and_idle_again(
    declared: Declared, manager: StartManager, logins: PlayedLogins
) -> None:
    manager(*ALL)
    idle(declared, "m-0", "m-1", "m-2")
    declared.deployment("one", pool(3))
    counts(declared, "one-cp", 3)
    logins.answers["m-1"] = bare("m-1", "/var/lib/etcd/member/snap/db")
    declared.api.delete(CLUSTER_DEPLOYMENT, "one", declared.namespace)
    for name, phase in (("m-0", "Idle"), ("m-1", "Failed"), ("m-2", "Idle")):
        declared.phase(name, phase)
    assert declared.claimed("one") == []
    assert logins.asked.count("m-0") == 2


def test_a_later_cluster_of_the_same_name_has_to_claim_anew(declared: Declared, manager: StartManager) -> None:
    manager("machine", "machineset")
    idle(declared, "m-0")
    first = declared.deployment("one", pool(1))
    counts(declared, "one-cp", 1)
    declared.api.delete(CLUSTER_DEPLOYMENT, "one", declared.namespace)
    declared.gone("one", CLUSTER_DEPLOYMENT)
    declared.gone("one-cp", MACHINE_SET)
    second = declared.deployment("one", pool(1))["metadata"]["uid"]
    assert dig(declared.get("m-0"), "spec", "claim", "uid") == first["metadata"]["uid"] != second
    manager("claims")
    declared.wait("m-0", lambda found: dig(found, "spec", "claim", "uid") == second, "claimed anew")


@pytest.mark.parametrize("change", ["fewer", "no set"])
def test_what_a_set_does_not_want_any_more_is_released_unless_it_is_deployed(
    declared: Declared, manager: StartManager, change: str
) -> None:
    manager(*ALL)
    idle(declared, "m-0", "m-1", "m-2")
    declared.deployment("one", pool(1), wanted_set("w", "worker", replicas=2))
    counts(declared, "one-w", 2)
    workers = [n for n in declared.claimed("one") if dig(declared.get(n), "spec", "claim", "set") == "w"]
    declared.worked("one", "deploy", workers[1])
    declared.phase(workers[1], "Deployed")
    sets = [pool(1), *([wanted_set("w", "worker", replicas=0)] if change == "fewer" else [])]
    declared.api.merge(CLUSTER_DEPLOYMENT, "one", {"spec": {"machineSets": sets}}, declared.namespace)
    declared.phase(workers[0], "Idle")
    assert dig(declared.get(workers[1]), "spec", "claim", "set") == "w"


def test_a_claim_is_kept_while_an_executor_may_still_work_on_the_machine(
    infra: EmbeddedProvider, declared: Declared, manager: StartManager, api: Cluster
) -> None:
    manager("machine", "machineset")
    idle(declared, "m-0")
    declared.deployment("one", pool(1))
    counts(declared, "one-cp", 1)
    spec = {"containers": [{"name": "executor", "image": "nothing:1"}], "nodeSelector": {"no": "where"}}
    api.create(POD, POD.manifest("executor", declared.namespace, labels={CLUSTER_LABEL: "one"}, spec=spec))
    declared.api.delete(CLUSTER_DEPLOYMENT, "one", declared.namespace)
    declared.gone("one", CLUSTER_DEPLOYMENT)
    looked = threading.Event()

    def look(asked: Asked) -> None:
        if asked.path.endswith("/pods"):
            looked.set()

    manager("claims", client=RecordedCluster.open(infra.kubeconfig(), after=look))
    assert looked.wait(WAIT_SECONDS)
    assert declared.claimed("one") == ["m-0"]
    api.delete(POD, "executor", declared.namespace, grace=0)
    declared.phase("m-0", "Idle")


def test_the_claim_of_a_machine_in_use_is_put_back(declared: Declared, manager: StartManager) -> None:
    manager(*ALL)
    idle(declared, "m-0")
    made = declared.deployment("one", wanted_set("cp", "control-plane"))
    counts(declared, "one-cp", 1)
    declared.worked("one", "deploy", "m-0")
    host = {"name": "m-0", "machine": "m-0", "set": "cp", "address": "192.0.2.10", "key": {"name": "keys"}}
    applied = {"status": {"applied": {"hosts": [host]}}}
    declared.api.merge(CLUSTER, "one", applied, declared.namespace, subresource="status")
    declared.api.merge(MACHINE, "m-0", {"spec": {"claim": None}}, declared.namespace)
    declared.said("m-0", "Warning ClaimPutBack")
    claim = {"cluster": "one", "set": "cp", "uid": made["metadata"]["uid"]}
    declared.wait("m-0", lambda found: dig(found, "spec", "claim") == claim, "the claim")
