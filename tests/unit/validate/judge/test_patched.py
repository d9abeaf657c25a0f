"""What runs without a patch of the cell's is found."""

from __future__ import annotations

import pytest

from harness.validate.findings import Unjudged
from harness.validate.judge.patched import unpatched_dns, unpatched_kubelets, unpatched_pods
from harness.validate.variables import patched_settings, patches_of, patches_of_others
from tests.unit.validate import customised, guests, views
from tests.unit.validate.guests import Change, Json


def changed(change: Change) -> Change:
    def both(raw: Json) -> None:
        customised.patched(raw)
        change(raw)

    return both


def test_only_a_cluster_with_the_patches_passes() -> None:
    expected = customised.expected()
    view, without = views.view(customised.patched), views.view()
    assert unpatched_pods(view, expected) == unpatched_dns(view, expected) == []
    where = {one.where for one in unpatched_pods(without, expected)}
    assert where == {f"pod {p}-cp-0" for p in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")}
    assert "as of the patch corednsdeployment1+strategic.json" in str(unpatched_dns(without, expected)[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (views.pod("kube-scheduler-cp-0", lambda pod: pod["metadata"]["labels"].clear()), "/metadata/labels/patched"),
        (views.pod("etcd-cp-0", lambda pod: pod["spec"]["containers"][0].pop("resources")), "110Mi"),
        (views.without("pods", "kube-apiserver-cp-0"), "pod kube-apiserver-cp-0: expected to exist"),
    ],
)
def test_a_static_pod_without_its_patch_is_found(change: Change, words: str) -> None:
    (found, *_) = unpatched_pods(views.view(changed(change)), customised.expected())
    assert words in str(found)


def test_a_pod_of_coredns_that_is_older_than_the_patch_is_found() -> None:
    def former(raw: Json) -> None:
        views.named(raw["pods"], "coredns-")["spec"]["containers"][0]["resources"] = {"limits": {"memory": "170Mi"}}

    (found,) = unpatched_dns(views.view(changed(former)), customised.expected())
    assert "'180Mi'; saw '170Mi'" in str(found)
    gone = unpatched_dns(views.view(changed(views.without("deployments", "coredns"))), customised.expected())
    assert [one.seen for one in gone] == ["none"]


def test_a_kubelet_without_its_patch_is_found() -> None:
    well = {"maxPods": 97, "nodeStatusReportFrequency": "4m0s", "readOnlyPort": 0}
    expected = customised.expected()
    assert unpatched_kubelets({"cp-0": well, "w-0": well}, {}, expected) == []
    (found,) = unpatched_kubelets({"cp-0": well, "w-0": {**well, "maxPods": 110}}, {}, expected)
    assert str(found) == "w-0 kubelet: expected maxPods 97, as of the patch kubeletconfiguration1+merge.json; saw 110"
    (silent,) = unpatched_kubelets({"cp-0": well}, {"w-0": "503: away"}, expected)
    assert silent.seen == "503: away"


def test_without_patches_nothing_is_judged() -> None:
    view, expected = views.view(), guests.expected()
    for found in (unpatched_pods(view, expected), unpatched_dns(view, expected), unpatched_kubelets({}, {}, expected)):
        assert [type(one) for one in found] == [Unjudged]


def test_patches_are_those_of_their_component() -> None:
    given = {"cluster_kubeadm_patches": {"etcd.json": {"a": 1}, "etcd1+json.yaml": [], "kube-scheduler.json": {}}}
    assert [(one.name, one.kind) for one in patches_of("etcd", given)] == [
        ("etcd.json", "strategic"),
        ("etcd1+json.yaml", "json"),
    ]
    kubelet = {"cluster_kubeadm_patches": {"kubeletconfiguration+json.json": [{"op": "add", "path": "/maxPods"}]}}
    assert patched_settings(kubelet) == {"maxPods"}
    assert not patches_of_others(given)
    assert patches_of_others({"kubeadm_patches": {"a": 1}})
