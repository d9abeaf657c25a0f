"""Clones: the bytes, the waiting for a source that somebody uses, and sources by reference."""

from __future__ import annotations

from harness.kube.client import Cluster, Json
from harness.kube.resources import DATA_SOURCE, DATA_VOLUME, POD, PVC, RESOURCE_QUOTA
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.contract.images import Site, content
from tests.contract.volumes import condition, copy_of, datavolume, http, make, status_of, wait_phase
from tests.embedded.cdi.disks import begins_with, disk_of

MIB = 1024**2
SECONDS = 10.0


def wait_event(cluster: Cluster, namespace: str, name: str, text: str) -> None:
    def told() -> bool | NotYet:
        lines = cluster.events_of(namespace, name)
        return any(text in line for line in lines) or NotYet("; ".join(lines))

    until(told, deadline=Deadline.after(SECONDS), what=f"an event about {name} with {text!r}", interval=0.1)


def user_of(namespace: str, claim: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "user", "namespace": namespace},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [{"name": "c", "image": "none", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }


def test_a_clone_has_the_source_s_bytes_and_its_own_size(
    infra: EmbeddedProvider, cluster: Cluster, namespace: str, site: Site
) -> None:
    make(cluster, datavolume(namespace, "source", http(site.url("good.img"), site.checksum)))
    make(cluster, datavolume(namespace, "clone", copy_of(namespace, "source"), size="128Mi"))

    disk = disk_of(infra, cluster, namespace, "clone")
    assert disk.stat().st_size == 128 * MIB
    assert begins_with(disk, content())


def test_a_clone_waits_while_a_pod_uses_its_source(cluster: Cluster, namespace: str) -> None:
    make(cluster, datavolume(namespace, "source", {"blank": {}}))
    cluster.create(POD, user_of(namespace, "source"))
    cluster.create(DATA_VOLUME, datavolume(namespace, "clone", copy_of(namespace, "source")))

    wait_event(
        cluster, namespace, "clone", f"CloneSourceInUse: pod {namespace}/user using PersistentVolumeClaim source"
    )
    wait_phase(cluster, namespace, "clone", "CloneScheduled")

    cluster.delete(POD, "user", namespace, grace=0)
    wait_phase(cluster, namespace, "clone", "Succeeded")


def test_a_clone_smaller_than_its_source_is_never_made(cluster: Cluster, namespace: str) -> None:
    make(cluster, datavolume(namespace, "source", {"blank": {}}))
    cluster.create(DATA_VOLUME, datavolume(namespace, "clone", copy_of(namespace, "source"), size="32Mi"))
    wait_event(
        cluster, namespace, "clone", "ErrIncompatiblePVC: target resources requests storage size is smaller than"
    )
    wait_phase(cluster, namespace, "clone", "CloneScheduled")  # another writer's than the event


def test_a_clone_into_a_literal_claim_that_is_smaller_is_refused_before_there_is_one(
    cluster: Cluster, namespace: str
) -> None:
    make(cluster, datavolume(namespace, "source", {"blank": {}}))
    body = datavolume(namespace, "clone", copy_of(namespace, "source"), size="32Mi")
    body["spec"]["pvc"] = body["spec"].pop("storage")
    cluster.create(DATA_VOLUME, body)
    wait_event(cluster, namespace, "clone", "CloneValidationFailed")
    assert cluster.get(PVC, "clone", namespace) is None


def test_a_source_reference_clones_what_its_data_source_names(cluster: Cluster, namespace: str) -> None:
    make(cluster, datavolume(namespace, "golden", {"blank": {}}))
    cluster.create(
        DATA_SOURCE,
        {
            "apiVersion": DATA_SOURCE.api_version,
            "kind": "DataSource",
            "metadata": {"name": "debian", "namespace": namespace},
            "spec": {"source": copy_of(namespace, "golden")},
        },
    )

    def ready() -> bool | NotYet:
        status = (cluster.get(DATA_SOURCE, "debian", namespace) or {}).get("status") or {}
        return condition(status, "Ready")["status"] == "True" if "conditions" in status else NotYet("no conditions")

    until(ready, deadline=Deadline.after(SECONDS), what="the DataSource to be ready", interval=0.1)
    body = datavolume(namespace, "machine", {})
    del body["spec"]["source"]
    body["spec"]["sourceRef"] = {"kind": "DataSource", "name": "debian", "namespace": namespace}
    make(cluster, body)


def test_a_full_quota_is_told_and_waited_for(cluster: Cluster, namespace: str) -> None:
    quota = {"metadata": {"name": "none", "namespace": namespace}, "spec": {"hard": {"persistentvolumeclaims": "0"}}}
    cluster.create(RESOURCE_QUOTA, {"apiVersion": "v1", "kind": "ResourceQuota", **quota})

    def counted() -> bool | NotYet:
        found = cluster.get(RESOURCE_QUOTA, "none", namespace) or {}
        return bool((found.get("status") or {}).get("hard")) or NotYet("the quota is not in force")

    until(counted, deadline=Deadline.after(SECONDS), what="the quota to be in force", interval=0.1)
    cluster.create(DATA_VOLUME, datavolume(namespace, "blank", {"blank": {}}))
    wait_event(cluster, namespace, "blank", "ErrExceededQuota")
    assert condition(status_of(cluster, namespace, "blank"), "Bound")["reason"] == "ErrExceededQuota"

    cluster.delete(RESOURCE_QUOTA, "none", namespace)
    wait_phase(cluster, namespace, "blank", "Succeeded")
