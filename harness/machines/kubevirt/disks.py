"""Disks of machines: whether a DataVolume can still come right, why an import failed, whose fault it is.

The messages are CDI's importer's (pkg/importer), its controllers' and the kubelet's; what nobody knows is the infra's.

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from harness.errors import BadImage, InfraError, InfraRetriable, VmatrixError
from harness.kube.client import ApiFailure, Cluster, Json, event_time
from harness.kube.objects import quantity
from harness.kube.resources import DATA_VOLUME, EVENT, POD
from harness.machines.kubevirt.launchers import died_of

Raise = Callable[..., VmatrixError]
TOO_SMALL = "DataVolume too small to contain image"  # CDI's word for several troubles: see failed_imports
# How hints name what is to be changed, in the words of who made the disk.
OF_CELLS = {
    "images": "matrix/images.yml",
    "size": "its size_gib in matrix/images.yml",
    "source": "in matrix/images.yml; of an image that is built here, mirror_http or image_url",
    "secrets": "in the namespace of the golden images",
}
SIZES = re.compile(r"virtual image size (\d+) is larger than the reported available storage (\d+)")


class CloneStuck(InfraRetriable):
    """A clone does not come on although its source is there; an import of the same image may."""


@dataclass(frozen=True)
class Kind:
    """One kind of trouble: how it is told by a message, the error that it is, and the hint."""

    tells: str
    error: Raise
    hint: str


# What an importer's own message is about; the first that fits.
IMPORTS = (
    Kind(
        r"checksum",
        BadImage,
        "what its URL serves is not what `checksum` says: compare both in {images}; the maker may have "
        "replaced the image, or a mirror may be stale",
    ),
    Kind(
        r"larger than .*(available|storage|size)|larger PVC is required",
        BadImage,
        "the image's virtual disk is larger than the disk that is made of it: raise {size}",
    ),
    Kind(
        r"\b(got|status)\D{0,12}(40[0134]|410)\b"
        r"|\b(400 Bad Request|401 Unauthorized|403 Forbidden|404 Not Found|410 Gone)",
        BadImage,
        "check the image's url {source}",
    ),
    Kind(
        r"backing file|invalid format|unknown format|not a qcow2|image validation|could not open.*image",
        BadImage,
        "its URL serves no disk image that can be imported (qcow2 or raw, without a backing file)",
    ),
    Kind(
        r"(secret|configmap)s? \S+ not found|references non-existent (secret|config)",
        BadImage,
        "{images} names it: create it {secrets}",
    ),
    Kind(
        r"no space left|not enough (free )?space",
        InfraRetriable,
        "the storage behind the class is full: free some, or set storage_class to another; of a packed image (gz, xz) "
        "CDI says the same when it is larger than {size}",
    ),
    Kind(
        r"disk quota exceeded",
        InfraRetriable,
        "the storage behind the class has a quota of its own, which is used up: free some of it, ask for more, or set "
        "storage_class to another",
    ),
    Kind(
        re.escape(TOO_SMALL),
        InfraError,
        "CDI says so of an image that is larger than its disk (raise {size}), of full storage "
        "and of a used-up quota of the storage (free some), and the importer's own words are gone: repeat the run, and "
        "look for ErrImportFailed in: kubectl get events -n {namespace}",
    ),
    Kind(
        r"insufficient|unschedulable|cannot be scheduled|exceeded quota",
        InfraRetriable,
        "no room for the importer: see `kubectl describe quota,pods` there, or wait for others to end",
    ),
    Kind(
        r"x509|certificate|tls:",
        InfraError,
        "importers do not trust the server: name a ConfigMap with its CA as `certificates` in {images}",
    ),
    Kind(
        r"refused|reset by peer|timed?[- ]?out|no such host|server misbehaving|no route|unreachable|unexpected EOF"
        r"|i/o error|input/output|nbdkit|\b(got|status)\D{0,12}5\d\d\b|\b50[0234] |killed|exit code 137",
        InfraRetriable,
        "importers cannot reach the image's server, or lost it: try its URL from a pod of the infra cluster",
    ),
)
OTHER_IMPORT = Kind(
    "",
    InfraError,
    "the importer's log says more, while it lasts: kubectl logs -n {namespace} -l cdi.kubevirt.io=importer",
)

# Reasons of events that keep a claim from being made, or a disk from being filled.
CLAIM_PATCH = """kubectl patch storageprofile CLASS --type merge -p \
'{"spec":{"claimPropertySets":[{"accessModes":["ReadWriteOnce"],"volumeMode":"Filesystem"}]}}', \
or set storage_class to another"""
SMALLER = "storage size is smaller than the source"  # of a clone whose claim is there: ErrIncompatiblePVC (CDI v1.66.0)
SMALLER_HINT = "the machine's disk is smaller than its image: raise disk_gib in matrix/topologies.yml"
FATAL_EVENTS: dict[str, tuple[Raise, str]] = {
    "ErrClaimNotValid": (InfraError, f"CDI knows too little of the storage class: {CLAIM_PATCH}"),
    "ErrIncompatiblePVC": (InfraError, "the storage class cannot make such a claim: set storage_class to another"),
    "IncompatibleVolumeModes": (InfraError, "the golden image lies in a class of another volume mode: name one class"),
    "ErrResourceExists": (InfraError, "a claim of this name was there before: repeat the run, it gets other names"),
    "CloneValidationFailed": (BadImage, SMALLER_HINT),
}
# A controller that changed a claim at the same time as another says so and does it again (seen as ProvisioningFailed).
CONFLICT = "the object has been modified; please apply your changes to the latest version"
PATIENT_EVENTS: dict[str, tuple[Raise, str]] = {
    "ErrExceededQuota": (
        InfraRetriable,
        "the namespace's quota is used up, by claims or by importers: kubectl describe quota there; each disk takes up "
        "to three claims and an importer's pod while it is made",
    ),
    "CloneSourceInUse": (CloneStuck, "a pod holds the golden image; the next attempt imports it instead"),
    "CloneWithoutSource": (CloneStuck, "the golden image is gone; the next attempt imports it instead"),
    "NoVolumeSnapshotClass": (CloneStuck, "the class cannot make snapshots; the next attempt imports instead"),
    "ProvisioningFailed": (InfraRetriable, "the storage class cannot make a volume: its provisioner's log says more"),
    "FailedMount": (InfraRetriable, "the importer's pod cannot start: its events say more"),
    "FailedCreatePodSandBox": (InfraRetriable, "the importer's pod cannot start: its events say more"),
}


def import_failure(
    what: str,
    message: str,
    *,
    namespace: str,
    detail: str = "",
    asked: int = 0,
    terms: Mapping[str, str] = OF_CELLS,
) -> VmatrixError:
    """Return the error of an import that cannot succeed any more.

    Args:
        what: what failed, as the beginning of a sentence.
        message: the importer's own.
        asked: how large a disk was asked for, in bytes.
        terms: how hints name what is to be changed.
    """
    sizes = SIZES.search(message)
    if sizes is not None and int(sizes[1]) <= asked:
        room = f"the image fits the disk of {asked} bytes that was asked for, and the storage has no room for that disk"
        return InfraRetriable(
            f"{what}: {message}", hint=f"{room}: free some, or set storage_class to another", detail=detail
        )
    found = next((kind for kind in IMPORTS if re.search(kind.tells, message, re.IGNORECASE)), OTHER_IMPORT)
    return found.error(f"{what}: {message}", hint=found.hint.format(namespace=namespace, **terms), detail=detail)


def event_failure(
    what: str, events: Iterable[Json], *, patient: bool, namespace: str, terms: Mapping[str, str] = OF_CELLS
) -> VmatrixError | None:
    """Return the error that events tell, None when they tell none (yet).

    Args:
        events: about the disk, its claims and its importer, oldest first.
        patient: whether what may come right by itself still has time to.
    """
    newest = list(events)[::-1]
    for event in newest:
        reason, message = str(event.get("reason", "")), str(event.get("message", ""))
        kinds = FATAL_EVENTS if patient else {**FATAL_EVENTS, **PATIENT_EVENTS}
        if reason not in kinds or CONFLICT in message:
            continue
        if reason.startswith("Failed") and re.search(r"(secret|configmap) \S+ not found", message, re.IGNORECASE):
            return import_failure(what, message, namespace=namespace, terms=terms)
        error, hint = (BadImage, SMALLER_HINT) if SMALLER in message else kinds[reason]
        return error(f"{what}: {reason}: {message}", hint=hint)
    return None


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
