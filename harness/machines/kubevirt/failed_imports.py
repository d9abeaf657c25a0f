"""Why an import failed: in the importer's own words, which CDI keeps in fewer places than its conditions.

An importer that fails exits with another code than 0 and a termination message. CDI v1.66.0 tells it in these places
(pkg/controller: `updatePvcFromPod`, `setAnnotationsFromPodWithPrefix`, `emitFailureConditionEvent`):

- the pod: `state.terminated.message`, later `lastState.terminated.message`: all of it.
- the claim's event ErrImportFailed (Warning): all of it. Where a populator fills the claim (CSI classes), the event is
  about the claim `prime-UID`, and a copy that begins with `[prime-UID] : ` about the DataVolume's own.
- the claim's annotation `storage.condition.running.message`, the DataVolume's condition Running (False, reason Error)
  and its event (Warning, reason Error): all of it, unless `simplifyKnownMessage` knows it.

That replaces four messages by one, `DataVolume too small to contain image`:

- the image is larger than its disk, told when it has been downloaded: `virtual image size N is larger than the
  reported available storage M. A larger PVC is required`. M is what the file system has free, at most the claim's size.
- storage is full: `unable to write to file: write /scratch/tmpimage: no space left on device`.
- a quota of the storage is used up: the same with `disk quota exceeded`.
- `file largest block is bigger than maxblock`, of a filter that no importer uses any more.

It compares case by case: qemu-img's `No space left on device`, during the conversion, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from harness.errors import VmatrixError
from harness.infra.cluster.capacity import quantity
from harness.kube.client import ApiFailure, Cluster, Json, event_time
from harness.kube.resources import EVENT, POD
from harness.machines.kubevirt.disk_trouble import OF_CELLS, TOO_SMALL, import_failure
from harness.machines.kubevirt.launchers import died_of

FAILED = "ErrImportFailed"
REPLACED = re.compile(
    r"is larger than the reported available|no space left on device|disk quota exceeded"
    r"|file largest block is bigger than maxblock"
)
COPIED = re.compile(r"^\[prime-[^]]+\] : ")


def failed_import(
    cluster: Cluster,
    what: str,
    volume: Json,
    *,
    namespace: str,
    detail: str = "",
    terms: Mapping[str, str] = OF_CELLS,
) -> VmatrixError:
    """Return the error of a DataVolume whose import cannot succeed any more.

    Args:
        what: what failed, as the beginning of a sentence.
        volume: the DataVolume; empty for one that is gone.
    """
    message = said(cluster, volume, namespace)
    return import_failure(what, message, namespace=namespace, detail=detail, asked=asked_bytes(volume), terms=terms)


def said(cluster: Cluster, volume: Json, namespace: str) -> str:
    """Return what the importer says itself; CDI's words for it where nobody has the importer's any more."""
    running = condition(volume, "Running")
    message = str(running.get("message") or running.get("reason") or "no reason given")
    if message != TOO_SMALL:
        return message
    own = (text for text in _own_words(cluster, namespace, volume["metadata"]["name"]) if REPLACED.search(text))
    return next(own, message)


def condition(volume: Json, kind: str) -> Json:
    """Return one of a DataVolume's conditions, empty when it has none of that kind."""
    conditions = (volume.get("status") or {}).get("conditions") or []
    found: Json = next((c for c in conditions if c["type"] == kind), {})
    return found


def asked_bytes(volume: Json) -> int:
    """Return how large a disk a DataVolume asks for, 0 when it does not say."""
    spec = volume.get("spec") or {}
    wanted = spec.get("storage") or spec.get("pvc") or {}
    requests = (wanted.get("resources") or {}).get("requests") or {}
    return int(quantity(str(requests.get("storage", "0"))))


def _own_words(cluster: Cluster, namespace: str, name: str) -> Iterator[str]:
    """Yield what a claim's events and then its importer's pod say of failures, the newest first."""
    try:
        told = [e for e in cluster.list(EVENT, namespace).items if e.get("reason") == FAILED and _claim(e) == name]
        yield from (COPIED.sub("", str(e.get("message", ""))) for e in sorted(told, key=event_time, reverse=True))
        pods = cluster.list(POD, namespace, labels="cdi.kubevirt.io=importer").items
        yield from (died_of(pod) for pod in pods if pod["metadata"]["name"] == f"importer-{name}")
    except ApiFailure:  # they may not be looked at
        return


def _claim(event: Json) -> str:
    """Return the name of the claim that an event is about, "" when it is about something else."""
    about = event.get("involvedObject") or {}
    return str(about.get("name", "")) if about.get("kind") == "PersistentVolumeClaim" else ""
