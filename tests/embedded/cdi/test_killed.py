"""The process that imports is killed: what was under way starts again, what was left over is swept."""

from __future__ import annotations

import os
import signal

from harness import proc
from harness.kube.client import Cluster
from harness.kube.resources import DATA_VOLUME
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.contract.images import Site, content
from tests.contract.volumes import datavolume, http, make, remove, status_of, wait_phase
from tests.embedded.cdi.disks import begins_with, disk_of, leftovers

STALLED_SECONDS = 15.0


def kill_kubevirt(infra: EmbeddedProvider) -> None:
    service = proc.Service.load(infra.layout.pidfile("kubevirt"))
    assert service is not None
    os.killpg(service.pid, signal.SIGKILL)
    until(
        lambda: NotYet("alive") if service.alive() else True,
        deadline=Deadline.after(5),
        what="the killed process to be gone",
        interval=0.02,
    )


def wait_under_way(cluster: Cluster, namespace: str, name: str) -> None:
    def moved() -> bool | NotYet:
        progress = str(status_of(cluster, namespace, name).get("progress", ""))
        return progress not in {"", "N/A", "0.00%"} or NotYet(f"progress {progress!r}")

    until(moved, deadline=Deadline.after(STALLED_SECONDS), what=f"the import of {name} to begin", interval=0.1)


def test_an_import_starts_again_and_stale_files_are_swept(
    infra: EmbeddedProvider, cluster: Cluster, namespace: str, site: Site
) -> None:
    make(cluster, datavolume(namespace, "kept", {"blank": {}}))
    cluster.create(DATA_VOLUME, datavolume(namespace, "stalled", http(site.url("stalled.img"), site.checksum)))
    wait_under_way(cluster, namespace, "stalled")
    kill_kubevirt(infra)
    orphan = infra.layout.disks / "pvc-of-nobody.raw"
    orphan.write_bytes(b"orphan")
    abandoned = leftovers(infra)
    assert abandoned

    site.release.set()
    infra.up()

    status = wait_phase(cluster, namespace, "stalled", "Succeeded")
    assert status["restartCount"] == 1
    assert begins_with(disk_of(infra, cluster, namespace, "stalled"), content())
    assert disk_of(infra, cluster, namespace, "kept").exists()
    assert not orphan.exists()
    assert not set(abandoned) & set(leftovers(infra))


def test_a_volume_deleted_while_nobody_looked_is_taken_away(
    infra: EmbeddedProvider, cluster: Cluster, namespace: str, site: Site
) -> None:
    cluster.create(DATA_VOLUME, datavolume(namespace, "stalled", http(site.url("stalled.img"))))
    wait_under_way(cluster, namespace, "stalled")
    disk = disk_of(infra, cluster, namespace, "stalled")
    kill_kubevirt(infra)
    cluster.delete(DATA_VOLUME, "stalled", namespace)

    infra.up()

    until(
        lambda: NotYet(f"{disk} is there") if disk.exists() else True,
        deadline=Deadline.after(STALLED_SECONDS),
        what="the disk of the deleted volume to be gone",
        interval=0.1,
    )


def test_a_volume_deleted_in_mid_import_leaves_nothing(
    infra: EmbeddedProvider, cluster: Cluster, namespace: str, site: Site
) -> None:
    cluster.create(DATA_VOLUME, datavolume(namespace, "stalled", http(site.url("stalled.img"))))
    wait_under_way(cluster, namespace, "stalled")
    disk = disk_of(infra, cluster, namespace, "stalled")

    remove(cluster, namespace, "stalled")

    until(
        lambda: NotYet("files are there") if disk.exists() or leftovers(infra) else True,
        deadline=Deadline.after(STALLED_SECONDS),
        what="disk and scratch to be gone",
        interval=0.1,
    )
