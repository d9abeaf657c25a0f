"""Population of claims: an importer or clone pod for every claim that asks for data, followed in its annotations.

The annotations, by which a DataVolume learns of its pod, are those of CDI (v1.66.0, pkg/controller:
`setAnnotationsFromPodWithPrefix`, `simplifyKnownMessage`, `updatePvcFromPod`), and so is the scratch claim
(pkg/controller/util.go: `createScratchPersistentVolumeClaim`). The downloads of this package lie elsewhere on the
host; a scratch claim is there for what it costs: room in a quota, a volume, and time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness.embedded.cdi import claims, transfers
from harness.embedded.cdi.claims import aligned, claim_bytes, disk_bytes, requested_bytes
from harness.embedded.cdi.pods import has_scratch, transfer_pod
from harness.embedded.cdi.provisioner import default_class
from harness.embedded.cdi.status import POD_RUNNING_REASON, SCRATCH_MESSAGE
from harness.embedded.context import Context
from harness.embedded.node.registration import placed
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import condition, controller_of, deleting, dig, owner_reference, phase
from harness.kube.reconcile import Controller
from harness.kube.resources import DATA_VOLUME, POD, PVC, STORAGE_CLASS

CHECKSUM_MISMATCH = "checksum mismatch"
PULL_FAILED = "failed to pull image"
SCRATCH_REASON = "Scratch space required"
TOO_SMALL = "DataVolume too small to contain image"
# Compared case by case: qemu-img's "No space left on device" is not among them.
SIMPLIFIED = (
    "is larger than the reported available",
    "no space left on device",
    "file largest block is bigger than maxblock",
    "disk quota exceeded",
)
CLONE_COMPONENT = "clone-controller"
UPLOAD_COMPONENT = "upload-controller"
IMPORT_COMPONENT = "import-controller"
BUSY_SECONDS = 1.0  # how soon to look again at a claim that somebody else uses
SOON_SECONDS = 0.1  # between looks at a pod of a former claim, which is about to go


class Population:
    """Reconciles claims with import or clone annotations."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._claims = context.informers.of(PVC)
        self._pods = context.informers.of(POD)
        self._volumes = context.informers.of(DATA_VOLUME)
        self._classes = context.informers.of(STORAGE_CLASS)
        self._sources = CloneSources(context)
        self.controller = Controller("cdi-claims", self.reconcile)
        self._claims.subscribe(lambda _, claim: self.controller.queue.add(key_of(claim)))
        self._pods.subscribe(self._listen_pod)
        self._volumes.subscribe(self._listen_volume)

    def _listen_pod(self, _: str, pod: Json) -> None:
        owner = controller_of(pod)
        if owner is not None and owner["kind"] == "PersistentVolumeClaim" and claims.is_transfer_pod(pod):
            self.controller.queue.add((pod["metadata"]["namespace"], owner["name"]))

    def _listen_volume(self, _: str, volume: Json) -> None:
        """Look again at the clones of a DataVolume that is complete now."""
        if phase(volume) != "Succeeded":
            return
        source = "/".join(key_of(volume))
        for claim in self._claims.list():
            if claims.annotations_of(claim).get(claims.CLONE_REQUEST) == source:
                self.controller.queue.add(key_of(claim))

    def reconcile(self, key: Key) -> float | None:
        """Bring one claim on: make its pod, follow its pod, take its pod away."""
        claim = self._claims.get(*key)
        if claim is None:
            return None
        annotations = claims.annotations_of(claim)
        name = _pod_name(claim)
        if name is None:
            return None
        pod = self._pods.get(key[0], name)
        done = annotations.get(claims.POD_PHASE) == "Succeeded" or annotations.get(claims.FATAL) == "true"
        if done or deleting(claim):
            return self._drop(pod)
        if pod is None:
            return self._make(claim, name) if phase(claim) == "Bound" or self._binds(claim) else None
        if (controller_of(pod) or {}).get("uid") != claim["metadata"]["uid"]:
            return SOON_SECONDS
        self._follow(claim, pod)
        return self._drop(pod) if wants_scratch(pod) else None

    def _binds(self, claim: Json) -> bool:
        """Tell whether a claim's pod does not wait for the binding: where the class does, it is the first consumer."""
        return claims.annotations_of(claim).get(claims.IMMEDIATE) == "true"

    def _drop(self, pod: Json | None) -> float | None:
        if pod is not None and not deleting(pod):
            meta = pod["metadata"]
            self._context.cluster.delete(POD, meta["name"], meta["namespace"])
        return None

    def _make(self, claim: Json, name: str) -> float | None:
        cloned = claims.annotations_of(claim).get(claims.CLONE_REQUEST)
        if cloned and not self._sources.ready(claim, cloned):
            return BUSY_SECONDS
        befallen = transfers.without_pod(self._context.faults, claim, cloned)
        if befallen is not None:
            self._sources.warn_both(claim, *befallen, component=IMPORT_COMPONENT)
            return BUSY_SECONDS
        if users := self._sources.users(*key_of(claim)):
            for message in users:
                self._context.events.warning(claim, "ImportTargetInUse", message, component=IMPORT_COMPONENT)
            return BUSY_SECONDS
        role = claims.CLONE_TARGET if cloned else claims.IMPORTER
        latest = self._context.cluster.get(PVC, claim["metadata"]["name"], claim["metadata"]["namespace"])
        if latest is None or latest["metadata"]["uid"] != claim["metadata"]["uid"]:
            return None
        if role == claims.IMPORTER and claims.IMPORT_POD not in claims.annotations_of(latest):
            return self._name_pod(latest, name)
        try:
            pod = transfer_pod(latest, name, role, scratch=requires_scratch(latest))
            self._context.cluster.create(POD, placed(self._context, pod))
        except ApiFailure as failure:
            if failure.reason == "AlreadyExists" or failure.terminating:
                return None
            reason = "ErrExceededQuota" if "exceeded quota" in failure.message else "ErrStartingPod"
            message = f"Error starting pod '{name}': {failure.message}"
            self._context.events.warning(claim, reason, message, component=IMPORT_COMPONENT)
            raise
        return None

    def _name_pod(self, claim: Json, name: str) -> float:
        """Write on a claim which pod will import into it; the pod is made after that."""
        meta = claim["metadata"]
        patch = {"metadata": {"uid": meta["uid"], "annotations": {claims.IMPORT_POD: name}}}
        self._context.cluster.merge(PVC, meta["name"], patch, meta["namespace"])
        return SOON_SECONDS

    def _follow(self, claim: Json, pod: Json) -> None:
        """Write a pod's status into its claim's annotations, and its end into the claim's events."""
        old = claims.annotations_of(claim)
        new = annotations_from_pod(pod)
        if int(old.get(claims.POD_RESTARTS) or 0) > int(new.get(claims.POD_RESTARTS) or 0):
            new.pop(claims.POD_RESTARTS, None)  # a pod's predecessor may have failed more often
        if has_scratch(pod) and requires_scratch(claim) and self._scratch(claim, pod):
            new[claims.REQUIRES_SCRATCH] = "false"
        changed = {k: v for k, v in new.items() if old.get(k) != v}
        if not changed:
            return
        meta = claim["metadata"]
        patch = {"metadata": {"uid": meta["uid"], "annotations": changed}}
        try:
            self._context.cluster.merge(PVC, meta["name"], patch, meta["namespace"])
        except ApiFailure as failure:
            if failure.not_found:
                return  # deleted in the meantime
            raise
        if failed := failure_message(pod):
            self._context.events.warning(claim, "ErrImportFailed", failed, component=IMPORT_COMPONENT)
        if changed.get(claims.POD_PHASE) != "Succeeded":
            return
        if claims.CLONE_REQUEST in old:
            self._context.events.normal(claim, "CloneSucceeded", "Clone Complete", component=CLONE_COMPONENT)
        else:
            self._context.events.normal(claim, "ImportSucceeded", "Import Successful", component=IMPORT_COMPONENT)

    def _scratch(self, claim: Json, pod: Json) -> bool:
        """Make a pod's scratch claim; False when that cannot be done now."""
        made = scratch_claim(claim, pod, self._classes.list())
        try:
            self._context.cluster.create(PVC, made)
        except ApiFailure as failure:
            if failure.reason == "AlreadyExists":
                if (controller_of(self._claims.get(*key_of(made)) or made) or {}).get("uid") != pod["metadata"]["uid"]:
                    self._drop(pod)  # it would wait for ever for a claim that goes with its predecessor
                    return False
            elif failure.terminating:
                return False
            elif "exceeded quota" in failure.message:
                about = failure.message
                self._context.events.warning(claim, "ErrExceededQuota", about, component=IMPORT_COMPONENT)
                raise
            else:
                raise
        return True


def _pod_name(claim: Json) -> str | None:
    """Return the name of the pod that a claim asks for, None when it asks for no data."""
    annotations = claims.annotations_of(claim)
    if claims.CLONE_REQUEST in annotations:
        return annotations.get(claims.UPLOAD_POD)
    if claims.SOURCE in annotations or claims.ENDPOINT in annotations:
        return annotations.get(claims.IMPORT_POD) or claims.importer_pod_name(claim["metadata"]["name"])
    return None


def annotations_from_pod(pod: Json) -> dict[str, str]:
    """Return what a pod's status says, as annotations of its claim."""
    scheduled = condition(pod, "PodScheduled") or {}
    unschedulable = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    answer = {
        claims.POD_PHASE: phase(pod),
        claims.POD_SCHEDULABLE: "false" if unschedulable else "true",
    }
    container = _container(pod)
    if not claims.imports(pod):
        answer[claims.POD_READY] = str(bool(container.get("ready"))).lower()
    if not container:
        return answer
    answer[claims.POD_RESTARTS] = str(container.get("restartCount") or 0)
    answer |= _running(container)
    if wants_scratch(pod):
        del answer[claims.POD_PHASE]  # it has imported nothing, whatever its phase says
    return answer


def wants_scratch(pod: Json) -> bool:
    """Tell whether an importer ended for want of scratch space."""
    return _termination_report(dig(_container(pod), "state", "terminated") or {}).get("scratchSpaceRequired") is True


def failure_message(pod: Json) -> str:
    """Return what a pod whose container has just ended says of its failure, "" when there is none to tell."""
    ended = dig(_container(pod), "state", "terminated") or {}
    message = str(_termination_report(ended).get("message") or "")
    if ended.get("exitCode") == 0:
        return message if CHECKSUM_MISMATCH in message else ""
    return str(ended.get("message") or "")


def _container(pod: Json) -> Mapping[str, Any]:
    container: Mapping[str, Any] = next(iter(dig(pod, "status", "containerStatuses") or []), {})
    return container


def _running(container: Mapping[str, Any]) -> dict[str, str]:
    state = container.get("state") or {}
    if "running" in state:
        return _running_annotations("true", POD_RUNNING_REASON, "")
    ended = state.get("terminated") or dig(container, "lastState", "terminated")
    if ended is None:
        waiting = state.get("waiting") or {}
        return _running_annotations("false", waiting.get("reason") or "", simplified(waiting.get("message") or ""))
    if ended.get("exitCode") != 0:
        text = ended.get("message") or ""
        return _running_annotations(
            "false", "ImagePullFailed" if PULL_FAILED in text else ended.get("reason") or "", simplified(text)
        )
    told = _termination_report(ended)
    if told.get("scratchSpaceRequired"):
        return _running_annotations("false", SCRATCH_REASON, SCRATCH_MESSAGE) | {claims.REQUIRES_SCRATCH: "true"}
    message = str(told.get("message") or "")
    if CHECKSUM_MISMATCH in message:
        return _running_annotations("false", claims.CHECKSUM_ERROR, message) | {
            claims.FATAL: "true",
            claims.POD_PHASE: "Failed",
        }
    return _running_annotations("false", ended.get("reason") or "", message)


def _running_annotations(running: str, reason: str, message: str) -> dict[str, str]:
    return {claims.RUNNING: running, claims.RUNNING_REASON: reason, claims.RUNNING_MESSAGE: message}


def _termination_report(ended: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the JSON that a pod of CDI's leaves when it ends with exit code 0, empty when there is none."""
    try:
        told = json.loads(ended.get("message") or "") if ended.get("exitCode") == 0 else {}
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def simplified(message: str) -> str:
    """Return a message as CDI passes it on to the DataVolume: of some it makes another."""
    return TOO_SMALL if any(known in message for known in SIMPLIFIED) else message


class CloneSources:
    """Judges the sources of clones, and tells the clones' claims what it finds."""

    def __init__(self, context: Context) -> None:
        self._events = context.events
        self._claims = context.informers.of(PVC)
        self._pods = context.informers.of(POD)
        self._volumes = context.informers.of(DATA_VOLUME)

    def ready(self, claim: Json, cloned: str) -> bool:
        """Tell whether a claim can be cloned from "NAMESPACE/NAME" now."""
        namespace, _, name = cloned.partition("/")
        source = self._claims.get(namespace, name)
        if source is None:
            return False
        permissive = claims.annotations_of(claim).get(claims.PERMISSIVE_CLONE) == "true"
        if not permissive and requested_bytes(claim) < requested_bytes(source):
            message = "target resources requests storage size is smaller than the source"
            self._events.warning(claim, "ErrIncompatiblePVC", message, component=UPLOAD_COMPONENT)
            return False
        if phase(source) != "Bound" or not self.populated(source):
            return False
        users = self.users(namespace, name)
        for message in users:
            self.warn_both(claim, "CloneSourceInUse", message, component=CLONE_COMPONENT)
        return not users

    def users(self, namespace: str, claim: str) -> list[str]:
        """Say which pods have a claim mounted for writing, or will have."""
        running = (p for p in self._pods.list(namespace) if phase(p) not in {"Succeeded", "Failed"})
        using = [pod for pod in running if _writes(pod, claim)]
        return [f"pod {'/'.join(key_of(pod))} using PersistentVolumeClaim {claim}" for pod in using]

    def warn_both(self, claim: Json, reason: str, message: str, *, component: str) -> None:
        """Tell something about a claim and about its DataVolume."""
        for about in (claim, self._volumes.get(*key_of(claim))):
            if about is not None:
                self._events.warning(about, reason, message, component=component)

    def populated(self, claim: Json) -> bool:
        """Tell whether a claim's disk is complete."""
        owner = controller_of(claim)
        if owner is not None and owner["kind"] == "DataVolume":
            volume = self._volumes.get(claim["metadata"]["namespace"], owner["name"])
            return volume is not None and phase(volume) == "Succeeded"
        annotations = claims.annotations_of(claim)
        asked = {claims.SOURCE, claims.ENDPOINT, claims.CLONE_REQUEST} & annotations.keys()
        return not asked or annotations.get(claims.POD_PHASE) == "Succeeded"


def _writes(pod: Json, claim: str) -> bool:
    sources = [volume.get("persistentVolumeClaim") or {} for volume in pod["spec"].get("volumes") or []]
    return any(source.get("claimName") == claim and not source.get("readOnly") for source in sources)


def requires_scratch(claim: Json) -> bool:
    """Tell whether the importer of a claim asked for scratch space that it does not have yet."""
    return claims.annotations_of(claim).get(claims.REQUIRES_SCRATCH) == "true"


def scratch_claim(claim: Json, pod: Json, storage_classes: Sequence[Json]) -> Json:
    """Return the scratch claim of an importer's pod."""
    meta = claim["metadata"]
    storage_class = default_class(storage_classes) or claim["spec"].get("storageClassName") or ""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claims.scratch_name(meta["name"]),
            "namespace": meta["namespace"],
            "labels": {**claims.APP, **claims.RECOMMENDED_LABELS},
            "ownerReferences": [owner_reference(pod, POD)],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": str(aligned(claim_bytes(disk_bytes(claim))))}},
            **({"storageClassName": storage_class} if storage_class else {}),
        },
    }
