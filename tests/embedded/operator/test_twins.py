"""The rules in CEL and their twins in Python agree on many objects, sound ones and others, and use the same words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import pytest

from harness.kube.client import Cluster
from harness.operator.api.resources import CLUSTER_DEPLOYMENT
from harness.operator.api.rules import network_sizes, read
from tests.unit.operator.api.objects import RELEASES, deployment, wanted_set

Json = dict[str, Any]
ROLES = ("control-plane", "etcd", "worker")
SUBSETS = [chosen for size in (1, 2, 3) for chosen in combinations(ROLES, size)]
NETWORKS = (
    *("10.243.0.0/16", "10.243.128.0/17", "10.243.0.1/16", "10.0.0.0/8", "0.0.0.0/0", "10.95.0.0/33", "10.95.0.0/016"),
    *(
        "fd00:1::/64",
        "fd00:1::/80",
        "FD00:1::/64",
        "fd00:1::1/64",
        "::/0",
        "::ffff:10.0.0.0/104",
        "10.1.0.0/16",
        "1:2/3",
    ),
)


def answers(api: Cluster, namespace: str, obj: Json) -> tuple[int, set[str]]:
    """Return how many mistakes the API server finds in an object, and its words; nothing is stored."""
    answer = api.send("POST", CLUSTER_DEPLOYMENT.path(namespace), body=obj, query={"dryRun": "All"})
    if answer.code == 201:
        return 0, set()
    assert answer.code == 422, answer.body
    causes = answer.body["details"]["causes"]
    return len(causes), {f"{cause['field']}: {cause['message']}" for cause in causes}


def differences(api: Cluster, namespace: str, objects: Iterator[Json]) -> tuple[list[str], set[bool]]:
    """Return where the two do not agree, and whether there were sound objects and others."""
    wrong, seen = [], set()
    for obj in objects:
        obj["metadata"]["namespace"] = namespace
        cd, mistakes = read(obj, RELEASES)
        alone = list(network_sizes(cd)) if cd is not None else []  # what no rule in CEL says
        expected = {(m.field, f"{m.message}: {m.remedy}") for m in mistakes if m not in alone}
        count, told = answers(api, namespace, obj)
        seen.add(count == 0)
        agreed = all(any(t.startswith(field) and t.endswith(text) for t in told) for field, text in expected)
        if not agreed or count != len(expected):
            wrong.append(f"{obj['spec']['machineSets']}, {obj['spec'].get('network')}: rules {expected}, API {told}")
    return wrong, seen


@pytest.mark.parametrize("first", SUBSETS, ids="+".join)
def test_both_judge_all_roles_and_numbers_of_two_sets_alike(
    api: Cluster, namespace: str, first: tuple[str, ...]
) -> None:
    wrong, seen = differences(
        api,
        namespace,
        (
            deployment(wanted_set("a", *first, replicas=some), wanted_set("b", *second, replicas=others))
            for second, some, others in product(SUBSETS, (0, 1, 2), (0, 1, 2))
        ),
    )
    assert not wrong, "\n".join(wrong)
    assert False in seen


@pytest.mark.parametrize("pods", NETWORKS)
def test_both_judge_pairs_of_networks_alike(api: Cluster, namespace: str, pods: str) -> None:
    source = {"type": "Upstream", "registry": "registry.example/k8s"}
    objects = (deployment(network={"pods": pods, "services": other}, source=source) for other in NETWORKS)
    wrong, _ = differences(api, namespace, objects)
    assert not wrong, "\n".join(wrong)
