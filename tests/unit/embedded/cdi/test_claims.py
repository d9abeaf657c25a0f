"""What a DataVolume asks for, as a claim."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from harness.embedded.cdi.claims import ClaimNotValid, Storage, default_class, render

STORAGE = Storage("local", ({"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"},), Decimal("0.06"))
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
    claim = render(data_volume(HTTP), STORAGE, None)
    notes = claim["metadata"]["annotations"]
    assert notes[f"{CDI}.import.endpoint"] == "http://images/debian.qcow2"
    assert notes[f"{CDI}.import.source"] == "http"
    assert notes[f"{CDI}.import.checksum"] == "sha256:" + "a" * 64
    assert notes[f"{CDI}.import.importPodName"] == "importer-golden"
    assert claim["spec"]["resources"]["requests"]["storage"] == "4552665334"
    assert claim["spec"]["storageClassName"] == "local"


def test_a_claim_carries_the_labels_of_its_data_volume_and_is_owned_by_it() -> None:
    meta = render(data_volume(HTTP), STORAGE, None)["metadata"]
    assert meta["labels"]["vmatrix.dev/run"] == "r1"
    assert [(o["kind"], o["uid"], o["controller"]) for o in meta["ownerReferences"]] == [("DataVolume", "u1", True)]


def test_missing_modes_come_from_the_storage_profile() -> None:
    spec = render(data_volume({"blank": {}}), STORAGE, None)["spec"]
    assert (spec["accessModes"], spec["volumeMode"]) == (["ReadWriteOnce"], "Filesystem")


def test_an_empty_storage_profile_and_no_access_mode_is_not_valid() -> None:
    with pytest.raises(ClaimNotValid, match="missing accessMode"):
        render(data_volume({"blank": {}}), Storage("local", (), Decimal("0.06")), None)


def test_a_literal_claim_is_taken_as_it_is() -> None:
    literal = {"accessModes": ["ReadWriteOnce"], **sized("4Gi")}
    assert render(data_volume(HTTP, pvc=literal), STORAGE, None)["spec"] == literal


def test_a_clone_names_its_source_and_takes_its_size() -> None:
    source = {"spec": {"resources": {"requests": {"storage": "4552665334"}}}}
    dv = data_volume({"pvc": {"namespace": "golden", "name": "debian-13"}}, storage=sized(None))
    claim = render(dv, STORAGE, source)
    assert claim["metadata"]["annotations"]["k8s.io/CloneRequest"] == "golden/debian-13"
    assert claim["spec"]["resources"]["requests"]["storage"] == "4552665334"


def test_the_class_for_virtual_machines_comes_before_the_default_one() -> None:
    def named(name: str, annotation: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "annotations": {annotation: "true"}}}

    general = named("general", "storageclass.kubernetes.io/is-default-class")
    virtual = named("virtual", "storageclass.kubevirt.io/is-default-virt-class")
    assert default_class([general, virtual]) == "virtual"
    assert default_class([general]) == "general"
    assert default_class([]) == ""
