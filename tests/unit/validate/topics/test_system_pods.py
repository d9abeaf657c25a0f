"""System pods that are not ready, of another version, not from the mirror, or that nobody knows are found."""

from __future__ import annotations

import copy

import pytest

from harness.validate.findings import Mismatch, Unjudged
from harness.validate.topics.system_pods import foreign_images, strange_system_pods, unready_pods, wrong_image_versions
from harness.validate.variables import ADD_ONS
from tests.unit.validate import foreign, guests, views
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.kept import KeptApi, Objects
from tests.unit.validate.views import (
    VERSIONS,
    Judge,
    condition,
    finds,
    image,
    named,
    passes_a_well_guest_only,
    pod,
    view,
    with_add_ons,
    without,
)


def container(**fields: object) -> Change:
    return lambda obj: obj["status"]["containerStatuses"][0].update(fields)


def elsewhere(namespace: str, **status: object) -> Change:
    """Return a pod of another namespace, with a status of its container."""

    def change(raw: Json) -> None:
        made = copy.deepcopy(named(raw["pods"], "coredns"))
        made["metadata"].update(namespace=namespace, name="other")
        made["status"]["containerStatuses"][0].update(status)
        raw["pods"].append(made)

    return change


def init_container(obj: Json) -> None:
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    obj["status"]["initContainerStatuses"] = [
        {"name": "install", "image": "10.222.0.1:5000/flannel:v1", "ready": False, "restartCount": 5, "state": waits}
    ]


JUDGES: tuple[Judge, ...] = (
    unready_pods,
    foreign_images,
    wrong_image_versions,
)
FAULTS: list[tuple[Judge, Change]] = [
    (unready_pods, without("pods", "etcd-cp-0")),
    (unready_pods, pod("coredns", lambda p: p["status"].update(phase="Pending"))),
    (unready_pods, pod("kube-proxy", lambda p: condition(p, "Ready", "False"))),
    (unready_pods, pod("kube-proxy", container(restartCount=3))),
    (unready_pods, pod("kube-proxy", container(state={"waiting": {"reason": "CrashLoopBackOff"}}))),
    (unready_pods, elsewhere("extra", restartCount=9)),
    (unready_pods, elsewhere("default", state={"waiting": {"reason": "CrashLoopBackOff"}})),
    (unready_pods, pod("kube-flannel", init_container)),
    (foreign_images, pod("coredns", image("10.222.0.1:50001/coredns:v1.14.2"))),
    (foreign_images, pod("coredns", container(image="registry.k8s.io/coredns/coredns:v1.14.2"))),
    (foreign_images, pod("coredns", image("registry.k8s.io/coredns/coredns:v1.14.2"))),
    (wrong_image_versions, pod("coredns", image("10.222.0.1:5000/coredns:v1.13.1"))),
    (wrong_image_versions, pod("etcd", image("10.222.0.1:5000/etcd:3.5.24-0"))),
    (wrong_image_versions, pod("kube-proxy", image("10.222.0.1:5000/kube-proxy:v1.35.4"))),
    (wrong_image_versions, without("pods", "kube-scheduler")),
]


@pytest.mark.parametrize("judge", JUDGES)
def test_only_a_well_guest_passes(judge: Judge) -> None:
    assert passes_a_well_guest_only(judge)


@pytest.mark.parametrize(("judge", "fault"), FAULTS)
def test_a_fault_is_found(judge: Judge, fault: Change) -> None:
    assert finds(judge, fault)


@pytest.mark.parametrize("judge", JUDGES)
def test_a_guest_with_add_ons_passes_where_they_are_wanted(judge: Judge) -> None:
    wanted = guests.expected(variables={**guests.VARIABLES, **VERSIONS})
    assert judge(view(with_add_ons), wanted) == []


def test_an_add_on_that_is_missing_is_found() -> None:
    wanted = guests.expected(variables={**guests.VARIABLES, **VERSIONS})
    assert {name for name in ADD_ONS for f in wrong_image_versions(view(), wanted) if name in f.where} == set(ADD_ONS)


def test_an_add_on_of_another_version_is_found() -> None:
    wanted = guests.expected(variables={**guests.VARIABLES, **VERSIONS, "cluster_metrics_server_version": "1.2.4"})
    (found,) = wrong_image_versions(view(with_add_ons), wanted)
    assert (found.where, found.expected) == ("pod kube-system/metrics-server", "metrics-server v1.2.4")


def test_pods_of_checks_and_images_of_others_do_not_count() -> None:
    assert unready_pods(view(elsewhere("vmatrix-probe", restartCount=9)), guests.expected()) == []


@pytest.mark.parametrize(("rotation", "restarts", "good"), [
    ("", 2, True), ("", 3, False), ("first", 5, True), ("first", 6, False),
])  # fmt: skip
def test_a_rotation_of_cas_ends_every_component_in_each_stage(rotation: str, restarts: int, *, good: bool) -> None:
    wanted = guests.expected(variables={**guests.VARIABLES, "cluster_ca_rotation": rotation})
    seen = view(pod("kube-proxy", container(restartCount=restarts)))
    assert (unready_pods(seen, wanted) == []) is good


@pytest.mark.parametrize("suffix", ["-k3s1", "-rke2r1-build20250101", "-eks-1-30-1", "-gke.100"])
def test_a_distributions_images_have_upstreams_version(suffix: str) -> None:
    def change(raw: Json) -> None:
        for made in raw["pods"]:
            for one in made["spec"]["containers"]:
                if "/kube-" in one["image"]:
                    one["image"] += suffix

    assert wrong_image_versions(view(change), guests.expected()) == []
    assert foreign_images(view(elsewhere("extra", image="example.org/own:1")), guests.expected()) == []


SETS = {"kube-proxy": "kube-proxy", "kube-flannel-ds": "kube-flannel-ds"}
ACCOUNTS = (("kube-system", "kube-proxy"), ("kube-system", "coredns"), ("kube-flannel", "kube-flannel-ds"))


def as_made(raw: Json) -> None:
    """Give the recorded pods the owners, accounts and priorities that they have."""
    for owned in raw["pods"]:
        meta, spec = owned["metadata"], owned["spec"]
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
