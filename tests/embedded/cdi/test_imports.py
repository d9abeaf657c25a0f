"""Imports as they end up on this host's disk: formats, sizes, failures that a person must understand."""

from __future__ import annotations

import gzip
import hashlib
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import proc
from harness.kube.client import Cluster, Json
from harness.kube.resources import DATA_VOLUME, PVC
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.contract.images import Site, content
from tests.contract.volumes import condition, datavolume, http, make, remove, status_of, wait_gone, wait_phase
from tests.embedded.cdi.conftest import Folder
from tests.embedded.cdi.disks import begins_with, disk_of, leftovers

MIB = 1024**2
FAILURE_SECONDS = 30.0


def _qcow2(path: Path) -> None:
    raw = path.with_suffix(".raw")
    raw.write_bytes(content())
    proc.run(["qemu-img", "convert", "-q", "-c", "-f", "raw", "-O", "qcow2", raw, path], timeout=30)


PACKED: dict[str, Callable[[Path], object]] = {
    "qcow2": _qcow2,
    "raw": lambda path: path.write_bytes(content()),
    "gz": lambda path: path.write_bytes(gzip.compress(content(), compresslevel=1)),
    "xz": lambda path: path.write_bytes(lzma.compress(content(), preset=0)),
}


@pytest.mark.parametrize("form", PACKED)
def test_an_image_of_any_format_becomes_a_raw_disk_of_the_size_asked_for(
    infra: EmbeddedProvider, cluster: Cluster, namespace: str, folder: Folder, form: str
) -> None:
    PACKED[form](folder.path / "image")
    checksum = "sha256:" + hashlib.sha256((folder.path / "image").read_bytes()).hexdigest()

    make(cluster, datavolume(namespace, "disk", http(folder.url("image"), checksum)))

    disk = disk_of(infra, cluster, namespace, "disk")
    assert disk.stat().st_size == 64 * MIB
    assert disk.stat().st_blocks * 512 < 16 * MIB  # sparse
    assert begins_with(disk, content())
    assert leftovers(infra) == []


def wait_message(cluster: Cluster, namespace: str, name: str, text: str) -> None:
    def says() -> bool | NotYet:
        status = status_of(cluster, namespace, name)
        running = condition(status, "Running") if "conditions" in status else {}
        said = running.get("message", "")
        return True if running.get("reason") == "Error" and text in said else NotYet(f"{running}")

    until(says, deadline=Deadline.after(FAILURE_SECONDS), what=f"{name} to report {text!r}", interval=0.1)


def test_an_image_larger_than_its_disk_says_both_sizes_in_the_claims_event(
    cluster: Cluster, namespace: str, folder: Folder
) -> None:
    proc.run(["qemu-img", "create", "-q", "-f", "qcow2", folder.path / "big.qcow2", "68M"], timeout=30)
    cluster.create(DATA_VOLUME, datavolume(namespace, "big", http(folder.url("big.qcow2"))))

    wait_message(cluster, namespace, "big", "DataVolume too small to contain image")
    assert status_of(cluster, namespace, "big")["phase"] == "ImportInProgress"
    claim = cluster.get(PVC, "big", namespace) or {}
    room = claim["spec"]["resources"]["requests"]["storage"]
    size = f"virtual image size {68 * MIB} is larger than the reported available storage {room}"
    convert = "Unable to process data: Unable to convert source data to target format"
    events = cluster.events_of(namespace, "big")
    assert f"Warning ErrImportFailed: {convert}: {size}. A larger PVC is required" in events
    assert "Warning Error: DataVolume too small to contain image" in events


def test_an_image_that_the_claim_has_room_for_keeps_its_size(
    infra: EmbeddedProvider, cluster: Cluster, namespace: str, folder: Folder
) -> None:
    """A claim is larger than the disk that was asked for, for a file system: CDI compares images with the claim."""
    proc.run(["qemu-img", "create", "-q", "-f", "qcow2", folder.path / "fits.qcow2", "65M"], timeout=30)
    make(cluster, datavolume(namespace, "fits", http(folder.url("fits.qcow2"))))
    assert disk_of(infra, cluster, namespace, "fits").stat().st_size == 65 * MIB


def test_scratch_space_is_a_claim_of_its_own_that_goes_with_the_importer(
    cluster: Cluster, namespace: str, site: Site
) -> None:
    cluster.create(DATA_VOLUME, datavolume(namespace, "disk", http(site.url("slow.img"), site.checksum)))

    def claimed() -> Json | NotYet:
        return cluster.get(PVC, "disk-scratch", namespace) or NotYet("there is none")

    scratch = until(claimed, deadline=Deadline.after(FAILURE_SECONDS), what="the scratch claim", interval=0.1)
    wait_phase(cluster, namespace, "disk", "Succeeded")
    wait_gone(cluster, PVC, namespace, "disk-scratch")

    owner = scratch["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("Pod", "importer-disk")
    assert scratch["spec"]["resources"]["requests"]["storage"] == str(68 * MIB)


def test_an_image_with_a_backing_file_is_refused(cluster: Cluster, namespace: str, folder: Folder) -> None:
    command: proc.Argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-u", "-b", "/etc/passwd", "-F", "raw"]
    proc.run([*command, folder.path / "trap.qcow2", "8M"], timeout=30)
    cluster.create(DATA_VOLUME, datavolume(namespace, "trap", http(folder.url("trap.qcow2"))))

    wait_message(cluster, namespace, "trap", "invalid backing file /etc/passwd")


def test_nobody_at_the_address_is_told(cluster: Cluster, namespace: str) -> None:
    cluster.create(DATA_VOLUME, datavolume(namespace, "nobody", http("http://127.0.0.1:1/image")))
    refused = 'Get "http://127.0.0.1:1/image": dial tcp 127.0.0.1:1: connect: connection refused'
    wait_message(
        cluster, namespace, "nobody", f"Unable to connect to http data source: HTTP request errored: {refused}"
    )


def test_missing_credentials_are_told(cluster: Cluster, namespace: str, folder: Folder) -> None:
    source = http(folder.url("image"))
    source["http"]["secretRef"] = "nope"
    cluster.create(DATA_VOLUME, datavolume(namespace, "secret", source))
    wait_message(cluster, namespace, "secret", 'secret "nope" not found')


def test_a_source_that_is_not_done_here_says_so(cluster: Cluster, namespace: str) -> None:
    cluster.create(DATA_VOLUME, datavolume(namespace, "upload", {"upload": {}}))
    wait_phase(cluster, namespace, "upload", "Pending")

    def told() -> bool | NotYet:
        lines = cluster.events_of(namespace, "upload")
        return any("does not support the source 'upload'" in line for line in lines) or NotYet("; ".join(lines))

    until(told, deadline=Deadline.after(5), what="the event that uploads are not supported", interval=0.1)
    assert cluster.get(PVC, "upload", namespace) is None


def test_nothing_of_a_deleted_volume_stays(infra: EmbeddedProvider, cluster: Cluster, namespace: str) -> None:
    make(cluster, datavolume(namespace, "blank", {"blank": {}}))
    disk = disk_of(infra, cluster, namespace, "blank")
    assert disk.exists()

    remove(cluster, namespace, "blank")

    until(
        lambda: NotYet(f"{disk} is there") if disk.exists() else True,
        deadline=Deadline.after(10),
        what="the disk file to be gone",
        interval=0.05,
    )
