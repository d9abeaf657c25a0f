"""Annotations, labels and names that CDI writes on claims and pods."""

from __future__ import annotations

from harness.kube.client import ApiFailure, Json

GROUP = "cdi.kubevirt.io"
IMMEDIATE = f"{GROUP}/storage.bind.immediate.requested"
USE_POPULATOR = f"{GROUP}/storage.usePopulator"
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


def is_transfer_pod(pod: Json) -> bool:
    """Tell whether a pod is one of CDI's, which this package plays on the node."""
    labels = pod["metadata"].get("labels") or {}
    return labels.get("app") == APP["app"] and labels.get(ROLE) in {IMPORTER, CLONE_TARGET}


def is_terminating(failure: ApiFailure) -> bool:
    """Tell whether the API refused an object because its namespace is being deleted."""
    return failure.forbidden and "is being terminated" in failure.message
