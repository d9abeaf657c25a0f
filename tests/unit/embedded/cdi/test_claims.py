"""PersistentVolumeClaims of DataVolumes: what is asked for, and how large."""

from __future__ import annotations

from typing import Any

import pytest

from harness.embedded.cdi.claims import claim_bytes, disk_bytes, render

STORAGE = "local"
HTTP = {"http": {"url": "http://images/debian.qcow2", "checksum": "sha256:" + "a" * 64}}
CDI = "cdi.kubevirt.io/storage"


def data_volume(source: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataVolume",
        "metadata": {"name": "golden", "namespace": "cell-a", "uid": "u1", "labels": {"vmatrix.dev/run": "r1"}},
        "spec": {"source": source, **(spec or {"storage": sized("4Gi")})},
    }


def sized(size: str | None, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"storage": size}} if size else {}, **more}


def test_an_import_has_its_source_in_annotations_and_room_for_a_file_system() -> None:
    claim = render(data_volume(HTTP), STORAGE)
    notes = claim["metadata"]["annotations"]
    assert notes[f"{CDI}.import.endpoint"] == "http://images/debian.qcow2"
    assert notes[f"{CDI}.import.source"] == "http"
    assert notes[f"{CDI}.import.checksum"] == "sha256:" + "a" * 64
    assert f"{CDI}.import.importPodName" not in notes, "it is chosen when the claim is bound"
    assert claim["spec"]["resources"]["requests"]["storage"] == "4552665334"
    assert claim["spec"]["storageClassName"] == "local"


def test_a_claim_carries_the_labels_of_its_data_volume_and_is_owned_by_it() -> None:
    meta = render(data_volume(HTTP), STORAGE)["metadata"]
    assert meta["labels"]["vmatrix.dev/run"] == "r1"
    assert [(o["kind"], o["uid"], o["controller"]) for o in meta["ownerReferences"]] == [("DataVolume", "u1", True)]


def test_missing_modes_are_those_of_every_class() -> None:
    spec = render(data_volume({"blank": {}}), STORAGE)["spec"]
    assert (spec["accessModes"], spec["volumeMode"]) == (["ReadWriteOnce"], "Filesystem")


def test_a_literal_claim_is_taken_as_it_is() -> None:
    literal = {"accessModes": ["ReadWriteOnce"], **sized("4Gi")}
    assert render(data_volume(HTTP, pvc=literal), STORAGE)["spec"] == literal


def test_a_clone_names_its_source_and_takes_its_size() -> None:
    dv = data_volume({"pvc": {"namespace": "golden", "name": "debian-13"}}, storage=sized(None))
    claim = render(dv, STORAGE, 4 * GIB)
    assert claim["metadata"]["annotations"]["k8s.io/CloneRequest"] == "golden/debian-13"
    assert claim["spec"]["resources"]["requests"]["storage"] == "4552665334"


GIB = 1024**3


def test_a_claim_is_as_large_as_the_recorded_one() -> None:
    assert claim_bytes(4 * GIB) == 4552665334


@pytest.mark.parametrize("gib", [1, 2, 4, 6, 7, 10, 64])
def test_the_disk_of_a_claim_has_the_size_that_was_asked_for(gib: int) -> None:
    claim = {"spec": {"resources": {"requests": {"storage": str(claim_bytes(gib * GIB))}}}}
    assert disk_bytes(claim) == gib * GIB
