"""Storage classes as clusters have them: bound at once or by the first consumer, filled directly or by populators."""

from __future__ import annotations

import pytest

from harness.embedded.cdi.classes import CSI, PLAIN
from harness.infra.embedded.provider import LocalProvider
from harness.kube.client import Cluster, Json
from harness.kube.resources import DATA_SOURCE, DATA_VOLUME, POD, PVC, STORAGE_PROFILE, VOLUME_SNAPSHOT
from harness.until import Deadline, NotYet, until
from tests.contract.images import Site, content
from tests.contract.volumes import condition, copy_of, datavolume, http, make, seen_values, status_of, wait_phase
from tests.embedded.cdi.classes import in_class, storage_class
from tests.embedded.cdi.disks import begins_with, disk_of
from tests.embedded.cdi.test_clones import user_of, wait_event

FLOWS = pytest.mark.parametrize(
    ("provisioner", "waiting"),
    [(PLAIN, "WaitForFirstConsumer"), (CSI, "PendingPopulation")],
    ids=["legacy", "populators"],
)
SECONDS = 20.0


def wait_gone(cluster: Cluster, namespace: str, prefix: str) -> None:
    def gone() -> bool | NotYet:
        left = [c["metadata"]["name"] for c in cluster.list(PVC, namespace).items]
        return NotYet(", ".join(left)) if any(name.startswith(prefix) for name in left) else True

    until(gone, deadline=Deadline.after(SECONDS), what=f"no claim {prefix}* is left", interval=0.1)


@FLOWS
def test_a_volume_waits_for_its_first_consumer_and_is_filled_when_one_comes(
    infra: LocalProvider, cluster: Cluster, namespace: str, site: Site, provisioner: str, waiting: str
) -> None:
    with storage_class(cluster, provisioner, waits=True) as name:
        source = http(site.url("good.img"), site.checksum)
        cluster.create(DATA_VOLUME, in_class(datavolume(namespace, "disk", source), name))
        wait_phase(cluster, namespace, "disk", waiting)
        assert [p["metadata"]["name"] for p in cluster.list(POD, namespace).items] == []

        cluster.create(POD, {**user_of(namespace, "disk")})
        if provisioner == PLAIN:  # a user that stays would be in the importer's way, as on a real cluster
            wait_event(cluster, namespace, "disk", "ImportTargetInUse")
            cluster.delete(POD, "user", namespace, grace=0)
        wait_phase(cluster, namespace, "disk", "Succeeded")
        assert begins_with(disk_of(infra, cluster, namespace, "disk"), content())
        cluster.delete(POD, "user", namespace, grace=0)


@FLOWS
def test_a_volume_that_asks_to_be_bound_at_once_waits_for_nobody(
    infra: LocalProvider, cluster: Cluster, namespace: str, site: Site, provisioner: str, waiting: str
) -> None:
    with storage_class(cluster, provisioner, waits=True) as name:
        source = http(site.url("good.img"), site.checksum)
        make(cluster, in_class(datavolume(namespace, "disk", source), name, immediate=True))
        assert begins_with(disk_of(infra, cluster, namespace, "disk"), content())
        wait_gone(cluster, namespace, "prime-")


def test_an_import_by_a_populator_works_in_a_second_claim_and_leaves_none(
    infra: LocalProvider, cluster: Cluster, namespace: str, site: Site
) -> None:
    with storage_class(cluster, CSI, waits=False) as name:
        version = cluster.list(DATA_VOLUME, namespace).resource_version
        slow = http(site.url("slow.img"), site.checksum)
        made = cluster.create(DATA_VOLUME, in_class(datavolume(namespace, "disk", slow), name))
        wait_phase(cluster, namespace, "disk", "ImportInProgress")
        claim = cluster.get(PVC, "disk", namespace) or {}
        prime = cluster.get(PVC, f"prime-{claim['metadata']['uid']}", namespace) or {}
        assert (claim["status"]["phase"], prime["status"]["phase"]) == ("Pending", "Bound")
        assert claim["spec"]["dataSourceRef"]["kind"] == "VolumeImportSource"
        wait_phase(cluster, namespace, "disk", "Succeeded")

        stream: list[tuple[str, Json]] = []
        for change, seen in cluster.watch(DATA_VOLUME, namespace, resource_version=version, seconds=2):
            stream.append((change, seen))
        phases = seen_values(stream, "phase")
        assert phases == ["Pending", "ImportScheduled", "ImportInProgress", "Succeeded"]
        assert len(seen_values(stream, "progress")) > 3
        found = cluster.get(DATA_VOLUME, "disk", namespace) or {}
        assert found["metadata"]["uid"] == made["metadata"]["uid"]
        assert found["metadata"]["annotations"]["cdi.kubevirt.io/storage.usePopulator"] == "true"
        assert begins_with(disk_of(infra, cluster, namespace, "disk"), content())
        wait_gone(cluster, namespace, "prime-")


def test_a_failing_import_by_a_populator_is_told_in_the_importer_s_words(
    cluster: Cluster, namespace: str, site: Site
) -> None:
    with storage_class(cluster, CSI, waits=False) as name:
        wrong = http(site.url("good.img"), "sha256:" + "0" * 64)
        cluster.create(DATA_VOLUME, in_class(datavolume(namespace, "disk", wrong), name))

        def failed() -> bool | NotYet:
            status = status_of(cluster, namespace, "disk")
            return status.get("phase") == "Failed" or NotYet(str(status.get("phase")))

        until(failed, deadline=Deadline.after(SECONDS), what="the import has failed", interval=0.1)
        running = condition(status_of(cluster, namespace, "disk"), "Running")
        assert "checksum" in running["message"].lower()


@pytest.mark.parametrize(
    ("strategy", "phase"),
    [
        ("copy", "CloneInProgress"),
        ("csi-clone", "CSICloneInProgress"),
        ("snapshot", "SnapshotForSmartCloneInProgress"),
    ],
)
def test_a_clone_is_made_as_the_class_can(
    infra: LocalProvider, cluster: Cluster, namespace: str, site: Site, strategy: str, phase: str
) -> None:
    with storage_class(cluster, CSI, waits=False, snapshots=strategy == "snapshot", strategy=strategy) as name:
        assert (cluster.get(STORAGE_PROFILE, name) or {})["status"]["cloneStrategy"] == strategy
        source = http(site.url("good.img"), site.checksum)
        make(cluster, in_class(datavolume(namespace, "golden", source), name))
        version = cluster.list(DATA_VOLUME, namespace).resource_version
        make(cluster, in_class(datavolume(namespace, "clone", copy_of(namespace, "golden"), size="128Mi"), name))

        stream = list(cluster.watch(DATA_VOLUME, namespace, resource_version=version, seconds=2))
        assert phase in seen_values([e for e in stream if e[1]["metadata"]["name"] == "clone"], "phase")
        disk = disk_of(infra, cluster, namespace, "clone")
        assert disk.stat().st_size == 128 * 1024**2
        assert begins_with(disk, content())
        wait_gone(cluster, namespace, "prime-")
        assert cluster.list(VOLUME_SNAPSHOT, namespace).items == []


def test_a_snapshot_outlives_its_claim_and_is_cloned_by_a_data_source(
    infra: LocalProvider, cluster: Cluster, namespace: str, site: Site
) -> None:
    with storage_class(cluster, CSI, waits=False, snapshots=True) as name:
        make(cluster, in_class(datavolume(namespace, "golden", http(site.url("good.img"), site.checksum)), name))
        meta = {"name": "golden", "namespace": namespace}
        cluster.create(
            VOLUME_SNAPSHOT,
            {
                "apiVersion": VOLUME_SNAPSHOT.api_version,
                "kind": VOLUME_SNAPSHOT.kind,
                "metadata": meta,
                "spec": {"volumeSnapshotClassName": name, "source": {"persistentVolumeClaimName": "golden"}},
            },
        )
        until(
            lambda: (
                ((cluster.get(VOLUME_SNAPSHOT, "golden", namespace) or {}).get("status") or {}).get("readyToUse")
                or NotYet("not ready")
            ),
            deadline=Deadline.after(SECONDS),
            what="the snapshot is ready",
            interval=0.1,
        )
        files = infra.layout.root / "snapshots"
        assert len(list(files.glob("*.raw"))) == 1
        cluster.delete(DATA_VOLUME, "golden", namespace)
        cluster.create(
            DATA_SOURCE,
            {
                "apiVersion": DATA_SOURCE.api_version,
                "kind": DATA_SOURCE.kind,
                "metadata": meta,
                "spec": {"source": {"snapshot": meta}},
            },
        )
        body = in_class(datavolume(namespace, "clone", {}), name)
        del body["spec"]["source"]
        body["spec"]["sourceRef"] = {"kind": "DataSource", **meta}
        make(cluster, body)
        assert begins_with(disk_of(infra, cluster, namespace, "clone"), content())

        cluster.delete(VOLUME_SNAPSHOT, "golden", namespace)
        until(
            lambda: NotYet("there") if list(files.glob("*.raw")) else True,
            deadline=Deadline.after(SECONDS),
            what="the snapshot's file is gone",
            interval=0.1,
        )


def test_a_class_that_cdi_does_not_know_needs_access_modes(cluster: Cluster, namespace: str) -> None:
    with storage_class(cluster, PLAIN, waits=False, profile="unknown") as name:
        body = in_class(datavolume(namespace, "disk", {"blank": {}}), name)
        del body["spec"]["storage"]["accessModes"]
        cluster.create(DATA_VOLUME, body)
        wait_event(cluster, namespace, "disk", "ErrClaimNotValid")
        patch = {"spec": {"claimPropertySets": [{"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}]}}
        cluster.merge(STORAGE_PROFILE, name, patch)
        wait_phase(cluster, namespace, "disk", "Succeeded")
