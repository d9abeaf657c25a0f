"""An object with a mistake that its definition let pass: `Accepted=False` in the words of the rules, and nothing made.

Most mistakes are refused by the API server. Here the definition has no schema, as if it were from another time, so
that every mistake reaches the manager.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.kube.client import Cluster
from harness.kube.objects import condition, dig
from harness.kube.resources import CONFIG_MAP, CRD, JOB, SECRET
from harness.operator.api.conditions import ACCEPTED, DEGRADED, EMPTY, PROGRESSING, REACHABLE, READY, new
from harness.operator.api.crds import crds
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE, MACHINE_SET
from harness.operator.api.rules import read
from harness.operator.context import OperatorOptions
from harness.operator.decide.variables import load_releases
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.played import WAIT_SECONDS
from tests.unit.operator.api.mistakes import BAD, JUDGED
from tests.unit.operator.api.objects import deployment, machine, wanted_set

Json = dict[str, Any]
OPTIONS = OperatorOptions(executor_image="vmatrix:test")
KNOWN = load_releases().kubernetes


@pytest.fixture(scope="module")
def lax(api: Cluster) -> Iterator[None]:
    """Serve ClusterDeployments of any content, as a definition without a schema does."""
    ours = next(body for body in crds() if body["spec"]["names"]["kind"] == CLUSTER_DEPLOYMENT.kind)
    bare = copy.deepcopy(ours)
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    bare["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": anything}
    name = ours["metadata"]["name"]
    served = api.get(CRD, name)
    assert served is not None
    api.replace(CRD, {**bare, "metadata": served["metadata"]})
    _wait_for_rules(api, there=False)
    yield
    served = api.get(CRD, name)
    assert served is not None
    api.replace(CRD, {**ours, "metadata": {**served["metadata"], **ours["metadata"]}})
    _wait_for_rules(api, there=True)


def _wait_for_rules(api: Cluster, *, there: bool) -> None:
    """Wait until the API server judges by the definition that it was given last."""
    refused = deployment(replicas=1)

    def seen() -> bool | NotYet:
        query = {"fieldValidation": "Strict", "dryRun": "All"}
        code = api.send("POST", CLUSTER_DEPLOYMENT.path("default"), body=refused, query=query).code
        return (code == 400) == there or NotYet(f"a bad object is answered with {code}")

    until(seen, deadline=Deadline.after(WAIT_SECONDS), what="the definition to be in force", interval=0.1)


def judged(api: Cluster, namespace: str, generation: int = 1) -> Json:
    """Return the ClusterDeployment once the manager has judged a generation of it."""

    def seen() -> Json | NotYet:
        found = api.get(CLUSTER_DEPLOYMENT, "guest", namespace) or {}
        accepted = condition(found, ACCEPTED) or {}
        return (
            found
            if accepted.get("observedGeneration") == generation
            else NotYet(f"its status is {found.get('status')}")
        )

    return until(seen, deadline=Deadline.after(WAIT_SECONDS), what="the object to be judged", interval=0.05)


def make(api: Cluster, namespace: str, obj: Json) -> Json:
    """Create a ClusterDeployment, and two idle Machines that it could claim."""
    for name in ("a", "b"):
        body = machine(name, namespace)
        body["metadata"]["labels"] = {"rack": "a"}
        generation = api.create(MACHINE, body)["metadata"]["generation"]
        well = [new(kind, True, "Seen", "", datetime.now(UTC), generation) for kind in (REACHABLE, EMPTY)]
        api.merge(MACHINE, name, {"status": {"phase": "Idle", "conditions": well}}, namespace, subresource="status")
    meta = {**obj["metadata"], "name": "guest", "namespace": namespace}
    return api.create(CLUSTER_DEPLOYMENT, {**obj, "metadata": meta})


def made(api: Cluster, namespace: str) -> list[str]:
    """Return what a manager has made in the namespace, and the Machines that it has claimed."""
    kinds = (CLUSTER, MACHINE_SET, JOB, SECRET, CONFIG_MAP)
    found = [f"{kind.kind} {o['metadata']['name']}" for kind in kinds for o in api.list(kind, namespace).items]
    claimed = [m["metadata"]["name"] for m in api.list(MACHINE, namespace).items if dig(m, "spec", "claim")]
    return [one for one in found if one != "ConfigMap kube-root-ca.crt"] + claimed


NAMED_OTHERWISE = {"long name"}  # judged by the API server as every name is; here all objects have one name


@pytest.mark.usefixtures("lax")
@pytest.mark.parametrize("case", sorted(BAD.keys() - NAMED_OTHERWISE))
def test_a_mistake_that_the_definition_let_pass_is_not_accepted(
    api: Cluster, namespace: str, manager: StartManager, case: str
) -> None:
    obj, _, _ = BAD[case]
    make(api, namespace, obj)
    manager("clusterdeployment", "authority", "clusterinstall", "machineset", options=OPTIONS)
    found = judged(api, namespace)
    accepted = condition(found, ACCEPTED) or {}
    assert accepted["status"] == "False"
    for mistake in read(obj, KNOWN)[1]:
        assert mistake.text in accepted["message"]
    assert dig(condition(found, READY), "status") == "False"
    assert dig(condition(found, PROGRESSING), "status") == "False"
    assert made(api, namespace) == []
    assert "finalizers" not in found["metadata"]


@pytest.mark.parametrize("case", sorted(JUDGED))
def test_a_mistake_that_no_definition_can_tell_is_not_accepted(
    api: Cluster, namespace: str, manager: StartManager, case: str
) -> None:
    make(api, namespace, BAD[case][0])
    manager("clusterdeployment", "authority", "clusterinstall", "machineset", options=OPTIONS)
    accepted = condition(judged(api, namespace), ACCEPTED) or {}
    (mistake,) = read(BAD[case][0], KNOWN)[1]
    assert (accepted["status"], accepted["message"]) == ("False", mistake.text)
    assert made(api, namespace) == []


def test_a_corrected_object_is_accepted(api: Cluster, namespace: str, manager: StartManager) -> None:
    make(api, namespace, BAD["unknown version"][0])
    manager("clusterdeployment", "authority", "clusterinstall", "machineset", options=OPTIONS)
    assert dig(condition(judged(api, namespace), ACCEPTED), "status") == "False"
    api.merge(CLUSTER_DEPLOYMENT, "guest", {"spec": {"version": "1.36.3"}}, namespace)
    found = judged(api, namespace, generation=2)
    assert dig(condition(found, ACCEPTED), "status") == "True"
    assert dig(condition(found, DEGRADED), "status") == "False"

    def begun() -> bool | NotYet:
        there = made(api, namespace)
        return {"Cluster guest", "MachineSet guest-cp"} <= set(there) or NotYet(f"there are {there}")

    until(begun, deadline=Deadline.after(WAIT_SECONDS), what="the Cluster and its set", interval=0.05)


def test_a_mistake_in_an_edit_changes_nothing_that_was_made(
    api: Cluster, namespace: str, manager: StartManager
) -> None:
    make(api, namespace, deployment(wanted_set("cp", "control-plane", replicas=3)))  # waits for a third Machine
    manager("clusterdeployment", "authority", "clusterinstall", "machineset", options=OPTIONS)
    assert dig(condition(judged(api, namespace), ACCEPTED), "status") == "True"

    wanted = {"a", "b", "MachineSet guest-cp", *(f"Secret guest-{name}" for name in ("ca", "etcd", "proxy", "sa"))}

    def settled() -> list[str] | NotYet:
        there = made(api, namespace)
        return there if wanted <= set(there) else NotYet(f"there are {there}")

    before = until(settled, deadline=Deadline.after(WAIT_SECONDS), what="claims and CAs", interval=0.05)
    sets = [wanted_set("cp", "control-plane", replicas=1), wanted_set("w", "worker", replicas=1)]
    api.merge(CLUSTER_DEPLOYMENT, "guest", {"spec": {"version": "1.36.9", "machineSets": sets}}, namespace)
    found = judged(api, namespace, generation=2)
    assert dig(condition(found, ACCEPTED), "status") == "False"
    assert made(api, namespace) == before
