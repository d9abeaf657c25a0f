"""PersistentVolumeClaims of DataVolumes: their spec, annotations and size.

CDI adds room for a file system to a claim, and takes it off again for the disk. The embedded volumes hold the
disk's bytes directly, without a file system; the arithmetic is kept all the same, so that a guest sees a disk of
exactly the size that it would see on a real KubeVirt.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from harness.embedded.operands import FILESYSTEM_OVERHEAD
from harness.kube.client import Json
from harness.kube.informer import Key
from harness.kube.objects import dig, owner_reference, quantity
from harness.kube.resources import DATA_VOLUME

GROUP = "cdi.kubevirt.io"
IMMEDIATE = f"{GROUP}/storage.bind.immediate.requested"
USE_POPULATOR = f"{GROUP}/storage.usePopulator"
PERMISSIVE_CLONE = f"{GROUP}/permissiveClone"
CREATED_FOR = f"{GROUP}/createdForDataVolume"
CONTENT_TYPE = f"{GROUP}/storage.contentType"
PREALLOCATION = f"{GROUP}/storage.preallocation.requested"
POD_PHASE = f"{GROUP}/storage.pod.phase"
POD_RESTARTS = f"{GROUP}/storage.pod.restarts"
POD_READY = f"{GROUP}/storage.pod.ready"
POD_SCHEDULABLE = f"{GROUP}/storage.pod.schedulable"
RUNNING = f"{GROUP}/storage.condition.running"
RUNNING_MESSAGE = f"{RUNNING}.message"
RUNNING_REASON = f"{RUNNING}.reason"
SOURCE = f"{GROUP}/storage.import.source"
ENDPOINT = f"{GROUP}/storage.import.endpoint"
CHECKSUM = f"{GROUP}/storage.import.checksum"
SECRET = f"{GROUP}/storage.import.secretName"
CERT_CONFIG_MAP = f"{GROUP}/storage.import.certConfigMap"
IMPORT_POD = f"{GROUP}/storage.import.importPodName"
FATAL = f"{GROUP}/storage.import.fatalError"
REQUIRES_SCRATCH = f"{GROUP}/storage.import.requiresScratch"
CLONE_REQUEST = "k8s.io/CloneRequest"
CLONE_TYPE = f"{GROUP}/cloneType"
UPLOAD_POD = f"{GROUP}/storage.uploadPodName"
APP = {"app": "containerized-data-importer"}
IMPORTER = "importer"
CLONE_TARGET = "cdi-upload-server"
ROLE = GROUP  # label key that tells an importer pod from a clone's target pod
CHECKSUM_ERROR = "ChecksumError"
RECOMMENDED_LABELS = {
    "app.kubernetes.io/component": "storage",
    "app.kubernetes.io/managed-by": "cdi-controller",
    "app.kubernetes.io/version": "v1.66.0",
}
NO_FILLING_UP_ALERT = {"alerts.k8s.io/KubePersistentVolumeFillingUp": "disabled"}
MAX_NAME = 253


def annotations_of(obj: Json) -> dict[str, str]:
    """Return an object's annotations, empty when it has none."""
    return obj["metadata"].get("annotations") or {}


def importer_pod_name(claim: str) -> str:
    """Return the name of the pod that imports into a claim."""
    return f"importer-{claim}"[:MAX_NAME].rstrip("-.")


def clone_pod_name(claim: str) -> str:
    """Return the name of the pod that receives a clone for a claim."""
    return f"cdi-upload-{claim}"[:MAX_NAME].rstrip("-.")


def scratch_name(claim: str) -> str:
    """Return the name of the claim into which the importer of a claim downloads."""
    return f"{claim}-scratch"


def imports(pod: Json) -> bool:
    """Tell whether a pod is an importer."""
    return (pod["metadata"].get("labels") or {}).get(ROLE) == IMPORTER


def is_cdi_pod(pod: Json) -> bool:
    """Tell whether a pod is one of CDI's, which this package plays on the node."""
    labels = pod["metadata"].get("labels") or {}
    return labels.get("app") == APP["app"] and labels.get(ROLE) in {IMPORTER, CLONE_TARGET}


def is_transfer_pod(pod: Json) -> bool:
    """Tell whether a pod is one of CDI's that fills a claim."""
    return is_cdi_pod(pod) and pod["spec"]["containers"][0]["name"] in {IMPORTER, CLONE_TARGET}


ALIGNMENT = 1024 * 1024  # CDI aligns disk images to 1 MiB
OVERHEAD = Decimal(FILESYSTEM_OVERHEAD)
FILESYSTEM = "Filesystem"
HTTP = {
    "url": ENDPOINT,
    "checksum": CHECKSUM,
    "secretRef": SECRET,
    "certConfigMap": CERT_CONFIG_MAP,
}


def render(dv: Json, default_class: str, size: int | None = None) -> Json:
    """Return the claim of a DataVolume.

    Args:
        dv: its `spec.source` is resolved already.
        default_class: the storage class for a DataVolume that names none, "" without one.
        size: of the disk that it clones, in bytes; only a clone may leave its own size out.
    """
    meta = dv["metadata"]
    spec: Json = dict(dig(dv, "spec", "pvc") or _filled(dv["spec"]["storage"], default_class, size))
    labels = {**APP, **RECOMMENDED_LABELS, **(meta.get("labels") or {})}
    if spec.get("volumeMode", FILESYSTEM) == FILESYSTEM:
        labels |= NO_FILLING_UP_ALERT
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": {**annotations_of(dv), **_annotations(dv)},
            "ownerReferences": [owner_reference(dv, DATA_VOLUME)],
        },
        "spec": spec,
    }


def _filled(wanted: Json, default_class: str, size: int | None) -> Json:
    """Return a claim's spec with what `storage` leaves open: modes, class, size."""
    requested = claim_bytes(
        size if size is not None else int(quantity(dig(wanted, "resources", "requests", "storage")))
    )
    storage_class = wanted.get("storageClassName") or default_class
    return {
        "accessModes": wanted.get("accessModes") or ["ReadWriteOnce"],
        "volumeMode": wanted.get("volumeMode") or FILESYSTEM,
        "resources": {"requests": {"storage": str(requested)}},
        **({"storageClassName": storage_class} if storage_class else {}),
    }


def _annotations(dv: Json) -> dict[str, str]:
    meta, spec = dv["metadata"], dv["spec"]
    common = {
        POD_RESTARTS: "0",
        CONTENT_TYPE: spec.get("contentType") or "kubevirt",
        PREALLOCATION: str(bool(spec.get("preallocation"))).lower(),
        CREATED_FOR: meta["uid"],
        USE_POPULATOR: "false",
    }
    source = clone_source(dv)
    if source is not None:
        pod = clone_pod_name(meta["name"])
        return {**common, CLONE_REQUEST: "/".join(source), CLONE_TYPE: "copy", UPLOAD_POD: pod}
    http: Json | None = dig(spec, "source", "http")
    if http is None:
        return {**common, SOURCE: "none"}
    return {**common, SOURCE: "http", **{HTTP[key]: http[key] for key in HTTP if http.get(key)}}


def clone_source(dv: Json) -> Key | None:
    """Return (namespace, name) of the claim that a DataVolume clones, None when it clones none."""
    source = dig(dv, "spec", "source", "pvc")
    if not source:
        return None
    return source.get("namespace") or dv["metadata"]["namespace"], source["name"]


def source_kind(dv: Json) -> str:
    """Return which source a DataVolume names: "http", "pvc", "upload", ...; "" when it names none."""
    return next((kind for kind, value in (dig(dv, "spec", "source") or {}).items() if value is not None), "")


def claim_bytes(disk: int) -> int:
    """Return how large a claim must be to hold a disk of `disk` bytes."""
    return int((aligned(disk) * (1 + OVERHEAD)).to_integral_value(ROUND_CEILING))


def aligned(size: int) -> int:
    """Return a number of bytes rounded up to CDI's alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def disk_bytes(claim: Json) -> int:
    """Return how large a disk fits a claim, in bytes."""
    usable = int((requested_bytes(claim) / (1 + OVERHEAD)).to_integral_value(ROUND_FLOOR))
    return max(usable // ALIGNMENT * ALIGNMENT, ALIGNMENT)


def requested_bytes(claim: Json) -> int:
    """Return what a claim requests, in bytes."""
    return int(quantity(dig(claim, "spec", "resources", "requests", "storage") or 0).to_integral_value(ROUND_CEILING))
