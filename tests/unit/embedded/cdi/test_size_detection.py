"""A clone that asks for no size: a pod beside the source reads it, once."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from harness.embedded.cdi.population import CloneSources
from harness.embedded.cdi.provisioner import disk_path
from harness.embedded.cdi.size_detection import (
    OWNED_BY,
    SOURCE_CAPACITY,
    VIRTUAL_SIZE,
    SizeDetection,
    asks_no_size,
    volume_of,
)
from harness.embedded.context import Context
from harness.kube.client import Json
from harness.kube.events import Events
from harness.kube.informer import Informers
from harness.kube.resources import POD, PVC
from tests.unit.fake_cluster import FakeCluster

GIB = 1024**3
NODE = "this-host"


class Recorder:
    """Notes the reasons of events."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def normal(self, _: Json, reason: str, __: str, *, component: str) -> None:
        assert component == "datavolume-pvc-clone-controller"
        self.reasons.append(reason)

    def warning(self, _: Json, reason: str, __: str, *, component: str) -> None:
        assert component == "upload-controller"
        self.reasons.append(reason)


def source(**annotations: str) -> Json:
    notes = {"cdi.kubevirt.io/storage.contentType": "kubevirt", **annotations}
    meta = {"name": "debian-13", "namespace": "golden", "uid": "s1", "annotations": notes}
    return {
        "metadata": meta,
        "spec": {"volumeName": "pv-1"},
        "status": {"phase": "Bound", "capacity": {"storage": str(5 * GIB)}},
    }


def clone(namespace: str = "cell") -> Json:
    meta = {"name": "disk-0", "namespace": namespace, "uid": "d1"}
    return {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "metadata": meta, "spec": {"storage": {}}}


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster({PVC: [source()]})


@pytest.fixture
def context(cluster: FakeCluster, tmp_path: Path) -> Context:
    informers = Informers(cluster)
    informers.of(PVC).observe(cluster.all(PVC)[0])
    return Context(cluster, informers, cast(Events, Recorder()), tmp_path, 0, (NODE,))


@pytest.fixture
def sizes(context: Context) -> SizeDetection:
    disk = disk_path(context.disks, "pv-1")
    disk.parent.mkdir(parents=True)
    with disk.open("wb") as sparse:
        sparse.truncate(4 * GIB)
    return SizeDetection(context)


def reasons(context: Context) -> list[str]:
    return cast(Recorder, context.events).reasons


def schedule(cluster: FakeCluster) -> None:
    """Bind the pod, as the scheduler does."""
    (pod,) = cluster.all(POD)
    cluster.put(POD, {**pod, "spec": {**pod["spec"], "nodeName": NODE}})


@pytest.mark.parametrize(
    ("storage", "asked"),
    [
        ({}, True),
        ({"resources": {"requests": {}}}, True),
        ({"resources": {"requests": {"storage": "0"}}}, True),
        ({"resources": {"requests": {"storage": "4Gi"}}}, False),
        (None, False),
    ],
)
def test_a_size_is_looked_for_where_none_is_asked_for(storage: Json | None, asked: bool) -> None:
    spec = {"pvc": {}} if storage is None else {"storage": storage}
    assert asks_no_size({"spec": spec}) is asked


def test_a_pod_beside_the_source_reads_the_size_and_the_source_keeps_it(
    cluster: FakeCluster, context: Context, sizes: SizeDetection
) -> None:
    assert sizes.size(clone(), source()) is None
    (pod,) = cluster.all(POD)
    assert (pod["metadata"]["namespace"], pod["metadata"]["name"]) == ("golden", "size-detection-s1")
    assert pod["metadata"]["annotations"][OWNED_BY] == "cell/disk-0"
    assert reasons(context) == ["SizeDetectionPodCreated", "SizeDetectionPodNotReady"]
    assert sizes.reconcile(("golden", "size-detection-s1")) is None
    assert sizes.size(clone(), source()) is None, "no scheduler has bound it"
    schedule(cluster)
    sizes.reconcile(("golden", "size-detection-s1"))
    assert sizes.size(clone(), source()) == 4 * GIB
    (claim,) = cluster.all(PVC)
    kept = {key: claim["metadata"]["annotations"][key] for key in (VIRTUAL_SIZE, SOURCE_CAPACITY)}
    assert kept == {VIRTUAL_SIZE: str(4 * GIB), SOURCE_CAPACITY: str(5 * GIB)}


def test_a_size_that_is_kept_needs_no_pod_until_the_capacity_changes(
    cluster: FakeCluster, sizes: SizeDetection
) -> None:
    assert sizes.size(clone(), source(**{VIRTUAL_SIZE: "17", SOURCE_CAPACITY: "5Gi"})) == 17
    assert cluster.all(POD) == []
    assert sizes.size(clone(), source(**{VIRTUAL_SIZE: "17", SOURCE_CAPACITY: "4Gi"})) is None
    assert len(cluster.all(POD)) == 1


def test_a_source_that_is_not_a_disk_of_cdis_has_the_size_of_its_volume(
    cluster: FakeCluster, sizes: SizeDetection
) -> None:
    assert sizes.size(clone(), source(**{"cdi.kubevirt.io/storage.contentType": "archive"})) == 5 * GIB
    assert cluster.all(POD) == []


def test_a_pod_goes_with_its_data_volume_alone(cluster: FakeCluster, context: Context, sizes: SizeDetection) -> None:
    sizes.size(clone(), source())
    context.informers.of(POD).observe(cluster.all(POD)[0])
    sizes.drop(("cell", "another"))
    assert len(cluster.all(POD)) == 1
    sizes.drop(("cell", "disk-0"))
    assert cluster.all(POD) == []


def test_in_one_namespace_the_data_volume_owns_the_pod(cluster: FakeCluster, sizes: SizeDetection) -> None:
    sizes.size(clone("golden"), source())
    (pod,) = cluster.all(POD)
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "d1"
    assert volume_of(pod) == ("golden", "disk-0")


@pytest.mark.parametrize(("permissive", "ready"), [("true", True), ("false", False)])
def test_a_clone_whose_size_was_found_may_be_smaller_than_its_source(
    permissive: str, ready: bool, cluster: FakeCluster, context: Context
) -> None:
    whole = cluster.put(
        PVC, {**source(), "spec": {"resources": {"requests": {"storage": "5Gi"}}, "volumeName": "pv-1"}}
    )
    context.informers.of(PVC).observe(whole)
    annotations = {"cdi.kubevirt.io/permissiveClone": permissive}
    claim = {
        "metadata": {"name": "disk-0", "namespace": "cell", "annotations": annotations},
        "spec": {"resources": {"requests": {"storage": "4Gi"}}},
    }
    assert CloneSources(context).ready(claim, "golden/debian-13") is ready
