"""Storage: the default storage class binds a claim, keeps what a pod wrote for another one, and deletes the volume.

Does not cover the speed of volumes, several nodes at once, or a volume whose node is gone.
"""

from __future__ import annotations

import shlex

from harness.kube import Cluster
from harness.kube.resources import NAMESPACE, POD, PV, PVC, STORAGE_CLASS
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.facts.cluster import Json
from harness.validate.findings import Mismatch, differs
from harness.validate.pods import INTERVAL, container, ensure_namespace, wait_for_service_account, wait_until_gone

NAME = "vmatrix-storage"
WRITER, READER = "writer", "reader"
CLAIM = "kept"
SIZE = "16Mi"
FILE = "/kept/token"
DEFAULT = "storageclass.kubernetes.io/is-default-class"
ENDED = ("Succeeded", "Failed")


def wrong_default_class(api: Cluster) -> list[Mismatch]:
    """Return a mismatch unless exactly one storage class is the default."""
    return differs("the cluster", "default storage classes", 1, len(default_classes(api)))


def default_classes(api: Cluster) -> list[str]:
    """Return the names of the storage classes that are marked as default."""
    classes = [item["metadata"] for item in api.list(STORAGE_CLASS).items]
    return sorted(c["name"] for c in classes if c.get("annotations", {}).get(DEFAULT) == "true")


def lost_writes(api: Cluster, *, image: str, token: str, deadline: Deadline) -> list[Mismatch]:
    """Claim a volume, write to it from one pod, read it from another after the first is gone, then release it.

    Args:
        image: with a shell and cat.
        token: what is written; a new one each time, so that data of an earlier run cannot pass.
    """
    try:
        _begin(api, deadline)
        mismatches = _run(api, WRITER, image, f"echo {shlex.quote(token)} >{FILE} && sync", deadline)
        claim = api.get(PVC, CLAIM, NAME) or {}
        volume = str(claim.get("spec", {}).get("volumeName", ""))
        mismatches += differs(f"claim {CLAIM}", "phase", "Bound", claim.get("status", {}).get("phase"))
        storage_class = claim.get("spec", {}).get("storageClassName")
        mismatches += differs(f"claim {CLAIM}", "class", default_classes(api), [storage_class])
        _remove_pod(api, WRITER, deadline)
        mismatches += _run(api, READER, image, f"cat {FILE}", deadline)
        read = api.pod_log(NAME, READER, container="shell").strip()
        mismatches += differs(f"pod {READER}", "to read what another pod wrote:", token, read)
        return mismatches + _released(api, volume, deadline)
    except TimedOut as late:
        return [Mismatch("a volume of the default storage class", "to serve two pods in turn", _told(api, late))]


def remove(api: Cluster) -> None:
    """Ask for the deletion of everything that was created. Idempotent; does not wait."""
    api.delete(NAMESPACE, NAME)


def _begin(api: Cluster, deadline: Deadline) -> None:
    remove(api)  # what an interrupted run left
    wait_until_gone(api, NAMESPACE, NAME, None, deadline)
    ensure_namespace(api, NAME)
    wait_for_service_account(api, NAME, deadline)
    api.create(PVC, _claim())


def _run(api: Cluster, name: str, image: str, script: str, deadline: Deadline) -> list[Mismatch]:
    """Run a shell script in a pod that has the volume; return a mismatch when it fails.

    Raises:
        TimedOut: it did not end.
    """
    api.create(POD, _pod(name, image, script))

    def ended() -> str | NotYet:
        phase = str((api.get(POD, name, NAME) or {}).get("status", {}).get("phase", "gone"))
        return phase if phase in ENDED else NotYet(f"its phase is {phase}")

    phase = until(ended, deadline=deadline, what=f"pod {name} to run `{script}`", interval=INTERVAL)
    return differs(f"pod {name}", f"after `{script}`", ENDED[0], phase)


def _remove_pod(api: Cluster, name: str, deadline: Deadline) -> None:
    api.delete(POD, name, NAME)
    wait_until_gone(api, POD, name, NAME, deadline)


def _released(api: Cluster, volume: str, deadline: Deadline) -> list[Mismatch]:
    """Delete pod and claim, and wait for the volume to go with them; return a mismatch when there was none."""
    _remove_pod(api, READER, deadline)
    api.delete(PVC, CLAIM, NAME)
    if not volume:
        return [Mismatch(f"claim {CLAIM}", "a volume", "none")]
    wait_until_gone(api, PV, volume, None, deadline)
    return []


def _told(api: Cluster, late: TimedOut) -> str:
    """Return what timed out, with the last events of the claim and the pods."""
    events = [line for name in (CLAIM, WRITER, READER) for line in api.events_of(NAME, name)[-3:]]
    return "; ".join([late.summary, *events])


def _claim() -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "namespace": NAME},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": SIZE}}},
    }


def _pod(name: str, image: str, script: str) -> Json:
    mounts = [{"name": CLAIM, "mountPath": "/kept"}]
    shell = container("shell", image, command=["sh", "-c", script], volumeMounts=mounts)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAME},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [shell],
            "volumes": [{"name": CLAIM, "persistentVolumeClaim": {"claimName": CLAIM}}],
        },
    }
