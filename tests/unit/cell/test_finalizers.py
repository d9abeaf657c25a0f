"""Programs of declared products end before the namespace that they are in is deleted, which would wait for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from harness.cell.existing import CellSelector, ExistingCell
from harness.cell.finalizers import DECLARED_KINDS, stop_programs
from harness.cell.teardown import reap
from harness.kube.client import ApiFailure, Cluster, Json, Listing
from harness.kube.failures import Answer, failure_of
from harness.kube.resources import NAMESPACE, Resource
from harness.model import LABEL_CELL, LABEL_RUN

MANAGER: Json = {"metadata": {"name": "manager", "namespace": "ns"}}
LAUNCHER: Json = {"metadata": {"name": "virt-launcher-cp-0", "labels": {"kubevirt.io": "virt-launcher"}}}
LABELS = {LABEL_RUN: "r", LABEL_CELL: "c"}
SECONDS = 60.0  # against hanging


@dataclass
class Api:
    """A namespace with a Deployment, whose ReplicaSet makes a pod anew until it is deleted, and a Job's pod."""

    declared: bool = True
    forbidden: bool = False
    deleted: list[tuple[str, str, int | None]] = field(default_factory=list)
    kept: dict[str, list[Json]] = field(
        default_factory=lambda: {
            "Namespace": [{"metadata": {"name": "ns", "labels": LABELS}, "status": {"phase": "Active"}}],
            "Deployment": [MANAGER],
            "ReplicaSet": [MANAGER],
            "Job": [{"metadata": {"name": "guest-1-deploy", "namespace": "ns"}}],
            "Pod": [MANAGER, {"metadata": {"name": "guest-1-deploy-x", "namespace": "ns"}}, LAUNCHER],
        }
    )
    anew: int = 1  # pods that the ReplicaSet's controller still makes before it sees that there is none

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json | None:
        """Return an object."""
        return next((obj for obj in self.list(resource).items if obj["metadata"]["name"] == name), None)

    def list(self, resource: Resource, namespace: str | None = None, **_: Any) -> Listing:
        """Return all objects of a kind."""
        if self.forbidden and resource.kind == "Deployment":
            raise failure_of(Answer(403, {"reason": "Forbidden"}, ()), "GET deployments")
        found = list(self.kept.get(resource.kind, []))
        if resource is NAMESPACE and self.declared:
            found = [{**o, "metadata": {**o["metadata"], "annotations": {DECLARED_KINDS: ""}}} for o in found]
        return Listing(found, "1")

    def delete(self, resource: Resource, name: str, namespace: str | None = None, *, grace: int | None = None) -> bool:
        """Delete an object; it is gone at once."""
        self.deleted.append((resource.kind, name, grace))
        self.kept[resource.kind] = [o for o in self.kept[resource.kind] if o["metadata"]["name"] != name]
        if (resource.kind, name) == ("Pod", "manager") and self.anew:
            self.anew -= 1
            self.kept["Pod"].append(MANAGER)
        return True


@pytest.fixture
def api() -> Api:
    """Return the namespace of a cell whose product is declared."""
    return Api()


def test_no_program_is_left_when_the_namespace_is_deleted(api: Api) -> None:
    (gone,) = reap(cast("Cluster", api), CellSelector(), seconds=SECONDS)
    assert gone == ExistingCell("ns", "r", "c", 1, None, "Active", declared=True)
    assert api.deleted == [
        ("Deployment", "manager", None),
        ("ReplicaSet", "manager", None),
        ("Job", "guest-1-deploy", None),
        ("Pod", "manager", 1),
        ("Pod", "guest-1-deploy-x", 1),
        ("Pod", "manager", 1),
        ("Namespace", "ns", None),
    ]


def test_a_pod_that_ends_soon_anyway_is_not_deleted_again(api: Api) -> None:
    api.anew = 0
    api.kept = {"Namespace": api.kept["Namespace"], "Pod": [LAUNCHER]}
    ending = {"name": "manager", "namespace": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    api.kept["Pod"].append({"metadata": {**ending, "deletionGracePeriodSeconds": 1}})
    assert not stop_programs(cast("Cluster", api), "ns")
    assert api.deleted == []


def test_nothing_is_stopped_in_other_namespaces(api: Api) -> None:
    api.declared = False
    assert stop_programs(cast("Cluster", api), "ns")
    assert api.deleted == []


def test_whoever_may_not_stop_programs_leaves_them_to_the_namespace(api: Api) -> None:
    api.forbidden = True
    assert stop_programs(cast("Cluster", api), "ns")
    api.list = broken  # type: ignore[method-assign]
    with pytest.raises(ApiFailure):
        stop_programs(cast("Cluster", api), "ns")


def broken(resource: Resource, namespace: str | None = None, **_: Any) -> Listing:
    """Fail as an API in trouble does."""
    raise failure_of(Answer(500, {"reason": "InternalError"}, ()), "GET deployments")
