"""System pods that are not ready, of another version or not from the mirror are found."""

from __future__ import annotations

import copy

import pytest

from harness.validate.facts.addons import ADD_ONS
from harness.validate.judge.system_pods import foreign_images, unready_pods, wrong_image_versions
from tests.unit.validate import guests
from tests.unit.validate.views import (
    VERSIONS,
    Change,
    Json,
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
    assert [f.where for f in wrong_image_versions(view(with_add_ons), wanted)] == ["metrics-server"]


def test_pods_of_checks_and_images_of_others_do_not_count() -> None:
    assert unready_pods(view(elsewhere("vmatrix-probe", restartCount=9)), guests.expected()) == []
    assert foreign_images(view(elsewhere("extra", image="example.org/own:1")), guests.expected()) == []


@pytest.mark.parametrize("suffix", ["-k3s1", "-rke2r1-build20250101", "-eks-1-30-1", "-gke.100"])
def test_a_distributions_images_have_upstreams_version(suffix: str) -> None:
    def change(raw: Json) -> None:
        for made in raw["pods"]:
            for one in made["spec"]["containers"]:
                if "/kube-" in one["image"]:
                    one["image"] += suffix

    assert wrong_image_versions(view(change), guests.expected()) == []
