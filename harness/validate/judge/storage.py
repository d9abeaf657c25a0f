"""What a guest's default storage class must do: bind a claim, keep what a pod wrote for another one, take it all away.

Does not cover how fast volumes are, several nodes at once, or what becomes of a volume whose node is gone.
"""

from __future__ import annotations

import shlex
from typing import Any

from harness.kube import Cluster
from harness.kube.resources import NAMESPACE, POD, PV, PVC, SERVICE_ACCOUNT, STORAGE_CLASS
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.judge.mismatch import Mismatch, differs

NAME = "vmatrix-storage"
WRITER, READER = "writer", "reader"
CLAIM = "kept"
SIZE = "16Mi"
FILE = "/kept/token"
DEFAULT = "storageclass.kubernetes.io/is-default-class"
ENDED = ("Succeeded", "Failed")
INTERVAL = 0.5  # seconds between looks

Json = dict[str, Any]


def wrong_default_class(api: Cluster) -> list[Mismatch]:
    """Return a finding unless exactly one storage class is the default."""
    return differs("the cluster", "default storage classes", 1, len(default_classes(api)))


def default_classes(api: Cluster) -> list[str]:
    """Return the names of the storage classes that claims get which name none."""
    classes = [item["metadata"] for item in api.list(STORAGE_CLASS).items]
    return sorted(c["name"] for c in classes if c.get("annotations", {}).get(DEFAULT) == "true")


def lost_writes(api: Cluster, *, image: str, token: str, deadline: Deadline) -> list[Mismatch]:
    """Claim a volume, write to it from one pod, read it from another when the first is gone; then release it.

    Args:
        image: with a shell and cat.
        token: what is written; a new one each time, so that what an earlier run left cannot pass.
    """
    try:
        _begin(api, deadline)
        found = _run(api, WRITER, image, f"echo {shlex.quote(token)} >{FILE} && sync", deadline)
        claim = api.get(PVC, CLAIM, NAME) or {}
        volume = str(claim.get("spec", {}).get("volumeName", ""))
        found += differs(f"claim {CLAIM}", "phase", "Bound", claim.get("status", {}).get("phase"))
        found += differs(
            f"claim {CLAIM}", "class", default_classes(api), [claim.get("spec", {}).get("storageClassName")]
        )
        _remove_pod(api, WRITER, deadline)
        found += _run(api, READER, image, f"cat {FILE}", deadline)
        read = api.pod_log(NAME, READER, container="shell").strip()
        found += differs(f"pod {READER}", "to read what another pod wrote:", token, read)
        return found + _released(api, volume, deadline)
    except TimedOut as late:
        return [Mismatch("a volume of the default storage class", "to serve two pods in turn", _told(api, late))]


def remove(api: Cluster) -> None:
    """Ask for the deletion of everything that was made. Idempotent; nobody waits for it."""
    api.delete(NAMESPACE, NAME)


def _begin(api: Cluster, deadline: Deadline) -> None:
    remove(api)  # what an interrupted run left

    def gone() -> bool | NotYet:
        return True if api.get(NAMESPACE, NAME) is None else NotYet("it is there")

    until(gone, deadline=deadline, what=f"namespace {NAME} of an earlier run is gone", interval=INTERVAL)
    api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}})
    until(
        lambda: api.get(SERVICE_ACCOUNT, "default", NAME) or NotYet("there is none"),
        deadline=deadline,
        what=f"namespace {NAME} has its default ServiceAccount",
        interval=INTERVAL,
    )
    api.create(PVC, _claim())


def _run(api: Cluster, name: str, image: str, script: str, deadline: Deadline) -> list[Mismatch]:
    """Run a shell script in a pod that has the volume; return a finding when it fails.

    Raises:
        TimedOut: it did not end.
    """
    api.create(POD, _pod(name, image, script))

    def ended() -> str | NotYet:
        phase = str((api.get(POD, name, NAME) or {}).get("status", {}).get("phase", "gone"))
        return phase if phase in ENDED else NotYet(f"it is {phase}")

    phase = until(ended, deadline=deadline, what=f"pod {name} has run `{script}`", interval=INTERVAL)
    return differs(f"pod {name}", f"after `{script}`", ENDED[0], phase)


def _remove_pod(api: Cluster, name: str, deadline: Deadline) -> None:
    api.delete(POD, name, NAME)

    def gone() -> bool | NotYet:
        return True if api.get(POD, name, NAME) is None else NotYet("it is there")

    until(gone, deadline=deadline, what=f"pod {name} is gone", interval=INTERVAL)


def _released(api: Cluster, volume: str, deadline: Deadline) -> list[Mismatch]:
    """Delete pod and claim; return a finding unless the volume goes with them."""
    _remove_pod(api, READER, deadline)
    api.delete(PVC, CLAIM, NAME)

    def gone() -> bool | NotYet:
        left = api.get(PV, volume)
        return True if left is None else NotYet(f"it is {left.get('status', {}).get('phase')}")

    if not volume:
        return [Mismatch(f"claim {CLAIM}", "a volume", "none")]
    until(gone, deadline=deadline, what=f"volume {volume} is gone after its claim", interval=INTERVAL)
    return []


def _told(api: Cluster, late: TimedOut) -> str:
    """Return what did not come true, with the last events of the claim and the pods."""
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
    container = {
        "name": "shell",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": CLAIM, "mountPath": "/kept"}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAME},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [{"name": CLAIM, "persistentVolumeClaim": {"claimName": CLAIM}}],
        },
    }
