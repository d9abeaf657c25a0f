"""A cell's disks on storage classes of every kind: golden image, machine, and the wait for the disk, as a run does it.

The image holds nothing that boots: it is the disks that are looked at, no machine comes up.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.cell.golden import ensure_golden
from harness.cell.machines import create_machine, wait_for_disk
from harness.cell.manifests import CellPlan
from harness.cell.place import Place, cell_labels
from harness.cell.site import Site
from harness.embedded.vmi.launcher import CONSUMER
from harness.errors import BadImage
from harness.kube.client import Cluster
from harness.kube.resources import DATA_VOLUME, NAMESPACE, POD, PVC, VM
from harness.machines.kubevirt.disks import CloneStuck
from harness.machines.kubevirt.manifests import GoldenImage, Origin
from harness.model import PlannedMachine
from harness.paths import project_dir
from harness.providers.embedded import EmbeddedProvider
from harness.spec import load_spec
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, until
from tests.contract import images
from tests.contract.images import content
from tests.contract.volumes import wait_gone
from tests.embedded.cdi.classes import storage_class
from tests.embedded.cdi.disks import begins_with, disk_of
from tests.embedded.cdi.test_clones import user_of

MACHINE = PlannedMachine("m-0", ("node",), 1, 256, 1, "small")
SCALE = 3.0


@pytest.fixture
def place(cluster: Cluster) -> Iterator[Place]:
    """Return a namespace for a cell; its machines are gone when the test is over."""
    name = f"cell-{secrets.token_hex(3)}"
    cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield Place(name)
    for vm in cluster.list(VM, name).items:
        cluster.delete(VM, vm["metadata"]["name"], name)
        wait_gone(cluster, VM, name, vm["metadata"]["name"], seconds=60)
    cluster.delete(NAMESPACE, name)


def site_of(cluster: Cluster, infra: EmbeddedProvider, name: str, **seconds: float) -> Site:
    spec = load_spec(project_dir() / "matrix")
    timeouts = Timeouts(**{**dict(spec.timeouts.scaled(SCALE)), **seconds})
    return Site(
        cluster=cluster,
        spec=spec,
        timeouts=timeouts,
        mirror=infra.mirror(),
        guest_vars={},
        image=lambda _: pytest.fail("not asked for"),
        storage_class=name,
        project=project_dir(),
        expiry_hours=1,
    )


def image_at(site: images.Site) -> GoldenImage:
    return GoldenImage(f"small-{secrets.token_hex(3)}", site.url("good.img"), site.checksum, "64Mi", "debian")


def make(site: Site, place: Place, image: GoldenImage, origin: Origin) -> None:
    labels = cell_labels(run="disks1", cell=place.namespace, attempt=1, expires_at=time.time() + 3600, environment={})
    plan = CellPlan(
        place.namespace, labels, "ssh-ed25519 AAAA", "cluster.local", site.storage_class, expires_at=time.time() + 3600
    )
    create_machine(site, plan, MACHINE, image, origin)
    wait_for_disk(site, place, MACHINE)


@pytest.mark.parametrize("waits", [False, True], ids=["immediate", "first-consumer"])
def test_a_machine_s_disk_is_cloned_on_any_class(
    infra: EmbeddedProvider, cluster: Cluster, place: Place, site: images.Site, waits: bool
) -> None:
    with storage_class(cluster, waits=waits) as name:
        here, image = site_of(cluster, infra, name), image_at(site)
        origin = ensure_golden(here, image)
        assert origin.kind == "claim"
        make(here, place, image, origin)

        disk = disk_of(infra, cluster, place.namespace, "m-0")
        assert disk.stat().st_size == 1024**3
        assert begins_with(disk, content())
        wait_for_launcher(cluster, place.namespace)


def wait_for_launcher(cluster: Cluster, namespace: str) -> None:
    """Wait until the machine's launcher alone is there: who only had the disk bound is gone."""

    def alone() -> bool | NotYet:
        pods = cluster.list(POD, namespace, labels="kubevirt.io=virt-launcher").items
        passing = [p for p in pods if (p["metadata"].get("annotations") or {}).get(CONSUMER) == "true"]
        names = ", ".join(p["metadata"]["name"] for p in pods)
        return (len(pods) == 1 and not passing) or NotYet(names or "no launcher")

    until(alone, deadline=Deadline.after(60), what="the launcher to be alone", interval=0.2)


def test_a_golden_image_that_a_pod_holds_is_imported_instead(
    infra: EmbeddedProvider, cluster: Cluster, place: Place, site: images.Site
) -> None:
    with storage_class(cluster, waits=False) as name:
        here, image = site_of(cluster, infra, name, unschedulable=5.0), image_at(site)
        origin = ensure_golden(here, image)
        cluster.create(POD, user_of(here.images_namespace, image.name))
        try:
            with pytest.raises(CloneStuck) as stuck:
                make(here, place, image, origin)
            assert f"pod {here.images_namespace}/user using PersistentVolumeClaim {image.name}" in stuck.value.summary
            for resource in (VM, DATA_VOLUME):
                cluster.delete(resource, "m-0", place.namespace)
                wait_gone(cluster, resource, place.namespace, "m-0", seconds=60)
            wait_gone(cluster, PVC, place.namespace, "m-0")
            make(here, place, image, Origin("url"))
            assert begins_with(disk_of(infra, cluster, place.namespace, "m-0"), content())
        finally:
            cluster.delete(POD, "user", here.images_namespace, grace=0)


def test_a_wrong_checksum_is_the_user_s_and_the_next_import_has_another_name(
    infra: EmbeddedProvider, cluster: Cluster, site: images.Site
) -> None:
    with storage_class(cluster, waits=True) as name:
        here, image = site_of(cluster, infra, name), image_at(site)
        with pytest.raises(BadImage, match="checksum mismatch"):
            ensure_golden(here, replace(image, checksum="sha256:" + "0" * 64))
        assert ensure_golden(here, image).name == f"{image.name}-2"
