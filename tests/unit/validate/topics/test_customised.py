"""Patches, scheduler configurations and volumes that are not in effect are found."""

from __future__ import annotations

from typing import Any

import pytest

from harness.validate.findings import Unjudged
from harness.validate.topics.customised import (
    CustomisedFacts,
    SeenVolume,
    customised_of,
    lacking,
    other_scheduler,
    other_volumes,
    unapplied,
    unpatched_dns,
    unpatched_kubelets,
    unpatched_pods,
)
from harness.validate.variables import patched_settings, patches_of, patches_of_others
from tests.unit.validate import customised, guests, views
from tests.unit.validate.guests import Change, Json

POD = {"metadata": {"labels": {"a/b": "c"}}, "spec": {"containers": [{"name": "x", "image": "i", "args": ["1", "2"]}]}}


@pytest.mark.parametrize(
    ("asked", "lack"),
    [
        ({"spec": {"containers": [{"name": "x", "image": "i"}]}}, None),
        ({"Spec": {"Containers": [{"name": "x"}]}}, None),
        ({"metadata": {"labels": {"$retainKeys": ["a/b"]}, "annotations": None}}, None),
        ({"spec": {"hostNetwork": False}}, None),
        ({"spec": {"containers": [{"name": "y"}]}}, ("spec.containers[y].name", "y", None)),
        ({"spec": {"containers": [{"name": "x", "args": ["1"]}]}}, ("spec.containers[x].args", ["1"], ["1", "2"])),
        ({"metadata": {"labels": {"a/b": None}}}, ("metadata.labels.a/b", None, "c")),
        ({"metadata": {"labels": {"a/b": "d"}}}, ("metadata.labels.a/b", "d", "c")),
        ({"status": {"phase": "Running"}}, ("status.phase", "Running", None)),
    ],
)
def test_what_is_lacking_is_told_with_its_path(asked: Any, lack: Any) -> None:
    assert list(lacking(asked, POD)) == ([] if lack is None else [lack])


@pytest.mark.parametrize(
    ("operation", "lack"),
    [
        ({"op": "add", "path": "/metadata/labels/a~1b", "value": "c"}, None),
        ({"op": "add", "path": "/spec/containers/0/args/-", "value": "2"}, None),
        ({"op": "add", "path": "/spec/containers/0/args/0", "value": "2"}, None),
        ({"op": "remove", "path": "/spec/nodeName"}, None),
        ({"op": "remove", "path": "/spec/containers/0"}, None),
        ({"op": "test", "path": "/spec/nodeName", "value": "w"}, None),
        ({"op": "replace", "path": "/spec/containers/0/image", "value": "j"}, ("/spec/containers/0/image", "j", "i")),
        ({"op": "add", "path": "/spec/containers/3/image", "value": "j"}, ("/spec/containers/3/image", "j", None)),
        ({"op": "remove", "path": "/metadata/labels/a~1b"}, ("/metadata/labels/a~1b", None, "c")),
    ],
)
def test_operations_that_left_no_trace_are_told(operation: Any, lack: Any) -> None:
    assert list(unapplied([operation], POD)) == ([] if lack is None else [lack])


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


def test_the_scheduler_of_the_cell_passes() -> None:
    facts = {"cp-0": CustomisedFacts({}, customised.scheduler())}
    assert other_scheduler(facts, customised.expected()) == []
    assert [one.seen for one in other_scheduler({}, customised.expected())] == ["none"]
    (gone,) = other_scheduler({"cp-0": CustomisedFacts({}, None)}, customised.expected())
    assert gone.expected == "a running process"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"file": ""}, "--config '/etc/kubernetes/scheduler/config.yml'; saw None"),
        ({"content": {"parallelism": 4}}, "/etc/kubernetes/scheduler/config.yml: expected the content"),
        ({"newer": 30.2}, "the file is 30 s newer than the process"),
        ({"status": 403}, "/configz: expected 200; saw 403"),
        ({"running": {**customised.scheduler().running, "PercentageOfNodesToScore": 0}}, "ToScore 60; saw 0"),
        ({"running": {**customised.scheduler().running, "profiles": []}}, "profiles[second-scheduler]"),
    ],
)
def test_another_scheduler_is_found(change: dict[str, Any], words: str) -> None:
    facts = {"cp-0": CustomisedFacts({}, customised.scheduler(**change))}
    assert words in "\n".join(map(str, other_scheduler(facts, customised.expected())))


def test_a_scheduler_of_a_hardened_cell_shows_no_profiles_by_its_file() -> None:
    hardened = customised.expected(cluster_profiling=False)
    profiles = {"enableProfiling": False}
    as_before = CustomisedFacts({}, customised.scheduler())
    found = "\n".join(map(str, other_scheduler({"cp-0": as_before}, hardened)))
    assert "'enableProfiling': False" in found
    seen = customised.scheduler()
    right = customised.scheduler(content={**seen.content, **profiles}, running={**seen.running, **profiles})
    assert other_scheduler({"cp-0": CustomisedFacts({}, right)}, hardened) == []


def test_a_file_that_is_no_yaml_is_a_finding() -> None:
    seen = {"file": "/a", "content": "a: [", "newer": 0, "status": 200, "running": {}}
    facts = customised_of({"volumes": {}, "scheduler": seen}).scheduler
    assert facts is not None
    assert facts.content.startswith("no YAML: ")


def test_the_volumes_of_the_cell_pass() -> None:
    facts = {"cp-0": CustomisedFacts(customised.volumes(), None)}
    assert other_volumes(facts, customised.expected()) == []
    assert [one.seen for one in other_volumes({}, customised.expected())] == ["none"]
    assert [type(one) for one in other_volumes(facts, guests.expected())] == [Unjudged]


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (SeenVolume(same=False, read_only=True, why=""), "/usr/share of the machine; saw something else"),
        (SeenVolume(same=False, read_only=False, why="no such file"), "saw no such file"),
        (SeenVolume(same=True, read_only=False, why=""), "expected read-only; saw to be written to"),
        (None, "/usr/share of the machine; saw nothing"),
    ],
)
def test_another_volume_is_found(seen: SeenVolume | None, words: str) -> None:
    own = {} if seen is None else {"/srv/machine-share": seen}
    facts = {"cp-0": CustomisedFacts({**customised.volumes(), "kube-apiserver": own}, None)}
    (found,) = other_volumes(facts, customised.expected())
    assert words in str(found)


def test_a_program_that_does_not_run_is_found() -> None:
    there = {name: one for name, one in customised.volumes().items() if name != "kube-scheduler"}
    (found,) = other_volumes({"cp-0": CustomisedFacts(there, None)}, customised.expected())
    assert str(found) == "cp-0 kube-scheduler: expected a running process; saw none"
