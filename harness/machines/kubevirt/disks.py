"""A DataVolume as it is seen once: whether it can come right, and what conditions and events say against it."""

from __future__ import annotations

from collections.abc import Mapping

from harness.errors import VmatrixError
from harness.kube.client import Cluster, Json, event_time
from harness.kube.resources import DATA_VOLUME, EVENT
from harness.machines.kubevirt.disk_trouble import OF_CELLS, event_failure
from harness.machines.kubevirt.failed_imports import condition, failed_import

# An import that cannot succeed restarts for ever (CDI never says Failed for a 404 or a bad certificate).
MOST_RESTARTS = 3
FOR_A_CONSUMER = frozenset({"WaitForFirstConsumer", "PendingPopulation"})


def hopeless(volume: Json) -> bool:
    """Tell whether an import has failed for good, or so often that nobody need wait for it."""
    status = volume.get("status") or {}
    if status.get("phase") == "Failed":
        return True
    restarts = int(status.get("restartCount") or 0)
    return restarts >= MOST_RESTARTS and condition(volume, "Running").get("status") != "True"


def failure_of(
    cluster: Cluster, what: str, volume: Json, *, detail: str = "", terms: Mapping[str, str] = OF_CELLS
) -> VmatrixError:
    """Return why an import has failed, in the importer's own words; `what` names the disk for a person."""
    restarts = int((volume.get("status") or {}).get("restartCount") or 0)
    times = f" ({restarts} restarts)" if restarts else ""
    namespace = str(volume["metadata"].get("namespace", ""))
    said = f"{what} cannot be imported{times}"
    return failed_import(cluster, said, volume, namespace=namespace, detail=detail, terms=terms)


def disk_trouble(
    cluster: Cluster, what: str, volume: Json, *, patient: bool, terms: Mapping[str, str] = OF_CELLS
) -> VmatrixError | None:
    """Return what the events of a disk, its claims and its importer tell against it, None when they tell nothing (yet).

    Args:
        patient: whether what may come right by itself still has time to.
    """
    namespace = str(volume["metadata"].get("namespace", ""))
    about = [event for event in cluster.list(EVENT, namespace).items if _is_about(event, volume)]
    about.sort(key=event_time)
    return event_failure(what, about, patient=patient, namespace=namespace, terms=terms)


def _is_about(event: Json, volume: Json) -> bool:
    """Tell whether an event is about a DataVolume, its claims, or its importer's or cloner's pod."""
    about, meta = event.get("involvedObject") or {}, volume["metadata"]
    name, own = str(about.get("name", "")), meta["name"]
    if about.get("kind") == DATA_VOLUME.kind:
        return name == own and about.get("uid") in (None, "", meta.get("uid"))
    return name in (own, f"importer-{own}", f"cdi-upload-{own}", f"{own}-scratch")
