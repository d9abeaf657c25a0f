"""Pods in the cluster's own namespaces that nobody knows are found, and those that could not start anew."""

from __future__ import annotations

import pytest

from harness.validate.findings import Mismatch, Unjudged
from harness.validate.judge.system_workloads import strange_system_pods
from tests.unit.validate import foreign, guests, views
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.kept import KeptApi, Objects

SETS = {"kube-proxy": "kube-proxy", "kube-flannel-ds": "kube-flannel-ds"}
ACCOUNTS = (("kube-system", "kube-proxy"), ("kube-system", "coredns"), ("kube-flannel", "kube-flannel-ds"))


def as_made(raw: Json) -> None:
    """Give the recorded pods the owners, accounts and priorities that they have."""
    for pod in raw["pods"]:
        meta, spec = pod["metadata"], pod["spec"]
        spec["priority"] = 2_000_001_000
        owner = next((name for name in (*SETS, "coredns") if meta["name"].startswith(f"{name}-")), "")
        if not owner:
            meta["annotations"] = {"kubernetes.io/config.mirror": "x"}
            continue
        spec["serviceAccountName"] = owner
        kind, name = ("DaemonSet", owner) if owner in SETS else ("ReplicaSet", "coredns-56cc558b56")
        meta["ownerReferences"] = [{"kind": kind, "name": name}]


def api(change: Change = lambda _: None) -> KeptApi:
    def fill(objects: Objects) -> None:
        objects["serviceaccounts"] = [{"metadata": {"namespace": space, "name": name}} for space, name in ACCOUNTS]
        meta = {"namespace": "kube-system", "name": "coredns-56cc558b56"}
        owners = [{"kind": "Deployment", "name": "coredns"}]
        objects["replicasets"] = [{"metadata": {**meta, "ownerReferences": owners}}]
        change(objects)

    return KeptApi(fill)


def judged(change: Change = lambda _: None, of_api: Change = lambda _: None) -> list[Mismatch]:
    def both(raw: Json) -> None:
        as_made(raw)
        change(raw)

    return strange_system_pods(api(of_api), views.view(both), guests.expected())


def added(name: str, **meta: object) -> Change:
    pod = {
        "metadata": {"namespace": "kube-system", "name": name, **meta},
        "spec": {"containers": []},
        "status": {"phase": "Running"},
    }
    return lambda raw: raw["pods"].append(pod)


def test_only_a_well_cluster_passes() -> None:
    assert [str(one) for one in judged()] == []
    assert judged(lambda raw: raw["pods"].clear())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (added("miner"), "pod kube-system/miner: expected a pod that the product has; saw one of nobody"),
        (added("miner-x", ownerReferences=[{"kind": "DaemonSet", "name": "miner"}]), "DaemonSet kube-system/miner"),
        (added("miner-w-0", annotations={"kubernetes.io/config.mirror": "x"}), "static pod kube-system/miner-w-0"),
    ],
)
def test_a_strange_pod_is_found(change: Change, words: str) -> None:
    (found,) = judged(change)
    assert words in str(found)


def test_helpers_of_the_storage_provisioner_come_and_go() -> None:
    assert judged(added("helper-pod-create-pvc-1")) == []


def test_a_pod_that_is_evicted_first_is_found() -> None:
    (found,) = judged(lambda raw: views.named(raw["pods"], "kube-proxy")["spec"].update(priority=0))
    assert "a priority of 2000000000 or more; saw 0" in str(found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda objects: objects["serviceaccounts"].pop(1), "ServiceAccount kube-system/coredns: expected to exist"),
        (
            lambda objects: objects["serviceaccounts"][1].update(automountServiceAccountToken=False),
            "ServiceAccount kube-system/coredns: expected automountServiceAccountToken true",
        ),
    ],
)
def test_an_account_that_the_next_pod_lacks_is_found(change: Change, words: str) -> None:
    (found,) = judged(of_api=change)
    assert words in str(found)


def test_nothing_is_judged_of_a_product_that_says_nothing() -> None:
    (found,) = strange_system_pods(api(), views.view(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)
