"""What a claim is cloned from: whether it is there, complete, no larger than the clone, and in nobody's use."""

from __future__ import annotations

from harness.embedded.cdi import names
from harness.embedded.cdi.sizes import requested_bytes
from harness.embedded.context import Context
from harness.kube.client import Json
from harness.kube.informer import key_of
from harness.kube.objects import controller_of, phase
from harness.kube.resources import DATA_VOLUME, POD, PVC

CLONE_COMPONENT = "clone-controller"
UPLOAD_COMPONENT = "upload-controller"


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
        if requested_bytes(claim) < requested_bytes(source):
            message = "target resources requests storage size is smaller than the source"
            self._events.warning(claim, "ErrIncompatiblePVC", message, component=UPLOAD_COMPONENT)
            return False
        if phase(source) != "Bound" or not self._populated(source):
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

    def _populated(self, claim: Json) -> bool:
        owner = controller_of(claim)
        if owner is not None and owner["kind"] == "DataVolume":
            volume = self._volumes.get(claim["metadata"]["namespace"], owner["name"])
            return volume is not None and phase(volume) == "Succeeded"
        annotations = names.annotations_of(claim)
        asked = {names.SOURCE, names.ENDPOINT, names.CLONE_REQUEST} & annotations.keys()
        return not asked or annotations.get(names.POD_PHASE) == "Succeeded"


def _writes(pod: Json, claim: str) -> bool:
    sources = [volume.get("persistentVolumeClaim") or {} for volume in pod["spec"].get("volumes") or []]
    return any(source.get("claimName") == claim and not source.get("readOnly") for source in sources)
