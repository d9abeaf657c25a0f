"""Storage classes whose claims are bound by their first consumer."""

from __future__ import annotations

from harness.kube.client import Cluster
from harness.kube.resources import DATA_VOLUME, POD, STORAGE_PROFILE
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.contract.images import Site, content
from tests.contract.volumes import datavolume, http, make, wait_phase
from tests.embedded.cdi.classes import in_class, storage_class
from tests.embedded.cdi.disks import begins_with, disk_of
from tests.embedded.cdi.test_clones import user_of, wait_event

SECONDS = 20.0


def test_a_volume_waits_for_its_first_consumer_and_is_filled_when_one_comes(
    infra: EmbeddedProvider, cluster: Cluster, namespace: str, site: Site
) -> None:
    with storage_class(cluster, waits=True) as name:
        source = http(site.url("good.img"), site.checksum)
        cluster.create(DATA_VOLUME, in_class(datavolume(namespace, "disk", source), name))
        wait_phase(cluster, namespace, "disk", "WaitForFirstConsumer")
        assert [p["metadata"]["name"] for p in cluster.list(POD, namespace).items] == []

        cluster.create(POD, user_of(namespace, "disk"))
        # A user that stays would be in the importer's way, as on a real cluster.
        wait_event(cluster, namespace, "disk", "ImportTargetInUse")
        cluster.delete(POD, "user", namespace, grace=0)
        wait_phase(cluster, namespace, "disk", "Succeeded")
        assert begins_with(disk_of(infra, cluster, namespace, "disk"), content())


def test_a_volume_that_asks_to_be_bound_at_once_waits_for_nobody(
    infra: EmbeddedProvider, cluster: Cluster, namespace: str, site: Site
) -> None:
    with storage_class(cluster, waits=True) as name:
        source = http(site.url("good.img"), site.checksum)
        make(cluster, in_class(datavolume(namespace, "disk", source), name, immediate=True))
        assert begins_with(disk_of(infra, cluster, namespace, "disk"), content())


def test_a_class_has_a_profile_as_long_as_it_exists(cluster: Cluster) -> None:
    with storage_class(cluster, waits=False) as name:
        status = (cluster.get(STORAGE_PROFILE, name) or {})["status"]
        assert (status["storageClass"], status["cloneStrategy"]) == (name, "copy")
        assert status["claimPropertySets"] == [{"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}]

    until(
        lambda: NotYet("it exists") if cluster.get(STORAGE_PROFILE, name) else True,
        deadline=Deadline.after(SECONDS),
        what=f"the profile of storage class {name} to be gone",
        interval=0.1,
    )
