"""DataVolumes of the contract tests: how they are made, waited for and taken away."""

from __future__ import annotations

from typing import Any, Protocol

from harness.kube.client import Cluster
from harness.kube.resources import DATA_VOLUME, PVC, Resource
from harness.until import NotYet, until
from tests.contract.limits import within
from tests.contract.storage import Storage
from tests.contract.transitions import BOUND_AT_ONCE, Json, WatchEvent

IMPORT_SECONDS = 45.0  # an importer's pod is made twice
GONE_SECONDS = 20.0
INTERVAL = 0.1


class Disk(Protocol):
    """Describes DataVolumes in some class."""

    def __call__(self, namespace: str, name: str, source: Json, *, size: str | None = ...) -> Json:
        """Return a DataVolume."""


def datavolume(
    namespace: str, name: str, source: Json, *, size: str | None = "64Mi", storage: Storage | None = None
) -> Json:
    """Return a DataVolume; one in a class that waits for consumers asks to be bound at once.

    Args:
        storage: its storage class; the cluster's default one, and no such request, without it.
    """
    wanted: Json = {"accessModes": ["ReadWriteOnce"]}
    meta: Json = {"name": name, "namespace": namespace}
    if size is not None:
        wanted["resources"] = {"requests": {"storage": size}}
    if storage is not None:
        wanted["storageClassName"] = storage.name
    if storage is not None and storage.waits:
        meta["annotations"] = {BOUND_AT_ONCE: "true"}
    return {
        "apiVersion": DATA_VOLUME.api_version,
        "kind": "DataVolume",
        "metadata": meta,
        "spec": {"source": source, "storage": wanted},
    }


def http(url: str, checksum: str = "") -> Json:
    """Return the source of an import."""
    return {"http": {"url": url, **({"checksum": checksum} if checksum else {})}}


def copy_of(namespace: str, name: str) -> Json:
    """Return the source of a clone."""
    return {"pvc": {"namespace": namespace, "name": name}}


def status_of(cluster: Cluster, namespace: str, name: str) -> Json:
    """Return a DataVolume's status, empty when it has none."""
    found = cluster.get(DATA_VOLUME, name, namespace)
    assert found is not None, f"DataVolume {namespace}/{name} to be gone"
    status: Json = found.get("status") or {}
    return status


def wait_phase(cluster: Cluster, namespace: str, name: str, phase: str, *, seconds: float = IMPORT_SECONDS) -> Json:
    """Wait until a DataVolume is in a phase; fail at once when it failed instead."""

    def probe() -> Json | NotYet:
        status = status_of(cluster, namespace, name)
        seen = status.get("phase", "")
        assert seen == phase or seen != "Failed", status
        return status if seen == phase else NotYet(f"{seen or 'no phase'} {status.get('progress', '')}")

    return until(
        probe,
        deadline=within(seconds),
        what=f"DataVolume {namespace}/{name} to be {phase}",
        describe=lambda: "\n".join(cluster.events_of(namespace, name)),
        interval=INTERVAL,
    )


def make(cluster: Cluster, body: Json, *, seconds: float = IMPORT_SECONDS) -> Json:
    """Create a DataVolume and wait until it has succeeded; return its status."""
    meta = cluster.create(DATA_VOLUME, body)["metadata"]
    return wait_phase(cluster, meta["namespace"], meta["name"], "Succeeded", seconds=seconds)


def wait_gone(
    cluster: Cluster, resource: Resource, namespace: str, name: str, *, seconds: float = GONE_SECONDS
) -> None:
    """Wait until an object is gone."""

    def probe() -> bool | NotYet:
        found = cluster.list(resource, namespace, fields=f"metadata.name={name}").items
        return NotYet(f"finalizers {found[0]['metadata'].get('finalizers', [])}") if found else True

    until(
        probe,
        deadline=within(seconds),
        what=f"{resource.kind} {namespace}/{name} to be gone",
        describe=lambda: "\n".join(cluster.events_of(namespace, name)),
        interval=INTERVAL,
    )


def remove(cluster: Cluster, namespace: str, name: str) -> None:
    """Delete a DataVolume and wait until it and its claim are gone."""
    assert cluster.delete(DATA_VOLUME, name, namespace)
    for resource in (DATA_VOLUME, PVC):
        wait_gone(cluster, resource, namespace, name)


def condition(status: Json, kind: str) -> Json:
    """Return one condition of a status."""
    found: dict[str, Any] = next(c for c in status["conditions"] if c["type"] == kind)
    return found


def seen_values(stream: list[WatchEvent], field: str) -> list[str]:
    """Return the values that a status field took, repetitions left out."""
    values: list[str] = []
    for _, obj in stream:
        value = (obj.get("status") or {}).get(field)
        if value is not None and (not values or values[-1] != value):
            values.append(value)
    return values
