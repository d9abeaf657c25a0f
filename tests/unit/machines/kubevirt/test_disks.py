"""CDI has one message for several troubles; the importer's own words, where they still are, tell them apart."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import BadImage, Blame, InfraError, InfraRetriable, VmatrixError
from harness.kube.client import ApiFailure
from harness.machines.kubevirt.disks import failed_import
from tests.unit.cell.disk_cluster import DiskCluster, event, importer, volume

TOO_SMALL = "DataVolume too small to contain image"
GIB = 1024**3
LARGER = (
    f"Unable to process data: virtual image size {12 * GIB} is larger than the reported available storage {10 * GIB}. "
    "A larger PVC is required"
)
LESS_ROOM = (
    "Unable to process data: Unable to convert source data to target format: "
    f"virtual image size {9 * GIB} is larger than the reported available storage {GIB}. A larger PVC is required"
)
SCRATCH = "Unable to process data: Unable to transfer source data to scratch space: unable to write to file: "
FULL = f"{SCRATCH}write /scratch/tmpimage: no space left on device"
QUOTA = f"{SCRATCH}write /scratch/tmpimage: disk quota exceeded"
TOLD = [
    pytest.param(LARGER, BadImage, "size_gib", id="larger"),
    pytest.param(LESS_ROOM, InfraRetriable, "no room for that disk", id="less room than asked for"),
    pytest.param(FULL, InfraRetriable, "is full", id="full"),
    pytest.param(QUOTA, InfraRetriable, "quota of its own", id="quota"),
]


def failure(cluster: DiskCluster, message: str = TOO_SMALL) -> VmatrixError:
    dv = volume("ImportInProgress", restarts=3, running=("False", "Error", message))
    dv["spec"]["storage"] = {"resources": {"requests": {"storage": "10Gi"}}}
    made: Any = cluster
    return failed_import(made, "disk ns/d cannot be imported", dv, namespace="ns")


def of_claim(message: str, at: str = "", *, name: str = "d") -> dict[str, Any]:
    return event("ErrImportFailed", message, name=name, kind="PersistentVolumeClaim", at=at)


@pytest.mark.parametrize(("message", "error", "hint"), TOLD)
def test_the_claim_s_event_tells_what_it_is(message: str, error: type[VmatrixError], hint: str) -> None:
    said = failure(DiskCluster(events=[event("Error", TOO_SMALL), of_claim(message)]))
    assert type(said) is error
    assert said.summary == f"disk ns/d cannot be imported: {message}"
    assert hint in said.hint


@pytest.mark.parametrize(("message", "error", "hint"), TOLD)
def test_the_importer_s_pod_tells_it_when_its_events_are_gone(
    message: str, error: type[VmatrixError], hint: str
) -> None:
    said = failure(DiskCluster(pods=[importer("no space left on device", name="importer-d-2"), importer(message)]))
    assert type(said) is error
    assert message in said.summary
    assert hint in said.hint


def test_an_event_that_was_copied_from_a_populator_s_claim_is_the_importer_s() -> None:
    said = failure(DiskCluster(events=[of_claim(f"[prime-0a1b2c3d] : {LARGER}")]))
    assert isinstance(said, BadImage)
    assert "prime" not in said.summary


def test_the_newest_event_counts_and_others_claims_do_not() -> None:
    events = [
        of_claim("Unable to connect to http data source: connection refused", "2026-11-22T10:03:00Z"),
        of_claim(LARGER, "2026-11-22T10:02:00Z"),
        of_claim(FULL, "2026-11-22T10:01:00Z"),
        of_claim(QUOTA, "2026-11-22T10:09:00Z", name="d-2"),
    ]
    assert isinstance(failure(DiskCluster(events=events)), BadImage)


def test_words_that_nobody_has_any_more_are_nobody_s_guess() -> None:
    said = failure(DiskCluster())
    assert type(said) is InfraError
    assert said.blame is Blame.INFRA
    assert TOO_SMALL in said.summary
    for remedy in ("size_gib", "full", "quota", "kubectl get events -n ns"):
        assert remedy in said.hint


def test_events_that_may_not_be_looked_at_are_none() -> None:
    refused = ApiFailure(403, "Forbidden", "no", [], request="GET")
    assert type(failure(DiskCluster(refusals={"events": refused}))) is InfraError


def test_other_words_need_no_event() -> None:
    message = "Unable to process data: qemu-img: error while writing at byte 8388608: No space left on device"
    said = failure(DiskCluster(events=[of_claim(LARGER)]), message)
    assert type(said) is InfraRetriable
    assert message in said.summary
