"""What a ClusterDeployment owns."""

from __future__ import annotations

import re
from itertools import product

from harness.operator.api.clusterdeployment import NAME_PATTERN
from harness.operator.controllers.cluster_children import cluster_object, machine_sets, set_name
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


def test_sets_of_all_clusters_have_names_of_their_own_and_most_have_the_plain_one() -> None:
    words = ["".join(letters) for length in range(1, 6) for letters in product("a0-", repeat=length)]
    clusters = [word for word in words if re.fullmatch(NAME_PATTERN, word)]
    sets = [word for word in words if re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", word)]
    names = {set_name(cluster, one) for cluster in clusters for one in sets}
    assert len(names) == len(clusters) * len(sets)
    assert (set_name("a-b", "c"), set_name("a", "b-c")) == ("a-b-c", "a-b-c-0b88f83c")
    assert all(set_name(cluster, one) == f"{cluster}-{one}" for cluster in clusters for one in sets if "-" not in one)
    assert len(set_name("c" * 30, "s-" + "s" * 18)) <= 63
