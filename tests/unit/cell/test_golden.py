"""Golden images: imported once, never twice under one name, cloned as the storage class can."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.cell import golden
from harness.cell.golden import DiskPatience, DiskWatch, ensure_golden
from harness.cell.site import Site
from harness.errors import BadImage, Blame, InfraError, InfraRetriable, VmatrixError
from harness.kube.client import ApiFailure
from harness.kube.resources import CONFIG_MAP, STORAGE_PROFILE, VOLUME_SNAPSHOT
from harness.machines.kubevirt.disks import CloneStuck
from harness.machines.kubevirt.manifests import GoldenImage, Origin
from harness.paths import project_dir
from harness.spec import load_spec
from harness.until import NotYet, TimedOut
from tests.unit.cell.disk_cluster import DiskCluster, event, volume

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


CLONE = {"pvc": {"namespace": "images", "name": "debian"}}


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(golden, "time", made)
    return made


def watching(clock: Clock, cluster: DiskCluster, *, consumer: bool = False) -> DiskWatch:
    made: Any = cluster
    return DiskWatch(made, "ns", "d", DiskPatience(stall=120, trouble=60), consumer, _seen_at=clock.now)


def after(watch: DiskWatch, clock: Clock, *seconds: float) -> VmatrixError:
    """Look, let time pass, look again; return the error that comes."""
    with pytest.raises(VmatrixError) as raised:  # noqa: PT012 - each look may raise it
        watch.look()
        for pause in seconds:
            clock.now += pause
            watch.look()
    return raised.value


def test_a_whole_disk_is_whole(clock: Clock) -> None:
    cluster = DiskCluster()
    cluster.put(volume("Succeeded"))
    assert watching(clock, cluster).look() is True


@pytest.mark.parametrize("phase", ["WaitForFirstConsumer", "PendingPopulation"])
def test_waiting_for_its_machine_is_no_stall(clock: Clock, phase: str) -> None:
    cluster = DiskCluster()
    cluster.put(volume(phase, source=CLONE))
    watch = watching(clock, cluster, consumer=True)
    watch.look()
    clock.now += 3600
    assert isinstance(watch.look(), NotYet)
    assert watch.waits_for_machine


def test_waiting_for_a_consumer_that_will_never_come_is_a_stall(clock: Clock) -> None:
    cluster = DiskCluster()
    cluster.put(volume("WaitForFirstConsumer"))
    failure = after(watching(clock, cluster), clock, 121)
    assert isinstance(failure, TimedOut)
    assert "storage_class" in failure.hint


def test_slow_progress_is_progress_and_none_is_a_stall(clock: Clock) -> None:
    cluster = DiskCluster()
    watch = watching(clock, cluster)
    for percent in range(10):
        cluster.put(volume("ImportInProgress", progress=f"{percent}.00%", running=("True", "", "")))
        assert isinstance(watch.look(), NotYet)
        clock.now += 119
    failure = after(watch, clock, 2)
    assert isinstance(failure, TimedOut)
    assert "made no progress for 121 s: ImportInProgress 9.00%" in failure.summary


def test_restarts_count_when_the_importer_does_not_run(clock: Clock) -> None:
    cluster = DiskCluster()
    message = "Unable to connect to http data source: expected status code 200, got 404. Status: 404 Not Found"
    cluster.put(volume("ImportInProgress", restarts=3, running=("True", "Pod is running", "")))
    watch = watching(clock, cluster)
    assert isinstance(watch.look(), NotYet)
    cluster.put(volume("ImportInProgress", restarts=3, running=("False", "Error", message)))
    failure = after(watch, clock)
    assert isinstance(failure, BadImage)
    assert failure.blame is Blame.USER
    assert failure.exit_code == 2
    assert message in failure.summary
    assert "(3 restarts)" in failure.summary
    assert "matrix/images.yml" in failure.hint


@pytest.mark.parametrize(
    ("message", "error", "hint"),
    [
        ("Unable to process data: checksum mismatch: expected sha256:0, got sha256:1", BadImage, "`checksum`"),
        ("virtual image size 2 is larger than the reported available storage 1. A larger PVC", BadImage, "size_gib"),
        ("invalid backing file /etc/passwd. Backing file /etc/passwd is invalid", BadImage, "no disk image"),
        ('secret "login" not found', BadImage, "create it"),
        ('Get "http://m:1/x": dial tcp 10.0.0.1:1: connect: connection refused', InfraRetriable, "cannot reach"),
        ('Get "http://m/x": dial tcp: lookup m on 10.96.0.10:53: server misbehaving', InfraRetriable, "cannot reach"),
        ("expected status code 200, got 503. Status: 503 Service Unavailable", InfraRetriable, "cannot reach"),
        ("nbdkit: curl[1]: error: pread: Input/output error", InfraRetriable, "cannot reach"),
        ("write /data/disk.img: no space left on device", InfraRetriable, "full"),
        ("x509: certificate signed by unknown authority", InfraError, "certificates"),
        ("something nobody has seen before", InfraError, "kubectl logs -n ns"),
    ],
)
def test_the_importer_s_own_words_say_whose_fault_it_is(
    clock: Clock, message: str, error: type[VmatrixError], hint: str
) -> None:
    cluster = DiskCluster()
    cluster.put(volume("Failed", running=("False", "Error", message)))
    failure = after(watching(clock, cluster), clock)
    assert type(failure) is error
    assert message in failure.summary
    assert hint in failure.hint


def test_an_unfit_storage_class_is_told_at_once(clock: Clock) -> None:
    cluster = DiskCluster(events=[event("ErrClaimNotValid", "missing accessMode")])
    cluster.put(volume("Pending"))
    failure = after(watching(clock, cluster), clock, 3)
    assert type(failure) is InfraError
    assert "ErrClaimNotValid: missing accessMode" in failure.summary
    assert "kubectl patch storageprofile" in failure.hint


@pytest.mark.parametrize("reason", ["ErrIncompatiblePVC", "CloneValidationFailed"])
def test_a_disk_that_is_smaller_than_its_image_is_the_user_s_to_mend(clock: Clock, reason: str) -> None:
    message = "target resources requests storage size is smaller than the source"
    cluster = DiskCluster(events=[event(reason, message, kind="PersistentVolumeClaim")])
    cluster.put(volume("CloneScheduled", source=CLONE))
    failure = after(watching(clock, cluster, consumer=True), clock, 3)
    assert type(failure) is BadImage
    assert "disk_gib" in failure.hint


def test_a_class_that_cannot_make_a_claim_is_the_infra_s(clock: Clock) -> None:
    message = "source volumeMode (Block) and target volumeMode (Filesystem) do not match"
    cluster = DiskCluster(events=[event("ErrIncompatiblePVC", message)])
    cluster.put(volume("CloneScheduled", source=CLONE))
    assert type(after(watching(clock, cluster, consumer=True), clock, 3)) is InfraError


def test_a_controller_that_does_it_again_is_no_trouble(clock: Clock) -> None:
    conflict = "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Error saving claim: Operation cannot be fulfilled on persistentvolumeclaims "d": {conflict}'
    cluster = DiskCluster(events=[event("ProvisioningFailed", message, kind="PersistentVolumeClaim")])
    cluster.put(volume("ImportInProgress"))
    watch = watching(clock, cluster)
    watch.look()
    clock.now += 90
    assert isinstance(watch.look(), NotYet)


def test_a_full_quota_has_time_to_be_freed(clock: Clock) -> None:
    cluster = DiskCluster(events=[event("ErrExceededQuota", "exceeded quota: cell")])
    cluster.put(volume("Pending"))
    watch = watching(clock, cluster)
    watch.look()
    clock.now += 30
    assert isinstance(watch.look(), NotYet)
    failure = after(watch, clock, 31)
    assert type(failure) is InfraRetriable
    assert "ErrExceededQuota" in failure.summary


@pytest.mark.parametrize("pause", [61.0, 121.0])
def test_a_clone_that_does_not_come_on_is_stuck(clock: Clock, pause: float) -> None:
    events = [event("CloneSourceInUse", "pod x using PersistentVolumeClaim debian")] if pause < 120 else []
    cluster = DiskCluster(events=events)
    cluster.put(volume("CloneScheduled", source=CLONE))
    failure = after(watching(clock, cluster, consumer=True), clock, pause)
    assert isinstance(failure, CloneStuck)
    assert "imports" in failure.hint


def test_others_events_are_not_this_disk_s(clock: Clock) -> None:
    cluster = DiskCluster(events=[event("ErrClaimNotValid", "x", name="d-2")])
    cluster.put(volume("Pending"))
    watch = watching(clock, cluster)
    watch.look()
    clock.now += 90
    assert isinstance(watch.look(), NotYet)


def test_a_disk_of_the_same_name_is_another_disk(clock: Clock) -> None:
    cluster = DiskCluster()
    cluster.put(volume("ImportInProgress"))
    watch = watching(clock, cluster)
    watch.look()
    cluster.put(volume("Succeeded", uid="u2"))
    assert "replaced by another" in after(watch, clock).summary


def test_a_disk_that_is_gone_is_whole_only_if_its_claim_stands_alone(clock: Clock) -> None:
    cluster = DiskCluster()
    cluster.put(volume("ImportInProgress"))
    watch = watching(clock, cluster)
    watch.look()
    cluster.objects.clear()
    assert "deleted during the wait" in after(watch, clock).summary
    cluster.claims = [{"metadata": {"name": "d"}, "status": {"phase": "Bound"}}]
    assert watch.look() is True
