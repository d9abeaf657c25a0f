"""What a pod says to pass Pod Security `restricted`.

https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
"""

from __future__ import annotations

from harness.kube.failures import Json


def pod_security(user: int) -> Json:
    """Return the pod's part: all of its processes are one user, with a group of the same number."""
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Json:
    """Return the part of each container; its root is read-only, too."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
