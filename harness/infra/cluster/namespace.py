"""Whether launcher pods may run in a namespace that cells share."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from harness.infra.findings import Finding
from harness.kube import ApiFailure, Cluster
from harness.kube.resources import NAMESPACE, POD

VIOLATES = "violates PodSecurity"
ENFORCE = "pod-security.kubernetes.io/enforce"


def check_namespace(cluster: Cluster, namespace: str) -> Iterator[Finding]:
    """Yield what keeps launcher pods out of a namespace that cells share: that it is gone, or its Pod Security."""
    try:
        found = cluster.get(NAMESPACE, namespace)
    except ApiFailure as failure:
        if failure.forbidden:  # a role in a namespace needs no right to look at the namespace itself
            return
        raise
    if found is None:
        yield Finding(
            f"namespace {namespace} does not exist", "cells share it", f"kubectl create namespace {namespace}"
        )
    elif (level := (found["metadata"].get("labels") or {}).get(ENFORCE)) == "restricted":
        yield Finding(
            f"namespace {namespace} enforces Pod Security {level}",
            "launcher pods set no seccomp profile, so they are refused",
            f"kubectl label namespace {namespace} {ENFORCE}=baseline --overwrite",
        )
    else:
        yield from check_pod_security(cluster, namespace)


def check_pod_security(cluster: Cluster, namespace: str) -> Iterator[Finding]:
    """Yield that a pod such as a machine's launcher is refused: by a dry run, where that is allowed.

    It sees what no label says: the default of the API server's own admission configuration, and policies of others.
    """
    answer = cluster.send("POST", POD.path(namespace), body=launcher_like(namespace), query={"dryRun": "All"})
    message = str((answer.body or {}).get("message", "")) if isinstance(answer.body, dict) else str(answer.body or "")
    if answer.code == HTTPStatus.FORBIDDEN and VIOLATES in message:
        yield Finding(
            f"namespace {namespace} refuses launcher pods: {message.partition(VIOLATES)[2].strip() or message}",
            "machines get no pod: the API server's default level or a policy is stricter than `baseline`",
            f"kubectl label namespace {namespace} {ENFORCE}=baseline --overwrite",
        )


def launcher_like(namespace: str) -> dict[str, Any]:
    """Return a pod that asks for what KubeVirt 1.9's launcher pods ask for of Pod Security, and for nothing else."""
    user = 107  # qemu's in KubeVirt's images
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
        "runAsGroup": user,
        "runAsNonRoot": True,
        "runAsUser": user,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "vmatrix-doctor", "namespace": namespace},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": user, "fsGroup": user},
            "containers": [{"name": "compute", "image": "virt-launcher", "securityContext": security}],
        },
    }
