"""Controllers of DataVolumes and DataSources: a claim for each DataVolume, as large as asked or its source."""

from __future__ import annotations

import time

from harness.embedded.cdi import claims, provisioner, status
from harness.embedded.cdi.claims import clone_source, render, requested_bytes, source_kind
from harness.embedded.cdi.population import CloneSources
from harness.embedded.cdi.size_detection import CLONE_COMPONENT, SizeDetection, asks_no_size, volume_of
from harness.embedded.cdi.status import Notice
from harness.embedded.cdi.transfers import Transfers
from harness.embedded.context import Context
from harness.kube.client import ApiFailure, Json
from harness.kube.events import WARNING
from harness.kube.informer import Key, key_of
from harness.kube.objects import controller_of, deleting, dig, now, phase, quantity, with_condition
from harness.kube.reconcile import Controller
from harness.kube.resources import DATA_SOURCE, DATA_VOLUME, POD, PVC, STORAGE_CLASS

IMPORT_COMPONENT = "datavolume-import-controller"
SUPPORTED = frozenset({"http", "blank", "pvc"})
PROGRESS_SECONDS = 1.0  # between two reports of progress; each is a write
BLOCKED_SECONDS = 2.0  # between looks at what blocks a disk and is not watched
SOON_SECONDS = 0.1  # pacing: until what was just changed is seen


class DataVolumes:
    """Reconciles DataVolumes."""

    def __init__(self, context: Context, transfers: Transfers, sizes: SizeDetection) -> None:
        self._context = context
        self._transfers = transfers
        self._sizes = sizes
        self._clone_sources = CloneSources(context)
        self._told: dict[Key, float] = {}
        of = context.informers.of
        self._volumes, self._claims, self._sources = of(DATA_VOLUME), of(PVC), of(DATA_SOURCE)
        self._classes, self._pods = of(STORAGE_CLASS), of(POD)
        self.controller = Controller("datavolumes", self.reconcile, workers=3)
        self._volumes.subscribe(lambda _, volume: self.controller.queue.add(key_of(volume)))
        self._claims.subscribe(lambda _, claim: self._listen_claim(claim))
        self._sources.subscribe(lambda _, __: self._look_again())
        self._classes.subscribe(lambda _, __: self._look_again())
        self._pods.subscribe(lambda _, pod: self._listen_pod(pod))

    def _listen_claim(self, claim: Json) -> None:
        owner = controller_of(claim)
        key = key_of(claim)
        if owner is not None and owner["kind"] == DATA_VOLUME.kind:
            self.controller.queue.add((key[0], owner["name"]))
        for volume in self._volumes.list():
            if not phase(volume) and clone_source(volume) == key:
                self.controller.queue.add(key_of(volume))

    def _listen_pod(self, pod: Json) -> None:
        if claims.is_cdi_pod(pod) and (owner := volume_of(pod)) is not None:
            self.controller.queue.add(owner)

    def _look_again(self) -> None:
        for volume in self._volumes.list():
            if phase(volume) not in status.FINAL:
                self.controller.queue.add(key_of(volume))

    def reconcile(self, key: Key) -> float | None:
        """Bring one DataVolume on."""
        try:
            return self._bring_on(key)
        except ApiFailure as failure:
            if not failure.not_found:
                raise
            return SOON_SECONDS  # it was deleted in the meantime

    def _bring_on(self, key: Key) -> float | None:
        dv = self._context.cluster.get(DATA_VOLUME, key[1], key[0])
        if dv is None or deleting(dv):
            self._told.pop(key, None)
            self._sizes.drop(key)
            if dv is None:
                self._collect_claim(key)
            return None
        dv = self._resolved(dv)
        if source_kind(dv) not in SUPPORTED or dig(dv, "spec", "contentType") == "archive":
            return self._unsupported(dv)
        dv = self._marked(dv)
        claim = self._context.cluster.get(PVC, key[1], key[0])
        if claim is None:
            dv, claim = self._make_claim(dv)
            if claim is None:
                return BLOCKED_SECONDS if phase(dv) in {"Pending", "CloneScheduled"} else None
        problem = _problem(dv, claim)
        if problem is not None and self._context.cluster.get(DATA_VOLUME, key[1], key[0]) is None:
            return None  # its claim goes because it has gone in the meantime
        if problem is not None:
            self._context.events.warning(dv, *problem, component=IMPORT_COMPONENT)
            return BLOCKED_SECONDS
        storage_class = self._classes.get("", claim["spec"].get("storageClassName") or "")
        progress, waiting = self._progress(key, claim), provisioner.binds_late(storage_class)
        for change in status.with_claim(dv, claim, progress, now(), waiting=waiting):
            dv = self._write(dv, change)
        if phase(dv) == "Succeeded" and clone_source(dv):
            self._sizes.drop(key)
        return PROGRESS_SECONDS if phase(dv) in {"ImportInProgress", "CloneInProgress"} else None

    def _collect_claim(self, key: Key) -> None:
        """Delete the claim of a DataVolume that is gone.

        Garbage collection does that too, but it looks for new kinds every 30 s only, so that it misses the deletions of
        an instance's first half minute until then. A claim that was orphaned on purpose has no owner any more.
        """
        claim = self._context.cluster.get(PVC, key[1], key[0])
        owner = controller_of(claim) if claim is not None else None
        if claim is None or owner is None or deleting(claim):
            return
        if (owner["kind"], owner["name"]) == (DATA_VOLUME.kind, key[1]):
            self._context.cluster.delete(PVC, key[1], key[0])

    def _resolved(self, dv: Json) -> Json:
        """Return a DataVolume with the source that its `sourceRef` leads to."""
        reference = dig(dv, "spec", "sourceRef")
        if not reference:
            return dv
        namespace = reference.get("namespace") or dv["metadata"]["namespace"]
        source = dig(self._sources.get(namespace, reference["name"]), "spec", "source") or {}
        return {**dv, "spec": {**dv["spec"], "source": source}}

    def _unsupported(self, dv: Json) -> float | None:
        if not source_kind(dv):
            return None  # its DataSource does not exist (yet)
        kind = "archive" if dig(dv, "spec", "contentType") == "archive" else source_kind(dv)
        message = (
            f"The embedded KubeVirt does not support the source {kind!r}. Use http, blank, pvc, or sourceRef to a pvc; "
            "or use an infra cluster with a real CDI"
        )
        self._blocked(dv, "UnsupportedSource", message, "Pending")
        return None

    def _marked(self, dv: Json) -> Json:
        """Write down that no populator is used, as CDI does where no CSI driver is behind the class."""
        if claims.USE_POPULATOR in claims.annotations_of(dv):
            return dv
        meta = dv["metadata"]
        patch = {"metadata": {"uid": meta["uid"], "annotations": {claims.USE_POPULATOR: "false"}}}
        made = self._context.cluster.merge(DATA_VOLUME, meta["name"], patch, meta["namespace"])
        return {**made, "spec": dv["spec"]}

    def _make_claim(self, dv: Json) -> tuple[Json, Json | None]:
        """Make a DataVolume's claim; the claim is None when that cannot be done now."""
        source = clone_source(dv)
        cloned = self._context.cluster.get(PVC, source[1], source[0]) if source is not None else None
        if source is not None and cloned is None:
            return self._blocked(dv, "CloneWithoutSource", f"The source pvc {source[1]} doesn't exist", ""), None
        size: int | None = None
        if cloned is not None and asks_no_size(dv):
            dv, size = self._size(dv, cloned)
            if size is None:
                return dv, None
        claim = render(dv, provisioner.default_class(self._classes.list()), size)
        if size is not None and quantity(dig(cloned, "status", "capacity", "storage") or 0) > size:
            claim["metadata"]["annotations"][claims.PERMISSIVE_CLONE] = "true"
        # Of `storage`, CDI compares the claims when they are there: see population.
        if cloned is not None and dig(dv, "spec", "pvc") and requested_bytes(claim) < requested_bytes(cloned):
            sizes = f"{requested_bytes(claim)} < {requested_bytes(cloned)}"
            small = f"target resources requests storage size is smaller than the source {sizes}"
            message = f"The clone doesn't meet the validation requirements: {small}"
            self._context.events.warning(dv, "CloneValidationFailed", message, component=CLONE_COMPONENT)
            return dv, None
        try:
            return dv, self._context.cluster.create(PVC, claim)
        except ApiFailure as failure:
            if failure.terminating:
                return {**dv, "status": {}}, None
            if "exceeded quota" not in failure.message:
                raise
            return self._blocked(dv, "ErrExceededQuota", failure.message, "Pending"), None

    def _size(self, dv: Json, source: Json) -> tuple[Json, int | None]:
        """Find the size of a clone that asks for none; it is None as long as nobody knows."""
        if self._clone_sources.populated(source):
            return dv, self._sizes.size(dv, source)
        message = "The source PVC is not fully imported"
        self._context.events.normal(dv, "ImportPVCNotReady", message, component=CLONE_COMPONENT)
        return self._write(dv, status.without_claim(dv, now(), notice=None, reached="CloneScheduled")), None

    def _blocked(self, dv: Json, reason: str, message: str, reached: str) -> Json:
        notice = Notice(WARNING, reason, message)
        return self._write(dv, status.without_claim(dv, now(), notice=notice, reached=reached))

    def _progress(self, key: Key, claim: Json) -> float | None:
        """Return a transfer's progress in percent, at most once in PROGRESS_SECONDS: each telling is a write."""
        if time.monotonic() < self._told.get(key, 0.0) + PROGRESS_SECONDS:
            return None
        annotations = claims.annotations_of(claim)
        pod_name = annotations.get(claims.UPLOAD_POD) or annotations.get(claims.IMPORT_POD) or ""
        pod = self._pods.get(claim["metadata"]["namespace"], pod_name)
        transfer = self._transfers.get(pod["metadata"]["uid"]) if pod is not None else None
        percent = transfer.percent() if transfer is not None else None
        if percent is None:
            self._told.pop(key, None)
        else:
            self._told[key] = time.monotonic()
        return percent

    def _write(self, dv: Json, change: status.Change) -> Json:
        """Write a status where it differs, then tell its events; return the DataVolume as it is now."""
        meta = dv["metadata"]
        if change.status != dv.get("status"):
            patch = {"metadata": {"uid": meta["uid"]}, "status": change.status}
            merge = self._context.cluster.merge
            made = merge(DATA_VOLUME, meta["name"], patch, meta["namespace"], subresource="status")
            dv = {**made, "spec": dv["spec"]}
        component = CLONE_COMPONENT if clone_source(dv) else IMPORT_COMPONENT
        for notice in change.notices:
            tell = self._context.events.warning if notice.kind == WARNING else self._context.events.normal
            tell(dv, notice.reason, notice.message, component=component)
        return dv


def _problem(dv: Json, claim: Json) -> tuple[str, str] | None:
    """Return why a claim of the DataVolume's name is not its claim (event reason and message), None when it is."""
    name = claim["metadata"]["name"]
    if deleting(claim):
        return "ErrResourceMarkedForDeletion", f'Resource "{name}" marked for deletion'
    owner = controller_of(claim) or {}
    if owner.get("uid") != dv["metadata"]["uid"]:
        return "ErrResourceExists", f'Resource "{name}" already exists and is not managed by DataVolume'
    return None


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
        condition = {"type": "Ready", "status": value, "reason": reason, "message": message}
        new = {**condition, "lastTransitionTime": moment, "lastHeartbeatTime": moment}
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
