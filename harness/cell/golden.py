"""Golden images: each disk image is imported once per infra cluster, verified, and shared by all cells.

A name is never used again for another import: what failed stays as it is for whoever wants to look, and the next import
goes into the next name. So nobody ever clones what an earlier import left behind.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace

from harness.cell.site import Site
from harness.errors import BadImage, InfraError, InfraRetriable, VmatrixError
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.resources import (
    CONFIG_MAP,
    DATA_SOURCE,
    DATA_VOLUME,
    NAMESPACE,
    PVC,
    SECRET,
    STORAGE_PROFILE,
    VOLUME_SNAPSHOT,
    Resource,
)
from harness.machines.kubevirt.disks import (
    FOR_A_CONSUMER,
    CloneStuck,
    condition,
    disk_trouble,
    failed_import,
    failure_of,
    hopeless,
)
from harness.machines.kubevirt.manifests import GoldenImage, Origin, golden
from harness.model import LABEL_DOMAIN, LABEL_MANAGED, MANAGED_BY
from harness.until import Deadline, NotYet, TimedOut, until

EVENTS_INTERVAL = 2.0  # between looks at the events of a disk that does not come on
TEXT = 1500  # of events in an error's detail
GONE = "it was deleted during the wait"


@dataclass(frozen=True)
class DiskPatience:
    """How long a disk may take its time, in seconds.

    stall: without any progress.  trouble: with a trouble that may come right by itself, such as a used-up quota.
    """

    stall: float
    trouble: float


@dataclass
class DiskWatch:
    """One DataVolume that is waited for, and what was seen of it.

    consumer: whether a machine is there that will use the disk, so that its waiting for one is not a stall.
    """

    cluster: Cluster
    namespace: str
    name: str
    patience: DiskPatience
    consumer: bool = False
    phase: str = ""
    _uid: str = ""
    _seen: tuple[str, str, int] = ("", "", -1)
    _seen_at: float = field(default_factory=time.monotonic)
    _looked_at: float = 0.0

    @property
    def what(self) -> str:
        """Return what is waited for, for a person."""
        return f"disk {self.namespace}/{self.name}"

    @property
    def waits_for_machine(self) -> bool:
        """Tell whether the disk waits for the machine that will use it."""
        return self.consumer and self.phase in FOR_A_CONSUMER

    @property
    def idle(self) -> float:
        """Return for how many seconds nothing has changed."""
        return time.monotonic() - self._seen_at

    def look(self) -> bool | NotYet:
        """Tell whether the disk is whole.

        Raises:
            BadImage: the image is not what the user says it is.  CloneStuck: an import may succeed where this does not.
            InfraRetriable: no room, no way to the image, or no progress.  InfraError: it can never come right.
        """
        volume = self.cluster.get(DATA_VOLUME, self.name, self.namespace)
        if volume is None:
            return self._collected()
        self._refuse_another(volume)
        status = volume.get("status") or {}
        self.phase = str(status.get("phase") or "")
        progress = (self.phase, str(status.get("progress") or ""), int(status.get("restartCount") or 0))
        if progress != self._seen:
            self._seen, self._seen_at = progress, time.monotonic()
        if self.phase == "Succeeded":
            return True
        if hopeless(volume):
            raise self.failure(volume)
        if not self.waits_for_machine:
            self._refuse_trouble(volume)
            self._refuse_stalled(volume)
        return NotYet(f"{self.phase or 'new'} {progress[1]}".strip())

    def failure(self, volume: Json) -> VmatrixError:
        """Return why an import has failed, in the importer's own words."""
        return failure_of(self.cluster, self.what, volume, detail=self.events())

    def events(self) -> str:
        """Return the disk's last events, for a person; "" where they may not be looked at."""
        try:
            return "\n".join(self.cluster.events_of(self.namespace, self.name))[-TEXT:]
        except ApiFailure:
            return ""

    def _refuse_another(self, volume: Json) -> None:
        uid = str(volume["metadata"].get("uid", ""))
        if self._uid and uid != self._uid:
            raise InfraError(
                f"{self.what} was replaced by another of the same name during the wait",
                hint="its content is unknown: repeat the run",
            )
        self._uid = uid

    def _collected(self) -> bool:
        """Tell whether a DataVolume that is gone has left its whole claim: CDI before 1.62 takes it away by itself."""
        if self._uid:
            claims = self.cluster.list(PVC, self.namespace, fields=f"metadata.name={self.name}").items
            owners = [o for c in claims for o in c["metadata"].get("ownerReferences") or []]
            if any((c.get("status") or {}).get("phase") == "Bound" for c in claims) and not owners:
                return True
        raise InfraError(f"{self.what}: {GONE}", hint="the events there, or the API's audit log, may show by whom")

    def _refuse_trouble(self, volume: Json) -> None:
        """Raise for what the conditions and events of a disk that does not come on say."""
        patient = self.idle <= self.patience.trouble
        if self.idle < EVENTS_INTERVAL or time.monotonic() < self._looked_at + EVENTS_INTERVAL:
            return
        self._looked_at = time.monotonic()
        running = condition(volume, "Running")
        if running.get("reason") == "Unschedulable" and not patient:
            raise InfraRetriable(
                f"{self.what}: {running.get('message') or 'its importer cannot be scheduled'}",
                hint="no node has room for the importer, or none reaches its volume: kubectl describe pods there",
                detail=self.events(),
            )
        trouble = disk_trouble(self.cluster, self.what, volume, patient=patient)
        if trouble is not None:
            trouble.detail = trouble.detail or self.events()
            raise trouble

    def _refuse_stalled(self, volume: Json) -> None:
        if self.idle <= self.patience.stall:
            return
        source = volume["spec"].get("source") or {}
        clones = bool(source.get("pvc") or source.get("snapshot") or volume["spec"].get("sourceRef"))
        made = self._seen[1] if self._seen[1] not in ("", "N/A") else ""
        summary = f"{self.what} made no progress for {self.idle:.0f} s: {self.phase or 'no phase'} {made}".rstrip()
        hint = "is the storage, or the image's server, overloaded or down? golden_stall in timeouts.yml is the limit"
        if clones and self.consumer:
            raise CloneStuck(summary, hint=f"the next attempt imports the image instead; {hint}", detail=self.events())
        if self.phase in FOR_A_CONSUMER:
            hint = "this CDI does not bind at once when it is asked to: set storage_class to one that binds Immediate"
        raise TimedOut(summary, hint=hint, detail=self.events())


def refuse_missing(site: Site, image: GoldenImage) -> None:
    """Refuse an image whose Secret or ConfigMap is missing, as far as the job may tell.

    Raises:
        BadImage: one does not exist.
    """
    if image.certificates:
        command = "kubectl create configmap {} --from-file=ca.pem"
        _require(site, image, CONFIG_MAP, image.certificates, command)
    if image.credentials:
        command = "kubectl create secret generic {} --from-literal=accessKeyId=USER --from-literal=secretKey=PASSWORD"
        _require(site, image, SECRET, image.credentials, command)


def _require(site: Site, image: GoldenImage, resource: Resource, name: str, command: str) -> None:
    namespace = site.images_namespace
    try:
        there = _secret_exists(site, name) if resource is SECRET else site.cluster.get(resource, name, namespace)
    except ApiFailure as failure:
        if failure.forbidden:
            return
        raise
    if not there:
        raise BadImage(
            f"the {resource.kind} {namespace}/{name} that image {image.name} names in matrix/images.yml does not exist",
            hint=f"{command.format(name)} -n {namespace}",
        )


def _secret_exists(site: Site, name: str) -> bool:
    """Tell whether a Secret exists without reading it: one of its name can be made, or it cannot."""
    try:
        site.cluster.create(SECRET, SECRET.manifest(name, site.images_namespace, labels={}), dry_run=True)
    except ApiFailure as failure:
        if failure.exists:
            return True
        raise
    return False


log = logging.getLogger(__name__)
SNAPSHOT = "snapshot"
LABELS = {LABEL_MANAGED: MANAGED_BY}


def snapshot_of(site: Site, name: str) -> Origin | None:
    """Return a snapshot of a golden image as what machines are cloned from, made at the first call.

    Args:
        name: of the golden image's claim, which is whole.

    Returns:
        None where the class clones otherwise, or the snapshot cannot be had.
    """
    try:
        snapshot_class = _snapshot_class(site, name)
        if snapshot_class is None:
            return None
        _ensure_snapshot(site, name, snapshot_class)
        spec = {"source": {"snapshot": {"namespace": site.images_namespace, "name": name}}}
        site.cluster.create_if_absent(
            DATA_SOURCE, DATA_SOURCE.manifest(name, site.images_namespace, labels=LABELS, spec=spec)
        )
    except ApiFailure as refused:
        if not (refused.forbidden or refused.not_found):
            raise
        log.info("no snapshot of %s: %s", name, refused.summary)
        return None
    except VmatrixError as failure:
        log.warning("no snapshot of %s: %s", name, failure.summary)
        return None
    return Origin("data source", site.images_namespace, name)


def _snapshot_class(site: Site, name: str) -> str | None:
    """Return the class of snapshots by which CDI clones claims such as the golden image's."""
    claims = site.cluster.list(PVC, site.images_namespace, fields=f"metadata.name={name}").items
    storage_class = next((c["spec"].get("storageClassName") for c in claims), site.storage_class)
    profile = site.cluster.get(STORAGE_PROFILE, storage_class) if storage_class else None
    status = (profile or {}).get("status") or {}
    return (status.get("snapshotClass") or None) if status.get("cloneStrategy") == SNAPSHOT else None


def _ensure_snapshot(site: Site, name: str, snapshot_class: str) -> None:
    namespace = site.images_namespace
    spec = {"volumeSnapshotClassName": snapshot_class, "source": {"persistentVolumeClaimName": name}}
    site.cluster.create_if_absent(VOLUME_SNAPSHOT, VOLUME_SNAPSHOT.manifest(name, namespace, labels=LABELS, spec=spec))

    def usable() -> bool | NotYet:
        status: Json = (site.cluster.get(VOLUME_SNAPSHOT, name, namespace) or {}).get("status") or {}
        if status.get("readyToUse"):
            return True
        return NotYet(str((status.get("error") or {}).get("message") or "not ready to use"))

    until(
        usable,
        deadline=Deadline.after(site.timeouts.golden_stall),
        what=f"VolumeSnapshot {namespace}/{name} to be usable",
        interval=0.2,
    )


LABEL_IMAGES = f"{LABEL_DOMAIN}/golden-images"
MOST_IMPORTS = 3  # of one image, all names of it together
IMPORT_INTERVAL = 0.2  # between looks at an import


def ensure_golden(site: Site, image: GoldenImage) -> Origin:
    """Import a golden image unless the infra cluster has it; wait until it is whole.

    A failure that may pass (network, storage) is tried once more, under a new name.

    Returns:
        What machines' disks are to be cloned from.

    Raises:
        BadImage: the image is not what the user says it is.  InfraError: it can never come right.
        InfraRetriable: no room, no way to the image; TimedOut: it took too long, or made no progress for too long.
    """
    _make_namespace(site)
    refuse_missing(site, image)
    deadline = Deadline.after(site.timeouts.golden_image)
    failures: list[InfraRetriable] = []
    for name in names(image):
        if not _begin(site, replace(image, name=name)):
            continue
        try:
            wait_for_volume(
                site.cluster,
                site.images_namespace,
                name,
                deadline=deadline,
                stall_seconds=site.timeouts.golden_stall,
                trouble_seconds=site.timeouts.unschedulable,
            )
        except InfraRetriable as failure:
            failures.append(failure)
            if len(failures) > 1 or deadline.remaining() <= 0:
                raise
            log.warning("%s; trying again under a new name", failure.summary)
            continue
        return snapshot_of(site, name) or Origin("claim", site.images_namespace, name)
    if failures:
        raise failures[-1]
    raise _exhausted(site, image)


def names(image: GoldenImage) -> list[str]:
    """Return the names that imports of an image take, one after the other."""
    return [image.name, *(f"{image.name}-{number}" for number in range(2, MOST_IMPORTS + 1))]


def _make_namespace(site: Site) -> None:
    namespace = site.images_namespace
    if site.namespace is None and site.cluster.get(NAMESPACE, namespace) is None:
        labels = {LABEL_MANAGED: MANAGED_BY, LABEL_IMAGES: "true", "pod-security.kubernetes.io/enforce": "privileged"}
        site.cluster.create_if_absent(NAMESPACE, NAMESPACE.manifest(namespace, "", labels=labels))


def _begin(site: Site, image: GoldenImage) -> bool:
    """Begin an import, or join one under way; False when that name is used up."""
    namespace = site.images_namespace
    labels = {LABEL_MANAGED: MANAGED_BY, LABEL_IMAGES: "true"}
    manifest = golden(
        image, labels=labels, storage_class=site.storage_class, directory=site.templates, namespace=namespace
    )
    try:
        if site.cluster.create_if_absent(DATA_VOLUME, manifest):
            return True
    except ApiFailure as refused:
        if "already exists" in refused.message:  # CDI: a claim of that name is there, of an import that was removed
            return False
        raise
    volume = site.cluster.get(DATA_VOLUME, image.name, namespace)
    return volume is not None and not hopeless(volume)


def _exhausted(site: Site, image: GoldenImage) -> Exception:
    namespace, used = site.images_namespace, names(image)
    last: Json = site.cluster.get(DATA_VOLUME, used[-1], namespace) or {}
    url = ((last.get("spec") or {}).get("source") or {}).get("http", {}).get("url", image.url)
    what = f"{len(used)} imports of {image.name} in {namespace} have failed, the last one from {url}"
    failure = failed_import(site.cluster, what, last, namespace=namespace)
    remedy = f"then: kubectl delete datavolume -n {namespace} {' '.join(used)}"
    return type(failure)(failure.summary, hint=f"{failure.hint}; {remedy}", detail=failure.detail)


def wait_for_volume(
    cluster: Cluster,
    namespace: str,
    name: str,
    *,
    deadline: Deadline,
    stall_seconds: float,
    trouble_seconds: float = 60.0,
) -> None:
    """Wait until a DataVolume without a machine has succeeded; fail as soon as it cannot any more.

    Args:
        stall_seconds: how long it may be without progress.
        trouble_seconds: how long with a trouble that may come right by itself, such as a used-up quota.

    Raises:
        See `DiskWatch.look`.  TimedOut: at the deadline.
    """
    watch = DiskWatch(cluster, namespace, name, DiskPatience(stall_seconds, trouble_seconds))
    until(
        watch.look,
        deadline=deadline,
        what=f"DataVolume {namespace}/{name} to succeed",
        describe=watch.events,
        interval=IMPORT_INTERVAL,
    )
