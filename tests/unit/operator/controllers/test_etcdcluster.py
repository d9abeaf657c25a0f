"""The status of an EtcdCluster: its phase, and conditions that do not contradict each other."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from harness.kube.client import Cluster
from harness.kube.objects import condition
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, ETCD_CLUSTER, UID_LABEL
from harness.operator.context import OperatorContext, OperatorOptions
from harness.operator.controllers.cluster_view import ClusterLooks, DeclaredView
from harness.operator.controllers.clusterdeployment import cluster_object, derived, machine_sets, scaled
from harness.operator.controllers.etcdcluster import status_of
from tests.unit.operator.api.objects import deployment, etcd_cluster, machine
from tests.unit.operator.controllers.backed_up import backup
from tests.unit.pages import ROOT

Json = dict[str, Any]
NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
UID = "uid-of-store"
DEPLOYED: Json = {
    "sequence": 1,
    "history": [{"sequence": 1, "operation": "deploy-etcd", "outcome": "succeeded", "ended": "2026-11-29T11:00:00Z"}],
}
READY = {"hasLeader": True, "sizeMiB": 8, "quotaMiB": 2048}
RUNS: Json = {"sequence": 1, "operation": {"sequence": 1, "operation": "deploy-etcd", "job": "store-1-deploy-etcd"}}
FAILED: Json = {
    "sequence": 1,
    "history": [
        {"sequence": 1, "operation": "deploy-etcd", "outcome": "failed", "blame": "product", "summary": "it broke"}
    ],
}


def looks() -> ClusterLooks:
    """Return looks of a manager that knows no object."""
    return ClusterLooks(
        OperatorContext.of(cast(Cluster, None), Path("none"), options=OperatorOptions("registry.invalid/vmatrix:1"))
    )


def written(**spec: Any) -> Json:
    """Return an EtcdCluster as the API has it."""
    made = etcd_cluster("store", **spec)
    made["metadata"] |= {"uid": UID, "generation": 2, "resourceVersion": "7"}
    return made


def member(phase: str = "Claimed", **etcd: Any) -> Json:
    """Return the Machine that it has claimed."""
    made = machine("m-0", claim={"cluster": "store", "set": "member", "uid": UID})
    made["metadata"]["resourceVersion"] = "1"
    settings = {"seen": "1-1", "operation": "1-1"}
    return {**made, "status": {"phase": phase, "settings": settings, **({"etcd": etcd} if etcd else {})}}


def view(
    status: Json, found: Json, obj: Json | None = None, *, backups: tuple[Json, ...] = (), others: tuple[Json, ...] = ()
) -> DeclaredView:
    """Return what is seen of it, beside other Clusters."""
    made, own = looks(), obj or written()
    for one in backups:
        made.backups._store("ADDED", one)
    for one in others:
        made.clusters._store("ADDED", one)
    made.deployments._of[ETCD_CLUSTER]._store("ADDED", own)
    made.machines._store("ADDED", found)
    meta = {"name": "store", "namespace": "default", "resourceVersion": "9", "labels": {UID_LABEL: UID}}
    cluster = {"metadata": meta, "status": {"authority": {"usable": True, "reason": "Valid"}, **status}}
    made.clusters._store("ADDED", cluster)
    seen = made.view(("default", "store"))
    assert seen is not None
    return seen


def applied(first: DeclaredView) -> Json:
    """Return the status once what was decided has succeeded."""
    verdict = first.verdict
    applies = getattr(verdict, "applies")  # noqa: B009 - of an operation
    return {**DEPLOYED, "applied": applies.model_dump(mode="json", by_alias=True)}


def told(seen: DeclaredView) -> tuple[str, str]:
    """Return its phase, and the reason of Ready."""
    status = status_of(seen, [], NOW)
    return status["phase"], (condition({"status": status}, "Ready") or {})["reason"]


def test_its_phase_follows_from_what_is_done() -> None:
    first = view({}, member())
    assert told(first) == ("Deploying", "DeployEtcd")
    done = applied(first)
    assert told(view(done, member("Ready", **READY))) == ("Ready", "Ready")
    assert told(view(RUNS, member("Deploying"))) == ("Deploying", "DeployEtcd")
    assert told(view({**done, **RUNS}, member("Ready", **READY)))[0] == "Updating"
    assert told(view(done, member("Ready", **{**READY, "alarm": "CORRUPT"}))) == ("Degraded", "Corrupt")
    paused = view(done, member("Ready", **READY), written(paused=True, version="3.7.0"))
    assert told(paused) == ("Waiting", "Paused")
    wrong = view({}, member(), written(replicas=2))
    assert told(wrong) == ("Pending", "NotAccepted")


def test_remedies_name_its_own_fields() -> None:
    full = view(applied(view({}, member())), member("Ready", hasLeader=True, sizeMiB=1900, quotaMiB=2048))
    healthy = condition({"status": status_of(full, [], NOW)}, "EtcdHealthy") or {}
    assert healthy["message"].endswith("raise spec.extraArgs quota-backend-bytes")
    for spec, kind, field in (
        ({}, "BackupFresh", "set spec.backup.schedule to have"),
        ({}, "BackupProven", "set spec.backup.drill, such"),
        ({"backup": {**DRILLED, "suspend": True}}, "BackupFresh", "set spec.backup.suspend to false"),
    ):
        own = written(**spec)
        status = status_of(view(applied(view({}, member(), own)), member("Ready", **READY), own), [], NOW)
        assert field in (condition({"status": status}, kind) or {})["message"]


DRILLED = {"schedule": "@daily", "drill": "weekly", "destination": {"claim": "shared"}}
TIMES = {"schedule": "weekly", "timeZone": "Etc/UTC", "since": "2026-11-01T00:00:00Z", "last": "2026-11-29T00:00:00Z"}
PLACE: Json = {"location": "shared:store/a.db", "phase": "Verified", "clusterUid": UID}
VERIFIED: Json = {**PLACE, "taken": "2026-11-29T03:00:00Z", "objects": 5}


def other_cluster(operation: str, claim: str) -> Json:
    """Return the Cluster of a ClusterDeployment whose operation has a claim."""
    place = {"backup": "b", "uid": "uid-b", "claim": claim, "file": "guest/b.db"}
    meta = {"name": "guest", "namespace": "default", "resourceVersion": "3"}
    return {"metadata": meta, "status": {"operation": {"sequence": 4, "operation": operation, "snapshot": place}}}


def drilling(*others: Json, **drill: Any) -> DeclaredView:
    """Return what is seen of it with a verified backup, once the time of a drill has come."""
    own, ready = written(backup=DRILLED), member("Ready", **READY)
    status = {**applied(view({}, member(), own)), "drill": {"schedule": TIMES, **drill}}
    return view(status, ready, own, backups=(backup(cluster="store", claim="shared", **VERIFIED),), others=others)


def test_its_backup_is_drilled_unless_a_cluster_of_either_kind_has_the_claim() -> None:
    assert told(drilling()) == ("Updating", "Drill")
    assert told(drilling(other_cluster("backup", "another"))) == ("Updating", "Drill")
    held = drilling(other_cluster("backup", "shared"))
    assert told(held) == ("Waiting", "WaitingForClaim")
    said = condition({"status": status_of(held, [], NOW)}, "Progressing") or {}
    assert said["message"].endswith("PersistentVolumeClaim shared is free: backup of cluster guest uses it")


def test_it_says_what_drills_have_proven() -> None:
    ended = {"operation": "drill", "sequence": 5, "attempt": 1, "backup": "a", "backupUid": "uid-a"}
    result = {**ended, "outcome": "succeeded", "ended": "2026-11-29T04:00:00Z", "time": TIMES["last"]}
    proven = condition({"status": status_of(drilling(last=result, proven=result), [], NOW)}, "BackupProven") or {}
    assert (proven["status"], proven["reason"]) == ("True", "Proven")


def test_the_page_names_its_conditions() -> None:
    page = (ROOT / "docs" / "operator" / "etcd-clusters.md").read_text(encoding="utf-8")
    said = page.split("\nThe conditions are ")[1].split(", as ")[0]
    kinds = [one["type"] for one in status_of(view({}, member()), [], NOW)["conditions"]]
    assert re.findall("`([A-Za-z]+)`", said) == kinds


def test_its_children_say_whose_they_are() -> None:
    seen = view({}, member())
    assert seen.wish is not None
    cluster, (one,) = cluster_object(seen.deployment, seen.wish), machine_sets(seen.deployment, seen.wish)
    assert cluster["metadata"]["labels"]["cluster.vmatrix.dev/kind"] == "EtcdCluster"
    assert (one["metadata"]["name"], one["metadata"]["ownerReferences"][0]["kind"]) == ("store-member", "EtcdCluster")
    assert derived(one) == "MachineSet store-member is derived: edit spec of EtcdCluster store instead"
    by_scale = [{"subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]
    edited = {**one, "metadata": {**one["metadata"], "managedFields": by_scale}, "spec": {**one["spec"], "replicas": 3}}
    known = {**seen.deployment, "status": {"observedGeneration": 2}}
    changed = scaled(edited, known)
    assert changed is not None
    assert changed["machineSets"][0]["replicas"] == 3


def test_a_name_is_the_older_ones() -> None:
    made, own = looks(), written()
    own["metadata"]["creationTimestamp"] = "2026-11-29T10:00:00Z"
    other = deployment(name="store")
    other["metadata"] |= {"uid": "other", "resourceVersion": "8", "creationTimestamp": "2026-11-29T11:00:00Z"}
    made.deployments._of[ETCD_CLUSTER]._store("ADDED", own)
    made.deployments._of[CLUSTER_DEPLOYMENT]._store("ADDED", other)
    found = made.deployments.get("default", "store") or {}
    assert found["metadata"]["uid"] == UID
    assert [one["metadata"]["uid"] for one in made.deployments.list("default")] == [UID]
    mine = made.deployments.of_kind(CLUSTER_DEPLOYMENT, ("default", "store")) or {}
    assert mine["metadata"]["uid"] == "other"


@pytest.mark.parametrize("status", [FAILED])
def test_what_failed_for_good_is_degraded(status: Json) -> None:
    first = view({}, member())
    digest = getattr(first.verdict, "digest")  # noqa: B009 - of an operation
    history = [{**status["history"][0], "digest": digest}]
    assert told(view({**status, "history": history}, member())) == ("Degraded", "Failed")
