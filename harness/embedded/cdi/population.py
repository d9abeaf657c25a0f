"""From claims to pods and back: a claim that asks for data gets a pod, and the pod's fate is written on the claim."""

from __future__ import annotations

from harness.embedded.cdi import names, scratch
from harness.embedded.cdi.clone_sources import CLONE_COMPONENT, CloneSources
from harness.embedded.cdi.fate import failure_of, fate_of, wants_scratch
from harness.embedded.cdi.podspecs import has_scratch, transfer_pod
from harness.embedded.context import Context
from harness.embedded.faults import transfers
from harness.embedded.node.placement import placed
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import controller_of, deleting, phase
from harness.kube.reconcile import Controller
from harness.kube.resources import DATA_VOLUME, POD, PVC, STORAGE_CLASS

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
        if owner is not None and owner["kind"] == "PersistentVolumeClaim" and names.is_transfer_pod(pod):
            self.controller.queue.add((pod["metadata"]["namespace"], owner["name"]))

    def _listen_volume(self, _: str, volume: Json) -> None:
        """Look again at the clones of a DataVolume that is complete now."""
        if phase(volume) != "Succeeded":
            return
        source = "/".join(key_of(volume))
        for claim in self._claims.list():
            if names.annotations_of(claim).get(names.CLONE_REQUEST) == source:
                self.controller.queue.add(key_of(claim))

    def reconcile(self, key: Key) -> float | None:
        """Bring one claim on: make its pod, follow its pod, take its pod away."""
        claim = self._claims.get(*key)
        if claim is None:
            return None
        annotations = names.annotations_of(claim)
        name = _pod_name(claim)
        if name is None:
            return None
        pod = self._pods.get(key[0], name)
        done = annotations.get(names.POD_PHASE) == "Succeeded" or annotations.get(names.FATAL) == "true"
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
        return names.annotations_of(claim).get(names.IMMEDIATE) == "true"

    def _drop(self, pod: Json | None) -> float | None:
        if pod is not None and not deleting(pod):
            meta = pod["metadata"]
            self._context.cluster.delete(POD, meta["name"], meta["namespace"])
        return None

    def _make(self, claim: Json, name: str) -> float | None:
        cloned = names.annotations_of(claim).get(names.CLONE_REQUEST)
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
        role = names.CLONE_TARGET if cloned else names.IMPORTER
        latest = self._context.cluster.get(PVC, claim["metadata"]["name"], claim["metadata"]["namespace"])
        if latest is None or latest["metadata"]["uid"] != claim["metadata"]["uid"]:
            return None
        if role == names.IMPORTER and names.IMPORT_POD not in names.annotations_of(latest):
            return self._name_pod(latest, name)
        try:
            pod = transfer_pod(latest, name, role, scratch=scratch.wanted(latest))
            self._context.cluster.create(POD, placed(self._context, pod))
        except ApiFailure as failure:
            if failure.reason == "AlreadyExists" or names.is_terminating(failure):
                return None
            reason = "ErrExceededQuota" if "exceeded quota" in failure.message else "ErrStartingPod"
            message = f"Error starting pod '{name}': {failure.message}"
            self._context.events.warning(claim, reason, message, component=IMPORT_COMPONENT)
            raise
        return None

    def _name_pod(self, claim: Json, name: str) -> float:
        """Write on a claim which pod will import into it; the pod is made after that."""
        meta = claim["metadata"]
        patch = {"metadata": {"uid": meta["uid"], "annotations": {names.IMPORT_POD: name}}}
        self._context.cluster.merge(PVC, meta["name"], patch, meta["namespace"])
        return SOON_SECONDS

    def _follow(self, claim: Json, pod: Json) -> None:
        """Write a pod's fate on its claim, and tell it in the claim's events."""
        old = names.annotations_of(claim)
        new = fate_of(pod)
        if int(old.get(names.POD_RESTARTS) or 0) > int(new.get(names.POD_RESTARTS) or 0):
            new.pop(names.POD_RESTARTS, None)  # a pod's predecessor may have failed more often
        if has_scratch(pod) and scratch.wanted(claim) and self._scratch(claim, pod):
            new[names.REQUIRES_SCRATCH] = "false"
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
        if failed := failure_of(pod):
            self._context.events.warning(claim, "ErrImportFailed", failed, component=IMPORT_COMPONENT)
        if changed.get(names.POD_PHASE) != "Succeeded":
            return
        if names.CLONE_REQUEST in old:
            self._context.events.normal(claim, "CloneSucceeded", "Clone Complete", component=CLONE_COMPONENT)
        else:
            self._context.events.normal(claim, "ImportSucceeded", "Import Successful", component=IMPORT_COMPONENT)

    def _scratch(self, claim: Json, pod: Json) -> bool:
        """Make a pod's scratch claim; False when that cannot be done now."""
        made = scratch.scratch_claim(claim, pod, self._classes.list())
        try:
            self._context.cluster.create(PVC, made)
        except ApiFailure as failure:
            if failure.reason == "AlreadyExists":
                if (controller_of(self._claims.get(*key_of(made)) or made) or {}).get("uid") != pod["metadata"]["uid"]:
                    self._drop(pod)  # it would wait for ever for a claim that goes with its predecessor
                    return False
            elif names.is_terminating(failure):
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
    annotations = names.annotations_of(claim)
    if names.CLONE_REQUEST in annotations:
        return annotations.get(names.UPLOAD_POD)
    if names.SOURCE in annotations or names.ENDPOINT in annotations:
        return annotations.get(names.IMPORT_POD) or names.importer_pod_name(claim["metadata"]["name"])
    return None
