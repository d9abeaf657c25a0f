"""Golden images: imported once, never twice under one name, cloned as the storage class can."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.cell.golden import ensure_golden
from harness.cell.site import Site
from harness.errors import BadImage, InfraRetriable
from harness.kube.client import ApiFailure
from harness.kube.resources import CONFIG_MAP, STORAGE_PROFILE, VOLUME_SNAPSHOT
from harness.machines.kubevirt.manifests import GoldenImage, Origin
from harness.paths import project_dir
from harness.spec import load_spec
from tests.unit.cell.disk_cluster import DiskCluster, volume

IMAGE = GoldenImage("debian", "http://m/x.qcow2", "sha256:" + "a" * 64, "10Gi", "debian")
REFUSED = ("False", "Error", "connection refused")
MISMATCH = ("False", "ChecksumError", "checksum mismatch")


@pytest.fixture(scope="module")
def spec() -> Any:
    return load_spec(project_dir() / "matrix")


def site_of(cluster: DiskCluster, spec: Any) -> Site:
    made: Any = cluster
    return Site(
        cluster=made,
        spec=spec,
        timeouts=spec.timeouts,
        mirror=None,  # type: ignore[arg-type]
        guest_vars={},
        image=lambda _: IMAGE,
        storage_class=None,
        project=project_dir(),
        expiry_hours=1,
        namespace="shared",
    )


def test_an_image_is_imported_once(spec: Any) -> None:
    cluster = DiskCluster(on_create=volume("Succeeded"))
    for _ in range(2):
        assert ensure_golden(site_of(cluster, spec), IMAGE) == Origin("claim", "shared", "debian")
    assert cluster.created == [("DataVolume", "debian")]


def test_what_failed_before_keeps_its_name(spec: Any) -> None:
    cluster = DiskCluster(on_create=volume("Succeeded"))
    cluster.put(volume("Failed", name="debian", running=MISMATCH))
    cluster.put(volume("ImportInProgress", name="debian-2", restarts=7, running=REFUSED))
    assert ensure_golden(site_of(cluster, spec), IMAGE).name == "debian-3"
    assert cluster.created == [("DataVolume", "debian-3")]


def test_a_failure_that_may_pass_is_tried_once_more(spec: Any) -> None:
    cluster = DiskCluster(on_create=volume("ImportInProgress", restarts=3, running=REFUSED))
    with pytest.raises(InfraRetriable, match="debian-2 cannot be imported"):
        ensure_golden(site_of(cluster, spec), IMAGE)
    assert cluster.created == [("DataVolume", "debian"), ("DataVolume", "debian-2")]


def test_the_user_s_mistake_is_not_tried_again(spec: Any) -> None:
    cluster = DiskCluster(on_create=volume("Failed", running=MISMATCH))
    with pytest.raises(BadImage, match="checksum mismatch"):
        ensure_golden(site_of(cluster, spec), IMAGE)
    assert cluster.created == [("DataVolume", "debian")]


def test_when_all_names_are_used_up_somebody_has_to_look(spec: Any) -> None:
    cluster = DiskCluster()
    for name in ("debian", "debian-2", "debian-3"):
        cluster.put(volume("Failed", name=name, running=MISMATCH))
    with pytest.raises(BadImage) as refused:
        ensure_golden(site_of(cluster, spec), IMAGE)
    assert "3 imports of debian in shared have failed" in refused.value.summary
    assert "kubectl delete datavolume -n shared debian debian-2 debian-3" in refused.value.hint


def profile(strategy: str) -> dict[str, Any]:
    return {"metadata": {"name": "fast"}, "status": {"cloneStrategy": strategy, "snapshotClass": "snap"}}


def snapshotting(strategy: str = "snapshot") -> DiskCluster:
    cluster = DiskCluster(on_create=volume("Succeeded"))
    cluster.claims = [{"metadata": {"name": "debian"}, "spec": {"storageClassName": "fast"}}]
    cluster.objects[STORAGE_PROFILE.kind, "fast"] = profile(strategy)
    cluster.objects[VOLUME_SNAPSHOT.kind, "debian"] = {"metadata": {"name": "debian"}, "status": {"readyToUse": True}}
    return cluster


def test_a_class_that_clones_by_snapshots_gets_one_of_the_image(spec: Any) -> None:
    cluster = snapshotting()
    assert ensure_golden(site_of(cluster, spec), IMAGE) == Origin("data source", "shared", "debian")
    assert cluster.created[-1] == ("DataSource", "debian")
    assert ensure_golden(site_of(snapshotting("csi-clone"), spec), IMAGE).kind == "claim"


def test_who_may_not_make_snapshots_clones_the_claim(spec: Any) -> None:
    cluster = snapshotting()
    cluster.refusals["volumesnapshots"] = ApiFailure(403, "Forbidden", "no", [], request="POST")
    assert ensure_golden(site_of(cluster, spec), IMAGE).kind == "claim"


def test_what_an_import_needs_is_looked_for_first(spec: Any) -> None:
    cluster = DiskCluster(on_create=volume("Succeeded"))
    asking = replace(IMAGE, credentials="login", certificates="ca")
    with pytest.raises(BadImage, match="ConfigMap shared/ca"):
        ensure_golden(site_of(cluster, spec), asking)
    cluster.objects[CONFIG_MAP.kind, "ca"] = {"metadata": {"name": "ca"}}
    with pytest.raises(BadImage, match="Secret shared/login"):
        ensure_golden(site_of(cluster, spec), asking)
    cluster.refusals["secrets"] = ApiFailure(403, "Forbidden", "no", [], request="POST")
    assert ensure_golden(site_of(cluster, spec), asking).name == "debian"
