"""DataVolumes: imports that go well, badly, slowly or nowhere, blank disks, clones, and their deletion in any phase."""

from __future__ import annotations

import re

import pytest

from harness.kube.client import ApiFailure, Cluster
from harness.kube.resources import DATA_SOURCE, DATA_VOLUME, POD, PVC
from harness.until import NotYet, until
from tests.contract.images import SIZE, STALL_AFTER, Site
from tests.contract.limits import within
from tests.contract.storage import Storage, consumer
from tests.contract.streams import Watcher
from tests.contract.volumes import (
    Disk,
    condition,
    copy_of,
    http,
    make,
    remove,
    seen_values,
    status_of,
    wait_gone,
    wait_phase,
)
from tests.contract.walks import compare_dv

PERCENT = re.compile(r"\d{1,3}\.\d{1,2}%")
WRONG = "sha256:" + "a" * 64
CLONE_SECONDS = 60.0
RETRIES_SECONDS = 60.0
WATCH_SECONDS = 10.0  # a watch is a moment behind the answer to a request


def walks_as_recorded(watcher: Watcher, which: str, name: str, storage: Storage) -> None:
    """Compare what was seen of a DataVolume with a recording; its last event is written after its last status."""

    def same() -> bool | NotYet:
        found = compare_dv(watcher.taken(), which, name, late=storage.waits)
        return NotYet("; ".join(found)) if found else True

    until(same, deadline=within(WATCH_SECONDS), what=f"the walk of DataVolume {name} as recorded")


def test_a_good_import_walks_as_recorded(
    cluster: Cluster, namespace: str, watcher: Watcher, site: Site, disk: Disk, storage: Storage
) -> None:
    status = make(cluster, disk(namespace, "good", http(site.url("good.img"), site.checksum)))
    remove(cluster, namespace, "good")

    assert status["progress"] == "100.0%"
    walks_as_recorded(watcher, "good", "good", storage)


def test_a_wrong_checksum_fails_at_once(
    cluster: Cluster, namespace: str, watcher: Watcher, site: Site, disk: Disk, storage: Storage
) -> None:
    cluster.create(DATA_VOLUME, disk(namespace, "badsum", http(site.url("good.img"), WRONG)))
    status = wait_phase(cluster, namespace, "badsum", "Failed")
    running = condition(status, "Running")
    wait_gone(cluster, POD, namespace, "importer-badsum")
    remove(cluster, namespace, "badsum")

    assert (running["status"], running["reason"]) == ("False", "ChecksumError")
    assert f"checksum mismatch: expected {WRONG}, calculated {site.checksum}" in running["message"]
    walks_as_recorded(watcher, "badsum", "badsum", storage)


def test_a_missing_image_is_retried_and_never_failed(
    cluster: Cluster, namespace: str, watcher: Watcher, site: Site, disk: Disk, storage: Storage
) -> None:
    cluster.create(DATA_VOLUME, disk(namespace, "notfound", http(site.url("missing.img"))))

    def restarted() -> bool | NotYet:
        count = int(status_of(cluster, namespace, "notfound").get("restartCount") or 0)
        return True if count >= 2 else NotYet(f"restartCount is {count}")

    until(restarted, deadline=within(RETRIES_SECONDS), what="the third attempt at the import")
    remove(cluster, namespace, "notfound")

    taken = watcher.taken()
    running = [
        condition(o["status"], "Running") for _, o in taken.of("dv", "notfound") if "phase" in o.get("status", {})
    ]
    assert any("404" in c.get("message", "") for c in running)
    assert "Failed" not in seen_values(taken.of("dv", "notfound"), "phase")
    assert compare_dv(taken, "notfound", "notfound", late=storage.waits) == []


def test_a_slow_import_shows_its_progress(
    cluster: Cluster, namespace: str, watcher: Watcher, site: Site, disk: Disk
) -> None:
    make(cluster, disk(namespace, "slow", http(site.url("slow.img"), site.checksum)))

    def seen() -> bool | NotYet:
        phases = seen_values(watcher.taken().of("dv", "slow"), "phase")
        return True if phases and phases[-1] == "Succeeded" else NotYet(f"phases so far: {', '.join(phases)}")

    until(seen, deadline=within(WATCH_SECONDS), what="the watch to tell of the import's end")
    taken = watcher.taken().of("dv", "slow")
    shown = seen_values(taken, "progress")
    assert shown[0] == "N/A"
    assert shown[-1] == "100.0%"
    percentages = [float(value.rstrip("%")) for value in shown if PERCENT.fullmatch(value)]
    assert percentages == sorted(percentages)
    assert len([p for p in percentages if 0 < p < 100]) >= 2, shown
    assert "ImportInProgress" in seen_values(taken, "phase")


def test_a_stalled_import_stands_still_and_goes_on(cluster: Cluster, namespace: str, site: Site, disk: Disk) -> None:
    site.release.clear()  # an earlier test may have let it go
    cluster.create(DATA_VOLUME, disk(namespace, "stalled", http(site.url("stalled.img"), site.checksum)))
    steady: list[str] = []

    def stands_still() -> bool | NotYet:
        progress = str(status_of(cluster, namespace, "stalled").get("progress", ""))
        if steady and steady[-1] != progress:
            steady.clear()
        steady.append(progress)
        moving = not PERCENT.fullmatch(progress) or float(progress.rstrip("%")) <= 0
        return NotYet(f"{progress} for {len(steady)} looks") if moving or len(steady) < 12 else True

    until(stands_still, deadline=within(30), what="the import to stand still", interval=0.25)
    stalled = status_of(cluster, namespace, "stalled")
    site.release.set()
    wait_phase(cluster, namespace, "stalled", "Succeeded")

    assert stalled["phase"] == "ImportInProgress"
    assert 0 < float(stalled["progress"].rstrip("%")) <= 100 * STALL_AFTER / SIZE + 1


def test_a_blank_disk_is_a_claim_with_room_for_the_file_system(
    cluster: Cluster, admin: Cluster, namespace: str, watcher: Watcher, disk: Disk, storage: Storage
) -> None:
    make(cluster, disk(namespace, "blank", {"blank": {}}, size="4Gi"))

    claim = admin.get(PVC, "blank", namespace)
    remove(cluster, namespace, "blank")
    assert claim is not None
    assert claim["status"]["phase"] == "Bound"
    # 4 GiB / (1 - 0.06): as recorded
    assert claim["spec"]["resources"]["requests"]["storage"] == "4552665334"
    owner = claim["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("DataVolume", "blank", True)
    walks_as_recorded(watcher, "blank", "blank", storage)


@pytest.mark.parametrize("size", ["128Mi", None], ids=["larger", "as-the-source"])
def test_a_claim_is_cloned(
    cluster: Cluster, admin: Cluster, namespace: str, site: Site, disk: Disk, size: str | None
) -> None:
    make(cluster, disk(namespace, "source", http(site.url("good.img"), site.checksum)))

    status = make(cluster, disk(namespace, "clone", copy_of(namespace, "source"), size=size), seconds=CLONE_SECONDS)

    assert status["progress"] == "100.0%"
    assert condition(status, "Ready")["status"] == "True"
    claim = admin.get(PVC, "clone", namespace)
    assert claim is not None
    assert claim["status"]["phase"] == "Bound"
    source = admin.get(PVC, "source", namespace)
    assert source is not None
    detected = source["metadata"]["annotations"].get("cdi.Kubervirt.io/virtualSize")  # spelled like this in CDI
    assert (detected is None) is (size is not None), "a pod reads the size where none is asked for"
    wait_gone(admin, POD, namespace, f"size-detection-{source['metadata']['uid']}")


def test_a_claim_is_cloned_into_another_namespace(
    cluster: Cluster, admin: Cluster, namespace: str, other_namespace: str, site: Site, disk: Disk
) -> None:
    make(cluster, disk(namespace, "source", http(site.url("good.img"), site.checksum)))

    body = disk(other_namespace, "clone", copy_of(namespace, "source"))
    with pytest.raises(ApiFailure) as refused:  # a job clones from where the golden images are, and nowhere else
        cluster.create(DATA_VOLUME, body)
    make(admin, body, seconds=CLONE_SECONDS)

    assert "insufficient permissions in clone source namespace" in refused.value.message


def test_a_data_source_names_what_is_cloned(
    cluster: Cluster, admin: Cluster, namespace: str, site: Site, disk: Disk
) -> None:
    make(cluster, disk(namespace, "golden", http(site.url("good.img"), site.checksum)))
    source = {
        "apiVersion": DATA_SOURCE.api_version,
        "kind": "DataSource",
        "metadata": {"name": "image", "namespace": namespace},
        "spec": {"source": copy_of(namespace, "golden")},
    }
    admin.create(DATA_SOURCE, source)

    def ready() -> bool | NotYet:
        found = admin.get(DATA_SOURCE, "image", namespace) or {}
        states = {c["type"]: c["status"] for c in (found.get("status") or {}).get("conditions") or []}
        return True if states.get("Ready") == "True" else NotYet(str(states))

    until(ready, deadline=within(20), what="the DataSource to be ready", interval=0.1)
    body = disk(namespace, "disk", {})
    del body["spec"]["source"]
    body["spec"]["sourceRef"] = {"kind": "DataSource", "name": "image"}
    make(cluster, body, seconds=CLONE_SECONDS)


def test_an_image_larger_than_its_disk_is_said_in_the_claims_event_and_never_failed(
    cluster: Cluster, namespace: str, watcher: Watcher, site: Site, disk: Disk, storage: Storage
) -> None:
    cluster.create(DATA_VOLUME, disk(namespace, "small", http(site.url("good.img")), size="4Mi"))

    def told() -> str | NotYet:
        status = status_of(cluster, namespace, "small")
        text = str(condition(status, "Running").get("message", "")) if status.get("conditions") else ""
        tried = int(status.get("restartCount") or 0) >= 1
        return text if tried and text else NotYet(text or "no message yet")

    message = until(told, deadline=within(RETRIES_SECONDS), what="the reason of the failure", interval=0.1)
    remove(cluster, namespace, "small")

    taken = watcher.taken()
    said = [e["message"] for e in taken.about("PersistentVolumeClaim", "/small") if e["reason"] == "ErrImportFailed"]
    assert message == "DataVolume too small to contain image"
    assert said
    assert all(f"virtual image size {SIZE} is larger than the reported available storage" in text for text in said)
    assert "Failed" not in seen_values(taken.of("dv", "small"), "phase")
    assert compare_dv(taken, "larger", "small", late=storage.waits) == []


def test_a_disk_is_filled_once_it_has_a_consumer(
    cluster: Cluster, admin: Cluster, namespace: str, site: Site, disk: Disk, storage: Storage
) -> None:
    """A class that binds at once needs none; in another, a pod that uses the claim has it bound, and then leaves."""
    body = disk(namespace, "waits", http(site.url("good.img"), site.checksum))
    body["metadata"].pop("annotations", None)
    cluster.create(DATA_VOLUME, body)
    if storage.waits:
        wait_phase(cluster, namespace, "waits", "WaitForFirstConsumer")
        assert cluster.list(POD, namespace).items == []
        admin.create(POD, consumer(namespace, "waits"))

        def bound() -> bool | NotYet:
            state = condition(status_of(cluster, namespace, "waits"), "Bound")["status"]
            return state == "True" or NotYet(f"Bound is {state}")

        until(bound, deadline=within(30), what="the claim to be bound", interval=0.1)
        admin.delete(POD, "uses-waits", namespace, grace=0)

    wait_phase(cluster, namespace, "waits", "Succeeded")


def test_a_clone_waits_for_its_source(cluster: Cluster, namespace: str, site: Site, disk: Disk) -> None:
    cluster.create(DATA_VOLUME, disk(namespace, "early", copy_of(namespace, "late")))

    def told() -> bool | NotYet:
        events = cluster.events_of(namespace, "early")
        return True if any("CloneWithoutSource" in line for line in events) else NotYet("; ".join(events) or "no event")

    until(told, deadline=within(20), what="the event CloneWithoutSource", interval=0.2)
    assert status_of(cluster, namespace, "early").get("phase", "") not in {"Failed", "Succeeded"}
    make(cluster, disk(namespace, "late", http(site.url("good.img"), site.checksum)))
    wait_phase(cluster, namespace, "early", "Succeeded", seconds=CLONE_SECONDS)


@pytest.mark.parametrize("phase", ["", "ImportInProgress", "Failed", "Succeeded"], ids=lambda phase: phase or "new")
def test_a_volume_is_deleted_in_any_phase(cluster: Cluster, namespace: str, site: Site, disk: Disk, phase: str) -> None:
    source = {
        "": http(site.url("good.img")),
        "ImportInProgress": http(site.url("slow.img")),
        "Failed": http(site.url("good.img"), WRONG),
        "Succeeded": http(site.url("good.img")),
    }[phase]
    cluster.create(DATA_VOLUME, disk(namespace, "disk", source))
    if phase:
        wait_phase(cluster, namespace, "disk", phase)

    remove(cluster, namespace, "disk")

    wait_gone(cluster, POD, namespace, "importer-disk")
