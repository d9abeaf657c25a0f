"""Golden images: each disk image is imported once per infra cluster, verified, and shared by all cells."""

from __future__ import annotations

import time

from harness.cell.manifests import GoldenImage, golden
from harness.cell.site import Site
from harness.errors import InfraError
from harness.kube.client import Cluster, Json
from harness.kube.resources import DATA_VOLUME, NAMESPACE
from harness.model import LABEL_DOMAIN, LABEL_MANAGED, MANAGED_BY
from harness.until import Deadline, NotYet, TimedOut, until

LABEL_IMAGES = f"{LABEL_DOMAIN}/golden-images"
# An import that cannot succeed restarts for ever (CDI never says Failed for a 404 or a bad certificate).
MOST_RESTARTS = 3


def ensure_golden(site: Site, image: GoldenImage) -> None:
    """Import a golden image unless the infra cluster has it; wait until it is whole.

    Raises:
        InfraError: the import can never succeed (wrong checksum, or it restarted three times).
        TimedOut: it took too long, or made no progress for too long.
    """
    labels = {LABEL_MANAGED: MANAGED_BY, LABEL_IMAGES: "true"}
    namespace = site.images_namespace
    if site.namespace is None and site.cluster.get(NAMESPACE, namespace) is None:
        meta = {"name": namespace, "labels": {**labels, "pod-security.kubernetes.io/enforce": "privileged"}}
        site.cluster.create_if_absent(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    manifest = golden(
        image, labels=labels, storage_class=site.storage_class, directory=site.templates, namespace=namespace
    )
    site.cluster.create_if_absent(DATA_VOLUME, manifest)
    wait_for_volume(
        site.cluster,
        namespace,
        image.name,
        deadline=Deadline.after(site.timeouts.golden_image),
        stall_seconds=site.timeouts.golden_stall,
    )


def wait_for_volume(cluster: Cluster, namespace: str, name: str, *, deadline: Deadline, stall_seconds: float) -> None:
    """Wait until a DataVolume has succeeded; fail as soon as it cannot any more.

    Raises:
        InfraError: phase Failed, or too many restarts.  TimedOut: deadline, or no progress for `stall_seconds`.
    """
    seen: tuple[str, str, int] = ("", "", 0)
    seen_at = time.monotonic()

    def probe() -> bool | NotYet:
        nonlocal seen, seen_at
        volume = cluster.get(DATA_VOLUME, name, namespace)
        if volume is None:
            raise InfraError(f"DataVolume {namespace}/{name} was deleted while it was waited for")
        status = volume.get("status") or {}
        now_seen = (status.get("phase", ""), status.get("progress", ""), int(status.get("restartCount") or 0))
        if now_seen != seen:
            seen, seen_at = now_seen, time.monotonic()
        phase, progress, restarts = now_seen
        if phase == "Succeeded":
            return True
        if phase == "Failed" or restarts >= MOST_RESTARTS:
            raise _hopeless(cluster, namespace, name, volume, restarts)
        if time.monotonic() - seen_at > stall_seconds:
            raise TimedOut(
                f"DataVolume {namespace}/{name} made no progress for {stall_seconds:.0f} s: {phase} {progress}",
                detail="\n".join(cluster.events_of(namespace, name)),
            )
        return NotYet(f"{phase or 'new'} {progress}".strip())

    until(
        probe,
        deadline=deadline,
        what=f"DataVolume {namespace}/{name} has succeeded",
        describe=lambda: "\n".join(cluster.events_of(namespace, name)),
        interval=0.2,
    )


def _hopeless(cluster: Cluster, namespace: str, name: str, volume: Json, restarts: int) -> InfraError:
    running: Json = next((c for c in volume["status"].get("conditions", []) if c["type"] == "Running"), {})
    why = running.get("message") or running.get("reason") or "no reason given"
    return InfraError(
        f"DataVolume {namespace}/{name} cannot be imported ({restarts} restarts): {why}",
        hint="check the image's URL and checksum in matrix/images.yml, and that the infra cluster reaches it",
        detail="\n".join(cluster.events_of(namespace, name)),
    )
