"""Size detection: a pod beside a clone's source reads how large its disk is, where the clone does not say.

As CDI does it (v1.66.0, pkg/controller/datavolume: `detectCloneSize`, `getSizeFromPod`, `cleanupSizeDetectionPod`). The
pod is in the source's namespace and counts against its quota, and the source's claim keeps what was found until its
capacity changes. A source whose content is not a disk of CDI's has the size of its volume.
"""

from __future__ import annotations

from harness.embedded.cdi import claims
from harness.embedded.cdi.pods import (
    CONTAINER_SECURITY,
    DATA_VOLUME_NAME,
    GRACE_SECONDS,
    POD_SECURITY,
    RESOURCES,
    container_of,
)
from harness.embedded.cdi.provisioner import disk_path
from harness.embedded.context import Context
from harness.embedded.node import pods
from harness.embedded.node.registration import placed
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import controller_of, deleting, dig, owner_reference, phase, quantity
from harness.kube.reconcile import Controller
from harness.kube.resources import DATA_VOLUME, POD, PVC

CONTAINER = "size-detection-volume"
CLONE_COMPONENT = "datavolume-pvc-clone-controller"
VIRTUAL_SIZE = "cdi.Kubervirt.io/virtualSize"  # spelled like this in CDI
SOURCE_CAPACITY = "cdi.Kubervirt.io/sourceCapacity"
OWNED_BY = f"{claims.GROUP}/ownedByDataVolume"
OWNER_UID = f"{claims.GROUP}/ownerUID"


class SizeDetection:
    """Finds the sizes of clones that ask for none, and plays the pods that read them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pods = context.informers.of(POD)
        self._claims = context.informers.of(PVC)
        self.controller = Controller("cdi-size-detection", self.reconcile, workers=1)
        self._pods.subscribe(lambda _, pod: self._listen(pod))

    def _listen(self, pod: Json) -> None:
        if claims.is_cdi_pod(pod) and is_detection_pod(pod):
            self.controller.queue.add(key_of(pod))

    def size(self, dv: Json, source: Json) -> int | None:
        """Return the bytes of a source's disk; None as long as its pod has not read them.

        Args:
            source: the claim, whose disk is complete.
        """
        capacity = dig(source, "status", "capacity", "storage") or "0"
        known = claims.annotations_of(source)
        if known.get(claims.CONTENT_TYPE) != "kubevirt":
            return int(quantity(capacity))
        if VIRTUAL_SIZE in known and quantity(known.get(SOURCE_CAPACITY, "0")) == quantity(capacity):
            return int(known[VIRTUAL_SIZE])
        pod = self._context.cluster.get(POD, detection_pod_name(source), source["metadata"]["namespace"])
        if pod is None:
            self._create(dv, source)
        if pod is None or phase(pod) != "Succeeded":
            message = "The size detection pod is not finished yet"
            self._context.events.normal(dv, "SizeDetectionPodNotReady", message, component=CLONE_COMPONENT)
            return None
        text = str(dig(container_of(pod), "state", "terminated", "message"))
        meta = source["metadata"]
        noted = {VIRTUAL_SIZE: text, SOURCE_CAPACITY: capacity}
        patch = {"metadata": {"uid": meta["uid"], "annotations": noted}}
        self._context.cluster.merge(PVC, meta["name"], patch, meta["namespace"])
        return int(text)

    def _create(self, dv: Json, source: Json) -> None:
        try:
            self._context.cluster.create(POD, placed(self._context, detection_pod(dv, source)))
        except ApiFailure as failure:
            if failure.reason != "AlreadyExists":
                raise
            return
        message = "Size-detection pod created"
        self._context.events.normal(dv, "SizeDetectionPodCreated", message, component=CLONE_COMPONENT)

    def drop(self, volume: Key) -> None:
        """Delete the pods of a DataVolume that has succeeded or is gone."""
        for pod in self._pods.list():
            if is_detection_pod(pod) and volume_of(pod) == volume and not deleting(pod):
                self._context.cluster.delete(POD, pod["metadata"]["name"], pod["metadata"]["namespace"])

    def reconcile(self, key: Key) -> float | None:
        """Play one pod: it runs, and ends with the size of the disk as its message."""
        pod = self._context.cluster.get(POD, key[1], key[0])
        if pod is None or not self._context.here(pod):
            return None
        if deleting(pod) or phase(pod) in {"Succeeded", "Failed"}:
            return None
        claim = self._claims.get(key[0], str(dig(pod["spec"]["volumes"][0], "persistentVolumeClaim", "claimName")))
        if claim is None or phase(claim) != "Bound":
            return 1.0
        bytes_of_disk = disk_path(self._context.disks, claim["spec"]["volumeName"]).stat().st_size
        status = pods.ended(pod, exit_code=0, reason="Completed", message=str(bytes_of_disk))
        patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        self._context.cluster.merge(POD, key[1], patch, key[0], subresource="status")
        return None


def asks_no_size(dv: Json) -> bool:
    """Tell whether a clone leaves its size to be found out."""
    size = dig(dv, "spec", "storage", "resources", "requests", "storage")
    return dig(dv, "spec", "storage") is not None and (size is None or quantity(size) == 0)


def detection_pod(dv: Json, source: Json) -> Json:
    """Return the pod that reads the size of a claim's disk for a DataVolume, which owns it."""
    volume, own = dv["metadata"], source["metadata"]
    near = own["namespace"] == volume["namespace"]
    foreign = {OWNED_BY: "/".join(key_of(dv)), OWNER_UID: volume["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": detection_pod_name(source),
            "namespace": own["namespace"],
            "labels": {**claims.APP, claims.ROLE: claims.IMPORTER},
            **({"ownerReferences": [owner_reference(dv, DATA_VOLUME)]} if near else {"annotations": foreign}),
        },
        "spec": {
            "restartPolicy": "OnFailure",
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "automountServiceAccountToken": False,
            "securityContext": POD_SECURITY,
            "containers": [
                {
                    "name": CONTAINER,
                    "image": claims.IMPORTER,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["/usr/bin/cdi-image-size-detection"],
                    "args": ["-image-path", "/data/disk.img"],
                    "resources": RESOURCES,
                    "securityContext": CONTAINER_SECURITY,
                    "volumeMounts": [{"name": DATA_VOLUME_NAME, "mountPath": "/data"}],
                }
            ],
            "volumes": [{"name": DATA_VOLUME_NAME, "persistentVolumeClaim": {"claimName": own["name"]}}],
        },
    }


def detection_pod_name(source: Json) -> str:
    """Return the name of the pod that reads the size of a claim's disk."""
    return f"size-detection-{source['metadata']['uid']}"


def is_detection_pod(pod: Json) -> bool:
    """Tell whether a pod only reads a size."""
    return bool(pod["spec"]["containers"][0]["name"] == CONTAINER)


def volume_of(pod: Json) -> Key | None:
    """Return the DataVolume for which a pod reads a size, as (namespace, name)."""
    owner = controller_of(pod)
    if owner is not None and owner["kind"] == DATA_VOLUME.kind:
        return pod["metadata"]["namespace"], owner["name"]
    namespace, _, name = claims.annotations_of(pod).get(OWNED_BY, "").partition("/")
    return (namespace, name) if name else None
