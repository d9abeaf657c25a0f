"""The pods that CDI makes for a claim: the importer, and the target of a clone.

They are bound by the real scheduler and count against quotas, as on a real CDI; what they would do is done by this
process on the node (see `player`).
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.embedded.cdi import names
from harness.kube.client import Json
from harness.kube.objects import owner_reference
from harness.kube.resources import PVC

# CDIConfig's podResourceRequirements when nobody set others
RESOURCES = {"limits": {"cpu": "750m", "memory": "600M"}, "requests": {"cpu": "100m", "memory": "60M"}}
# Less than CDI's 30 s: a transfer ends at once when it is told to, and Kubernetes waits half the grace period of any
# pod that is left before it looks again at a namespace that is being deleted.
GRACE_SECONDS = 1
UNPRIVILEGED_USER = 107  # the user qemu in CDI's images
SECCOMP = {"type": "RuntimeDefault"}
DATA_VOLUME_NAME = "cdi-data-vol"
SCRATCH_VOLUME_NAME = "cdi-scratch-vol"
LABELS = {**names.NO_FILLING_UP_ALERT, **names.APP, **names.RECOMMENDED_LABELS, "prometheus.cdi.kubevirt.io": "true"}


def transfer_pod(claim: Json, name: str, role: str, *, scratch: bool = False) -> Json:
    """Return the pod that fills a claim: names.IMPORTER imports into it, names.CLONE_TARGET receives a clone for it.

    Args:
        scratch: whether it has a claim of its own to download into.
    """
    meta = claim["metadata"]
    volumes = {DATA_VOLUME_NAME: ("/data", meta["name"])}
    if scratch:
        volumes[SCRATCH_VOLUME_NAME] = ("/scratch", names.scratch_name(meta["name"]))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "annotations": {
                f"{names.GROUP}/storage.createdByController": "yes",
                "linkerd.io/inject": "disabled",
                "sidecar.istio.io/inject": "false",
            },
            "labels": {**LABELS, names.ROLE: role},
            "ownerReferences": [owner_reference(claim, PVC)],
        },
        "spec": {
            "restartPolicy": "OnFailure",
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "securityContext": {"fsGroup": UNPRIVILEGED_USER, "seccompProfile": SECCOMP},
            "containers": [_container(role, {volume: path for volume, (path, _) in volumes.items()})],
            "volumes": [
                {"name": volume, "persistentVolumeClaim": {"claimName": name}} for volume, (_, name) in volumes.items()
            ],
        },
    }


def has_scratch(pod: Json) -> bool:
    """Tell whether a pod has scratch space."""
    return any(volume["name"] == SCRATCH_VOLUME_NAME for volume in pod["spec"].get("volumes") or [])


def _container(role: str, mounts: Mapping[str, str]) -> Json:
    return {
        "name": role,
        "image": role,
        "imagePullPolicy": "IfNotPresent",
        "resources": RESOURCES,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": UNPRIVILEGED_USER,
            "seccompProfile": SECCOMP,
        },
        "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in mounts.items()],
    }
