"""Populators: a claim of a CSI-like class gets its volume from a second claim, the prime, in which the work happens.

The claim stays unbound until the end. Where its class waits for a first consumer, so does the work, until the
scheduler has chosen a node for it. Snapshots and the driver's own clones need no pod: the prime's volume is made with
the content.
"""

from __future__ import annotations

import json

from harness.embedded.cdi import classes, names
from harness.embedded.cdi.population import Population
from harness.embedded.cdi.provisioner import SELECTED_NODE
from harness.embedded.context import Context
from harness.embedded.objects import controller_of, deleting, dig, owner_reference, phase
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of
from harness.kube.reconcile import Controller
from harness.kube.resources import PV, PVC, SNAPSHOT_CLASS, STORAGE_CLASS, VOLUME_SNAPSHOT

COMPONENT = "populator-controller"
SOON_SECONDS = 0.3
# What a prime's pod did is written on the claim as well: its DataVolume is told by it.
FATE = (
    *(names.POD_PHASE, names.POD_RESTARTS, names.POD_READY, names.POD_SCHEDULABLE, names.RUNNING),
    *(names.RUNNING_MESSAGE, names.RUNNING_REASON, names.FATAL, names.IMPORT_POD, names.UPLOAD_POD),
)


class Populator:
    """Reconciles claims that ask one of CDI's populators for their content."""

    def __init__(self, context: Context, population: Population) -> None:
        self._context = context
        self._population = population
        of = context.informers.of
        self._claims, self._classes, self._volumes = of(PVC), of(STORAGE_CLASS), of(PV)
        self._snapshots, self._snapshot_classes = of(VOLUME_SNAPSHOT), of(SNAPSHOT_CLASS)
        self.controller = Controller("cdi-populators", self.reconcile)
        self._claims.subscribe(self._listen)
        self._snapshots.subscribe(lambda _, snapshot: self._listen_snapshot(snapshot))

    def _listen(self, _: str, claim: Json) -> None:
        if names.is_populated(claim):
            self.controller.queue.add(key_of(claim))
        owner = controller_of(claim)
        if owner is not None and owner["kind"] == PVC.kind:
            self.controller.queue.add((claim["metadata"]["namespace"], owner["name"]))

    def _listen_snapshot(self, snapshot: Json) -> None:
        target = names.annotations_of(snapshot).get(names.CONTENT_OF, "").partition("/")
        if target[2]:
            self.controller.queue.add((target[0], target[2]))

    def reconcile(self, key: Key) -> float | None:
        """Bring one claim on: make its prime, follow it, hand its volume over."""
        claim = self._claims.get(*key)
        if claim is None or not names.is_populated(claim) or deleting(claim):
            return None
        prime = self._claims.get(key[0], names.prime_name(claim))
        if phase(claim) == "Bound":
            return self._clean_up(claim, prime)
        storage_class = self._classes.get("", claim["spec"].get("storageClassName") or "")
        if classes.waits(storage_class, claim) and SELECTED_NODE not in names.annotations_of(claim):
            return None
        if prime is None:
            return self._begin(claim)
        self._follow(claim, prime)
        return self._hand_over(claim, prime)

    def _begin(self, claim: Json) -> float | None:
        order = json.loads(names.annotations_of(claim).get(names.ORDER, "{}"))
        given = order.get("annotations")
        if given is None:
            given = self._content(claim, order)
            if given is None:
                return SOON_SECONDS
        meta, name = claim["metadata"], names.prime_name(claim)
        kept = {k: v for k, v in names.annotations_of(claim).items() if k in (SELECTED_NODE, names.IMMEDIATE)}
        for pod, named in ((names.IMPORT_POD, names.importer_pod_name), (names.UPLOAD_POD, names.clone_pod_name)):
            if pod in given:
                given = {**given, pod: named(name)}
        prime = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "labels": {**names.APP, **names.RECOMMENDED_LABELS},
                "annotations": {**given, **kept},
                "ownerReferences": [owner_reference({**claim, "kind": PVC.kind}, PVC)],
            },
            "spec": {k: v for k, v in claim["spec"].items() if k not in ("dataSource", "dataSourceRef", "volumeName")},
        }
        try:
            self._context.cluster.create(PVC, prime)
        except ApiFailure as failure:
            if failure.reason == "AlreadyExists" or names.is_terminating(failure):
                return None
            reason = "ErrExceededQuota" if "exceeded quota" in failure.message else "ErrCreatingPVCPrime"
            self._context.events.warning(claim, reason, failure.message, component=COMPONENT)
            raise
        message = f"PVC Prime {name} created successfully"
        self._context.events.normal(claim, "CreatedPVCPrimeSuccessfully", message, component=COMPONENT)
        content = {names.POD_PHASE: "Running"} if names.CONTENT_OF in given else {}
        self._annotate(claim, {names.PRIME: name, **content})
        return None

    def _content(self, claim: Json, order: Json) -> dict[str, str] | None:
        """Return how the driver is asked for a volume with content; None while its source is not ready."""
        if "snapshot" in order:
            namespace, _, name = order["snapshot"].partition("/")
            return self._of_snapshot(self._snapshots.get(namespace, name))
        source = str(order.get("claim"))
        if not self._population.source_ready(claim, source):
            return None
        namespace, _, name = source.partition("/")
        if order.get("strategy") == classes.CSI_CLONE:
            found = self._claims.get(namespace, name) or {}
            return {names.CONTENT_OF: f"volume/{dig(found, 'spec', 'volumeName')}"}
        return self._of_snapshot(self._own_snapshot(claim, namespace, name))

    @staticmethod
    def _of_snapshot(snapshot: Json | None) -> dict[str, str] | None:
        if snapshot is None or not dig(snapshot, "status", "readyToUse"):
            return None
        return {names.CONTENT_OF: f"snapshot/{snapshot['metadata']['uid']}"}

    def _own_snapshot(self, claim: Json, namespace: str, name: str) -> Json | None:
        """Return the snapshot that is made for this one clone."""
        own = f"tmp-snapshot-{claim['metadata']['uid']}"
        found = self._snapshots.get(namespace, own)
        if found is not None:
            return found
        storage_class = self._classes.get("", claim["spec"].get("storageClassName") or "")
        made = classes.snapshot_class(self._snapshot_classes.list(), storage_class)
        body = {
            "apiVersion": VOLUME_SNAPSHOT.api_version,
            "kind": VOLUME_SNAPSHOT.kind,
            "metadata": {
                "name": own,
                "namespace": namespace,
                "labels": names.APP,
                "annotations": {names.CONTENT_OF: "/".join(key_of(claim))},
            },
            "spec": {"volumeSnapshotClassName": made, "source": {"persistentVolumeClaimName": name}},
        }
        self._context.cluster.create_if_absent(VOLUME_SNAPSHOT, body)
        return None

    def _follow(self, claim: Json, prime: Json) -> None:
        told, before = names.annotations_of(prime), names.annotations_of(claim)
        changed = {key: told[key] for key in FATE if key in told and before.get(key) != told[key]}
        if names.PRIME not in before:
            changed[names.PRIME] = prime["metadata"]["name"]
        self._annotate(claim, changed)

    def _hand_over(self, claim: Json, prime: Json) -> float | None:
        """Give a prime's volume to its claim, once it has the content."""
        annotations = names.annotations_of(prime)
        done = names.CONTENT_OF in annotations or annotations.get(names.POD_PHASE) == "Succeeded"
        if not done or phase(prime) != "Bound":
            return None
        volume, meta = self._volumes.get("", prime["spec"]["volumeName"]), claim["metadata"]
        if volume is None or dig(volume, "spec", "claimRef", "uid") == meta["uid"]:
            return None if volume else SOON_SECONDS
        self._annotate(claim, {names.POD_PHASE: "Succeeded"})
        reference = {
            "apiVersion": "v1",
            "kind": PVC.kind,
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
        }
        self._context.cluster.merge(PV, volume["metadata"]["name"], {"spec": {"claimRef": reference}})
        return SOON_SECONDS

    def _clean_up(self, claim: Json, prime: Json | None) -> float | None:
        """Take away what only served to fill the claim."""
        if prime is not None and not deleting(prime):
            self._context.cluster.delete(PVC, prime["metadata"]["name"], prime["metadata"]["namespace"])
        order = json.loads(names.annotations_of(claim).get(names.ORDER, "{}"))
        namespace = str(order.get("claim", "")).partition("/")[0]
        own = f"tmp-snapshot-{claim['metadata']['uid']}"
        if namespace and self._snapshots.get(namespace, own) is not None:
            self._context.cluster.delete(VOLUME_SNAPSHOT, own, namespace)
        return None

    def _annotate(self, claim: Json, annotations: dict[str, str]) -> None:
        if not annotations:
            return
        meta = claim["metadata"]
        patch = {"metadata": {"uid": meta["uid"], "annotations": annotations}}
        try:
            self._context.cluster.merge(PVC, meta["name"], patch, meta["namespace"])
        except ApiFailure as failure:
            if failure.code not in {404, 409}:
                raise
