"""The status of a ClusterDeployment."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given as given_states
from hypothesis import settings
from hypothesis import strategies as st

from harness.kube.objects import condition, stamp
from harness.operator.api.addons import ClusterAddon
from harness.operator.api.cluster import CurrentOperation
from harness.operator.api.clusterdeployment import NAME_PATTERN
from harness.operator.api.sets import set_name
from harness.operator.controllers.addons import source_digest
from harness.operator.controllers.cluster_view import DeclaredView
from harness.operator.controllers.clusterdeployment import (
    RESTART_SECONDS,
    addons_ready,
    cluster_object,
    machine_sets,
    scaled,
    status_of,
)
from harness.operator.controllers.clusterinstall import begun
from tests.unit.operator.api.objects import defaulted, wanted_set
from tests.unit.operator.controllers.looks import UID, cluster, declared, given, seen

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2026, 1, 2, tzinfo=UTC)


def summary(view: DeclaredView, *sets: Json) -> Json:
    return status_of(view, sets, NOW)


def words(status: Json, kind: str) -> tuple[str, str]:
    found = condition({"status": status}, kind) or {}
    return found["status"], found["reason"]


def running(body: Json, *machines: Json) -> Json:
    """Return the status of a Cluster whose first operation runs."""
    verdict = seen(body, None, *machines).verdict
    assert isinstance(verdict, CurrentOperation)
    current = begun("guest", verdict, "image:1").model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"sequence": 1, "operation": current}


def deployed(body: Json, *machines: Json) -> Json:
    """Return the status of a Cluster whose first operation has succeeded."""
    current = running(body, *machines)["operation"]
    past = {"sequence": 1, "operation": "deploy", "outcome": "succeeded", "digest": current["digest"]}
    return {"sequence": 1, "applied": current["applies"], "history": [past]}


def test_object_without_machines_waits() -> None:
    lacking = {"status": {"conditions": [{"type": "MachinesClaimed", "status": "False", "message": "waiting for 1"}]}}
    status = summary(seen(declared(), cluster()), lacking)
    assert words(status, "Accepted") == ("True", "Accepted")
    assert words(status, "Progressing") == ("True", "WaitingForMachines"), "who waits for its end waits on"
    assert words(status, "MachinesReady") == ("False", "WaitingForMachines")
    assert "waiting for 1" in (condition({"status": status}, "MachinesReady") or {})["message"]
    assert words(status, "Ready") == ("False", "WaitingForMachines")
    assert (status["observedGeneration"], status["machines"]) == (3, "0/1")


def test_mistakes_are_told_and_nothing_is_ready() -> None:
    status = summary(seen(declared(version="1.99.0"), None))
    assert words(status, "Accepted") == ("False", "InvalidSpec")
    assert words(status, "Progressing") == ("False", "NotAccepted")
    assert words(status, "Degraded") == ("False", "AsExpected")
    assert words(status, "Ready") == ("False", "NotAccepted")


def test_operation_that_runs_is_told_with_its_job_and_what_keeps_it() -> None:
    body = declared()
    view = seen(body, cluster(**running(body, given("m-0"))), given("m-0", "Deploying"))
    assert words(summary(view), "Progressing") == ("True", "Deploy")
    status = running(body, given("m-0"))
    status["operation"]["obstacle"] = {"reason": "NoNodeForPods", "message": "0/1 nodes are available"}
    kept = summary(seen(body, cluster(**status), given("m-0", "Deploying")))
    assert words(kept, "Progressing") == ("True", "NoNodeForPods")
    message = (condition({"status": kept}, "Progressing") or {})["message"]
    assert message == "deploy runs as Job guest-1-deploy: 0/1 nodes are available"


def test_cluster_is_ready_with_its_machines() -> None:
    body = declared()
    found = cluster(**deployed(body, given("m-0")))
    waiting = summary(seen(body, found, given("m-0", "Deployed")))
    assert words(waiting, "Progressing") == ("False", "UpToDate")
    assert words(waiting, "Ready") == words(waiting, "ControlPlaneReady") == ("False", "NotReady")
    status = summary(seen(body, found, given("m-0", "Ready")))
    assert [words(status, kind) for kind in ("MachinesReady", "ControlPlaneReady", "Ready")] == [
        ("True", "AllReady"),
        ("True", "AllReady"),
        ("True", "Ready"),
    ]
    assert (status["machines"], status["version"], status["endpoint"]) == ("1/1", "1.36.3", "https://192.0.2.10:6443")


def test_a_cluster_behind_a_service_is_reached_by_its_name() -> None:
    body = declared(loadBalancer={"type": "Service"})
    found = cluster(**deployed(body, given("m-0")))
    status = summary(seen(body, found, given("m-0", "Ready")))
    namespace = body["metadata"]["namespace"]
    assert status["endpoint"] == f"https://{body['metadata']['name']}-api.{namespace}.svc:6443"


def test_edit_is_not_ready_before_it_was_looked_at() -> None:
    body = declared()
    found = cluster(**deployed(body, given("m-0")))
    status = summary(seen(declared(version="1.35.4"), found, given("m-0", "Ready")))
    assert words(status, "Ready")[0] == "False"


def test_failure_degrades_only_once_nobody_tries_again() -> None:
    body = declared()
    digest = running(body, given("m-0"))["operation"]["digest"]
    past = {
        "sequence": 1,
        "operation": "deploy",
        "outcome": "failed",
        "digest": digest,
        "ended": "2999-01-01T00:00:00Z",
    }
    again = summary(seen(body, cluster(sequence=1, history=[{**past, "blame": "infra"}]), given("m-0")))
    assert (words(again, "Progressing"), words(again, "Degraded")[0]) == (("True", "RetryLater"), "False")
    never = summary(seen(body, cluster(sequence=1, history=[{**past, "blame": "product"}]), given("m-0")))
    assert (words(never, "Progressing"), words(never, "Degraded")) == (("False", "Failed"), ("True", "Failed"))


@pytest.mark.parametrize(
    ("operation", "seconds", "said"),
    [
        ("reconfigure", RESTART_SECONDS, ("True", "ApiUnreachable")),
        ("upgrade", RESTART_SECONDS, ("True", "ApiUnreachable")),
        ("upgrade", RESTART_SECONDS - 1, ("False", "AsExpected")),  # an API server that is being restarted
        ("recover", RESTART_SECONDS, ("False", "AsExpected")),  # its quorum is why the API does not answer
    ],
)
def test_cluster_whose_api_does_not_answer_is_degraded_unless_an_operation_mends_it(
    operation: str, seconds: float, said: tuple[str, str]
) -> None:
    body = declared()
    status = deployed(body, given("m-0"))
    other = declared(kubernetes={"apiServer": {"extraArgs": {"event-ttl": "2h"}}})
    current = running(body, given("m-0"))["operation"] | {"operation": operation, "sequence": 2}
    found = summary(
        seen(other, cluster(**{**status, "sequence": 2, "operation": current}), silent("m-0", since=seconds))
    )
    assert words(found, "Progressing") == ("True", operation.capitalize())
    assert words(found, "Degraded") == said
    assert ("connection refused" in (condition({"status": found}, "Degraded") or {})["message"]) is (said[0] == "True")


@pytest.mark.parametrize(
    ("seconds", "status"), [(0, "False"), (RESTART_SECONDS - 1, "False"), (RESTART_SECONDS, "True")]
)
def test_an_api_that_was_silent_before_an_operation_ended_is_looked_at_again(seconds: float, status: str) -> None:
    body = declared()
    state = deployed(body, given("m-0"))
    state["history"][0]["ended"] = stamp(NOW - timedelta(seconds=seconds))
    found = summary(seen(body, cluster(**state), silent("m-0", since=RESTART_SECONDS + seconds)))
    assert words(found, "Degraded")[0] == status


def silent(name: str, *, since: float) -> Json:
    """Return a Machine whose cluster's API has not answered for so many seconds."""
    made = given(name, "Deployed")
    message = "the API of cluster guest does not answer: connection refused"
    when = stamp(NOW - timedelta(seconds=since))
    said = {"type": "NodeReady", "status": "Unknown", "reason": "ApiUnreachable", "message": message}
    made["status"]["conditions"] = [{**said, "lastTransitionTime": when}]
    return made


def test_times_change_only_with_what_a_condition_says() -> None:
    body = declared()
    first = summary(seen(body, cluster()))
    again = status_of(seen({**body, "status": first}, cluster()), (), LATER)
    assert again == first


def test_a_deletion_that_waits_for_an_operation_says_so() -> None:
    body = declared()
    found = cluster(**running(body, given("m-0")))
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    said = condition({"status": summary(seen(body, found, given("m-0")))}, "Progressing") or {}
    assert said["message"].endswith("; the deletion waits for its end, or for annotation cluster.vmatrix.dev/cancel=1")


SHOP: Json = {"name": "shop", "manifests": {"configMap": "shop"}}
SOURCE = source_digest(ClusterAddon.model_validate(SHOP))
READY: Json = {"name": "shop", "source": SOURCE, "ready": True, "reason": "Ready"}
BROKEN: Json = {**READY, "ready": False, "reason": "NotReady", "message": "why"}
DARK: Json = {"name": "shop", "source": SOURCE, "reason": "Unreachable", "message": "no route"}
METRICS: Json = {"name": "metrics-server", "ready": False, "reason": "Missing", "message": "gone: x", "sequence": 1}
APPLIED: Json = {"digest": "d", "version": "1.36.3", "machines": ["m-0"]}


@pytest.mark.parametrize(
    ("wanted", "told", "expected"),
    [
        ([], [], (True, "NoAddons", "")),
        ([SHOP], [READY], (True, "AllReady", "")),
        ([SHOP], [], (False, "Applying", "shop: it is looked at soon")),
        ([SHOP], [{**READY, "source": "of another ConfigMap"}], (False, "Applying", "shop: it is looked at soon")),
        ([SHOP], [BROKEN], (False, "NotReady", "shop: why")),
        ([SHOP], [DARK], (None, "Unreachable", "shop: no route")),
        ([SHOP, {"name": "metrics-server"}], [DARK, METRICS], (False, "Missing", "metrics-server: gone: x")),
        ([{"name": "metrics-server"}], [], (True, "NoAddons", "")),
        ([], [METRICS], (True, "NoAddons", "")),
        ([], [{"name": "shop", "ready": False, "reason": "Pruning", "message": "a"}], (False, "Pruning", "shop: a")),
    ],
)
def test_the_condition(wanted: list[Json], told: list[Json], expected: tuple[bool | None, str, str]) -> None:
    view = seen(declared(addons=wanted), cluster(sequence=1, applied=APPLIED, addons=told), given("m-0"))
    assert addons_ready(view) == expected


def test_without_a_cluster_there_is_no_add_on() -> None:
    assert addons_ready(seen(declared(addons=[SHOP]), cluster()))[:2] == (False, "NotDeployed")


def test_children_have_names_that_follow_and_an_owner() -> None:
    body = declared(deletion={"machines": "Leave"})
    children = [cluster_object(body, defaulted(body)), *machine_sets(body, defaulted(body))]
    assert [(child["kind"], child["metadata"]["name"]) for child in children] == [
        ("Cluster", "guest"),
        ("MachineSet", "guest-cp"),
    ]
    for child in children:
        (owner,) = child["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (UID, True)
        assert child["metadata"]["labels"]["cluster.vmatrix.dev/uid"] == UID
        assert child["metadata"]["labels"]["cluster.vmatrix.dev/cluster"] == "guest"


def test_cluster_that_a_reset_needs_has_no_owner_to_go_with() -> None:
    body = declared()
    assert cluster_object(body, defaulted(body))["metadata"]["ownerReferences"] == []


def test_set_is_as_in_the_object_with_its_defaults() -> None:
    body = declared()
    (one,) = machine_sets(body, defaulted(body))
    assert one["spec"] == body["spec"]["machineSets"][0]


def test_sets_of_all_clusters_have_names_of_their_own_and_most_have_the_plain_one() -> None:
    words = ["".join(letters) for length in range(1, 6) for letters in product("a0-", repeat=length)]
    clusters = [word for word in words if re.fullmatch(NAME_PATTERN, word)]
    sets = [word for word in words if re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", word)]
    names = {set_name(cluster, one) for cluster in clusters for one in sets}
    assert len(names) == len(clusters) * len(sets)
    assert (set_name("a-b", "c"), set_name("a", "b-c")) == ("a-b-c", "a-b-c-0b88f83c")
    assert all(set_name(cluster, one) == f"{cluster}-{one}" for cluster in clusters for one in sets if "-" not in one)
    assert len(set_name("c" * 30, "s-" + "s" * 18)) <= 63


LOST: Json = {"type": "InfrastructureReady", "status": "False", "reason": "Lost", "message": "its disk is gone"}
DOWN: Json = {**LOST, "reason": "Failed", "message": "it is restarted"}
# What no status may say at the same time: by name, conditions as they must not be together ("" for any reason).
Condition = tuple[str, str, str]  # type, status, reason
CONTRADICTIONS: dict[str, tuple[Condition, ...]] = {
    "ready while something is done": (("Ready", "True", ""), ("Progressing", "True", "")),
    "ready though it is degraded": (("Ready", "True", ""), ("Degraded", "True", "")),
    "ready though the object is refused": (("Ready", "True", ""), ("Accepted", "False", "")),
    "ready without its machines": (("Ready", "True", ""), ("MachinesReady", "False", "")),
    "ready without its control planes": (("Ready", "True", ""), ("ControlPlaneReady", "False", "")),
    "ready without its add-ons": (("Ready", "True", ""), ("AddonsReady", "False", "")),
    "nothing to do though the object is refused": (("Progressing", "False", "UpToDate"), ("Accepted", "False", "")),
    "nothing to do though somebody has to act": (("Progressing", "False", "UpToDate"), ("Degraded", "True", "Failed")),
    "an operation runs though it was given up": (("Progressing", "True", ""), ("Degraded", "True", "Failed")),
    "an operation runs though it was cancelled": (("Progressing", "True", ""), ("Degraded", "True", "Cancelled")),
    "an operation runs though nothing can be done": (
        ("Progressing", "True", ""),
        ("Degraded", "True", "NotRecoverable"),
    ),
    "refused and accepted": (("Progressing", "False", "NotAccepted"), ("Accepted", "True", "")),
}
# Of two messages that lead to different places: reasons of conditions, and words that none of the others may have then.
MISLEADING = {
    "NotRecoverable": ("make an EtcdRestore",),
    "Deleting": ("there is nothing to do",),
    "UpToDate": ("waits for", "Degraded"),
}


@st.composite
def views(draw: st.DrawFn) -> tuple[DeclaredView, Json]:
    """Return a view of a cluster of one machine or of three, and the status that follows."""
    count = draw(st.sampled_from((1, 3)))
    names = [f"m-{number}" for number in range(count)]
    machine_set = wanted_set("cp", "control-plane", "worker", replicas=count)
    before = declared(machine_set)
    spec: Json = {}
    if draw(st.booleans()):
        spec = draw(st.sampled_from((
            {"paused": True},
            {"approval": "Manual", "version": "1.36.1"},
            {"version": "1.99.0"},
            {"kubernetes": {"kubelet": {"config": {"maxPods": 50}}}},
        )))  # fmt: skip
    body = declared(machine_set, **spec)
    if draw(st.booleans()):
        body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        body["metadata"]["finalizers"] = ["cluster.vmatrix.dev/reset"]
    state: Json = {}
    if draw(st.booleans()):
        state = deployed(before, *map(given, names))
    if draw(st.booleans()):
        blame = draw(st.sampled_from(("product", "user", "infra")))
        outcome = draw(st.sampled_from(("failed", "cancelled", "interrupted", "succeeded")))
        operation = draw(st.sampled_from(("deploy", "reconfigure", "recover", "reset")))
        past = {"sequence": 1, "operation": operation, "outcome": outcome, "blame": blame, "ended": stamp(NOW)}
        past["digest"] = running(before, *map(given, names))["operation"]["digest"]
        state = {**state, "sequence": 1, "history": [past, *state.get("history", [])]}
    if draw(st.booleans()):
        current = running(before, *map(given, names))["operation"]
        operation = draw(st.sampled_from(("deploy", "reconfigure", "recover", "reset", "remove-node")))
        state = {**state, "sequence": 2, "operation": {**current, "sequence": 2, "operation": operation}}
    machines = [draw(machines_of(name)) for name in names]
    view = seen(body, cluster(**state), *machines)
    return view, summary(view)


@st.composite
def machines_of(draw: st.DrawFn, name: str) -> Json:
    """Return a claimed Machine in some state."""
    made = silent(name, since=draw(st.sampled_from((1.0, 999.0))))
    made["status"]["phase"] = draw(st.sampled_from(("Ready", "NotReady", "Failed", "Deploying", "Lost", "Deployed")))
    said = draw(st.sampled_from(((), (LOST,), (DOWN,))))
    silences = made["status"]["conditions"] if draw(st.booleans()) else []
    when = stamp(NOW - timedelta(hours=1))
    made["status"]["conditions"] = [*silences, *({**one, "lastTransitionTime": when} for one in said)]
    return made


@settings(max_examples=60, deadline=None)
@given_states(views())
def test_no_status_contradicts_itself(drawn: tuple[DeclaredView, Json]) -> None:
    view, status = drawn
    conditions = {one["type"]: one for one in status["conditions"]}
    for name, pair in CONTRADICTIONS.items():
        found = [
            conditions[kind]["status"] == state and reason in ("", conditions[kind]["reason"])
            for kind, state, reason in pair
        ]
        assert not all(found), (name, conditions)
    reasons = {one["reason"] for one in conditions.values()}
    for reason in reasons & MISLEADING.keys():
        others = [one["message"] for one in conditions.values()]
        assert not [word for word in MISLEADING[reason] for text in others if word in text], (reason, others)
    if "deletionTimestamp" in view.deployment["metadata"]:
        assert conditions["Ready"]["status"] == "False"
        assert conditions["Progressing"]["reason"] != "UpToDate"
        running_one = view.observed.running
        if running_one is not None and running_one.operation != "reset":
            assert "the deletion waits for its end" in conditions["Progressing"]["message"]


def scale_of(replicas: int, *, subresource: str | None = "scale", fields: Json | None = None) -> Json:
    """Return the MachineSet of a ClusterDeployment once somebody gave it another number."""
    (made,) = machine_sets(declared(), defaulted(declared()))
    manager = {"manager": "kubectl", "fieldsV1": fields or {"f:spec": {"f:replicas": {}}}}
    made["metadata"]["managedFields"] = [{**manager, **({"subresource": subresource} if subresource else {})}]
    made["spec"]["replicas"] = replicas
    return made


def test_a_set_that_is_scaled_changes_its_wish() -> None:
    body = {**declared(), "status": {"observedGeneration": 3}}
    spec = scaled(scale_of(3), body)
    assert spec is not None
    assert [one["replicas"] for one in spec["machineSets"]] == [3]
    assert {**spec["machineSets"][0], "replicas": 1} == body["spec"]["machineSets"][0]


@pytest.mark.parametrize(
    ("found", "generation"),
    [
        (scale_of(1), 3),
        (scale_of(3, subresource=None), 3),
        (scale_of(3, fields={"f:spec": {"f:labels": {}}}), 3),
        (scale_of(3), 2),
    ],
    ids=["the same number", "an edit", "another field", "the wish has changed as well"],
)
def test_nothing_else_changes_a_wish(found: Json, generation: int) -> None:
    assert scaled(found, {**declared(), "status": {"observedGeneration": generation}}) is None


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (("True", "Spread", "a: 1"), ("True", "Spread")),
        (("False", "TooManyInOne", "a has both"), ("False", "TooManyInOne")),
        (("Unknown", "DomainUnknown", "m-0"), ("Unknown", "DomainUnknown")),
        (None, ("Unknown", "NotYet")),
    ],
)
def test_what_its_sets_say_of_failure_domains_is_said_of_the_cluster(
    status: tuple[str, str, str] | None, said: tuple[str, str]
) -> None:
    found = dict(zip(("status", "reason", "message"), status, strict=True)) if status else {}
    one = {"spec": {"failureDomains": {}}, "status": {"conditions": [{"type": "Spread", **found}] if found else []}}
    view = seen(declared(), None)
    assert words(summary(view, one, {"spec": {}}), "Spread") == said
    assert words(summary(view, {"spec": {}}), "Spread") == ("True", "NotAsked")
