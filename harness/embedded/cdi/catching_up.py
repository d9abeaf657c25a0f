"""Whether a claim and its DataVolume have caught up with the pod that fills them, and say what it says."""

from __future__ import annotations

import time

from harness.embedded.cdi import names
from harness.embedded.cdi.fate import fate_of
from harness.embedded.context import Context
from harness.kube.client import Json
from harness.kube.informer import Key
from harness.kube.objects import condition, dig
from harness.kube.resources import DATA_VOLUME, PVC

NOTICE_SECONDS = 3.0  # at most, for claim and DataVolume to say what the pod says: they may have nobody to do so


class CatchingUp:
    """Compares pods with their claims and DataVolumes."""

    def __init__(self, context: Context) -> None:
        self._claims = context.informers.of(PVC)
        self._volumes = context.informers.of(DATA_VOLUME)
        self._since: dict[Key, float] = {}

    def done(self, key: Key, pod: Json) -> bool:
        """Tell whether both have caught up with a pod, or could have long ago."""
        name = claim_of(pod)
        claim, volume = self._claims.get(key[0], name), self._volumes.get(key[0], name)
        said = {k: v for k, v in fate_of(pod).items() if k in (names.RUNNING, names.RUNNING_REASON)}
        told = names.annotations_of(claim) if claim is not None else {}
        shown = (condition(volume, "Running") or {}).get("reason", "") if volume is not None else None
        reason = said.get(names.RUNNING_REASON)
        if all(told.get(k) == v for k, v in said.items()) and (None in (shown, reason) or shown == reason):
            self.forget(key)
            return True
        return time.monotonic() > self._since.setdefault(key, time.monotonic()) + NOTICE_SECONDS

    def forget(self, key: Key) -> None:
        """Wait anew for what a pod says next."""
        self._since.pop(key, None)


def claim_of(pod: Json) -> str:
    """Return the name of the claim that a pod fills."""
    return str(dig(pod["spec"]["volumes"][0], "persistentVolumeClaim", "claimName"))
