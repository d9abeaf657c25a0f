"""What a ClusterDeployment owns."""

from __future__ import annotations

from harness.operator.controllers.cluster_children import cluster_object, machine_sets
from tests.unit.operator.api.objects import defaulted
from tests.unit.operator.controllers.looks import UID, declared


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
