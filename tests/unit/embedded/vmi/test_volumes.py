"""What a machine boots from and waits for, and its cloud-init documents."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from harness.embedded.vmi.status import SyncError
from harness.embedded.vmi.volumes import Unbootable, cloud_init_documents, disk_file, root_volume, volumes_problem
from tests.unit.embedded.vmi.samples import Json, vmi

ROOT = {"name": "root", "dataVolume": {"name": "cp-0-root"}}
SEED = {"name": "seed", "cloudInitNoCloud": {"secretRef": {"name": "cp-0-seed"}}}


def test_missing_claim_is_said() -> None:
    problem = volumes_problem(vmi(volumes=[ROOT]), lambda _: None, lambda _: None)
    assert isinstance(problem, SyncError)
    assert problem.message == "PVC cell-a/cp-0-root does not exist, waiting for it to appear"


@pytest.mark.parametrize(("phase", "usable"), [("Succeeded", True), ("ImportInProgress", False), ("Failed", False)])
def test_claim_being_filled_is_waited_for(phase: str, usable: bool) -> None:
    claim = {"metadata": {"name": "cp-0-root"}}
    assert volumes_problem(vmi(volumes=[ROOT]), lambda _: claim, lambda _: {"status": {"phase": phase}}) is usable


def test_claim_volume_waits_for_the_data_volume_that_fills_it() -> None:
    volume = {"name": "root", "persistentVolumeClaim": {"claimName": "x"}}
    owner = {"kind": "DataVolume", "name": "other", "uid": "u", "controller": True}
    claim = {"metadata": {"name": "x", "ownerReferences": [owner]}}
    fillers = {"other": {"status": {"phase": "CloneInProgress"}}}
    assert volumes_problem(vmi(volumes=[volume]), lambda _: claim, fillers.get) is False


def test_root_is_the_only_claim() -> None:
    assert root_volume(vmi(volumes=[SEED, ROOT])) == ROOT


def test_second_disk_is_refused_by_name() -> None:
    other = {"name": "etcd", "dataVolume": {"name": "cp-0-etcd"}}
    with pytest.raises(Unbootable, match="root, etcd"):
        root_volume(vmi(volumes=[ROOT, other]))


def test_nothing_to_boot_from_is_said() -> None:
    with pytest.raises(Unbootable, match="nothing to boot from"):
        root_volume(vmi(volumes=[SEED]))


def test_disk_is_the_file_of_the_bound_volume(tmp_path: Path) -> None:
    file = tmp_path / "pvc-1.raw"
    file.touch()
    claim = {"spec": {"volumeName": "pvc-1"}}
    volume = {"spec": {"local": {"path": str(file)}}}
    assert disk_file(ROOT, lambda _: claim, lambda _: volume, tmp_path) == file
    assert disk_file(ROOT, lambda _: claim, lambda _: None, tmp_path) == file


def test_unbound_claim_and_missing_file_are_said(tmp_path: Path) -> None:
    with pytest.raises(Unbootable, match="not bound"):
        disk_file(ROOT, lambda _: {"spec": {}}, lambda _: None, tmp_path)
    with pytest.raises(Unbootable, match="does not exist"):
        disk_file(ROOT, lambda _: {"spec": {"volumeName": "pvc-2"}}, lambda _: None, tmp_path)


def _secret(**data: str) -> Json:
    return {"data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}}


@pytest.mark.parametrize("key", ["userdata", "userData"])
def test_seed_comes_from_the_secret(key: str) -> None:
    found = cloud_init_documents(
        vmi(volumes=[SEED]), lambda _: _secret(**{key: "#cloud-config", "networkdata": "version: 2"})
    )
    assert found == ("#cloud-config", "version: 2")


def test_seed_may_be_inline() -> None:
    inline = {"name": "seed", "cloudInitNoCloud": {"userDataBase64": base64.b64encode(b"#cloud-config").decode()}}
    assert cloud_init_documents(vmi(volumes=[inline]), lambda _: None) == ("#cloud-config", "")


def test_missing_secret_or_key_is_said() -> None:
    with pytest.raises(Unbootable, match="secret cp-0-seed does not exist"):
        cloud_init_documents(vmi(volumes=[SEED]), lambda _: None)
    with pytest.raises(Unbootable, match="none of the keys userdata, userData"):
        cloud_init_documents(vmi(volumes=[SEED]), lambda _: _secret(other="x"))
