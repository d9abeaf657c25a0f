"""DataSources: whether what they point to can be cloned."""

from __future__ import annotations

from harness.embedded.context import Context
from harness.kube.client import Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import dig, now, phase, with_condition
from harness.kube.reconcile import Controller
from harness.kube.resources import DATA_SOURCE, DATA_VOLUME, PVC


class DataSources:
    """Reconciles DataSources. Their status is a plain part of the object: the kind has no status subresource."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sources = context.informers.of(DATA_SOURCE)
        self._volumes = context.informers.of(DATA_VOLUME)
        self._claims = context.informers.of(PVC)
        self.controller = Controller("datasources", self.reconcile, workers=1)
        self._sources.subscribe(lambda _, source: self.controller.queue.add(key_of(source)))
        for informer in (self._volumes, self._claims):
            informer.subscribe(lambda _, about: self._look_again(key_of(about)))

    def _look_again(self, about: Key) -> None:
        for source in self._sources.list():
            claim = dig(source, "spec", "source", "pvc") or {}
            if (claim.get("namespace"), claim.get("name")) == about:
                self.controller.queue.add(key_of(source))

    def reconcile(self, key: Key) -> float | None:
        """Write one DataSource's condition and what it resolves to."""
        source = self._sources.get(*key)
        if source is None or source["metadata"].get("deletionTimestamp"):
            return None
        value, reason, message = self._judge(source)
        moment = now()
        told = {"type": "Ready", "status": value, "reason": reason, "message": message}
        new = {**told, "lastTransitionTime": moment, "lastHeartbeatTime": moment}
        conditions = with_condition(dig(source, "status", "conditions") or [], new)
        status = {"conditions": conditions, "source": dig(source, "spec", "source") or {}}
        if status != (source.get("status") or {}):
            meta = source["metadata"]
            patch = {"metadata": {"uid": meta["uid"]}, "status": status}
            self._context.cluster.merge(DATA_SOURCE, meta["name"], patch, meta["namespace"])
        return None

    def _judge(self, source: Json) -> tuple[str, str, str]:
        """Return the condition's status, reason and message."""
        claim = dig(source, "spec", "source", "pvc")
        if not claim:
            return "False", "NoSource", "No source PVC set"
        volume = self._volumes.get(claim["namespace"], claim["name"])
        if volume is not None and phase(volume) != "Succeeded":
            return "False", phase(volume) or "Unset", f"Import DataVolume phase {phase(volume)}"
        if volume is None and self._claims.get(claim["namespace"], claim["name"]) is None:
            return "False", "NotFound", "PVC not found"
        return "True", "Ready", "DataSource is ready to be consumed"
