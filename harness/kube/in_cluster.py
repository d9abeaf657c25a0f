"""What a program in a pod knows without being told: a kubeconfig of its service account, its namespace, its image.

https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/#directly-accessing-the-rest-api
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from harness.files import write_atomically
from harness.kube.client import Cluster
from harness.kube.failures import Json
from harness.kube.objects import dig
from harness.kube.resources import POD

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
POD_NAME, POD_NAMESPACE = "POD_NAME", "POD_NAMESPACE"  # from the downward API
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def in_cluster_kubeconfig(target: Path, environment: Mapping[str, str], account: Path = ACCOUNT) -> Path | None:
    """Write a kubeconfig that names the files of the pod's service account, and none of what is in them.

    Returns its path; None where there is no service account, mounted at `account`, or no API server in `environment`.
    """
    config = in_cluster_config(environment, account)
    if config is None:
        return None
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, json.dumps(config, indent=2) + "\n")
    return target


def in_cluster_config(environment: Mapping[str, str], account: Path = ACCOUNT) -> Json | None:
    """Return that kubeconfig's content; None where there is no service account."""
    host, token, authority = environment.get(HOST), account / "token", account / "ca.crt"
    if not host or not token.is_file() or not authority.is_file():
        return None
    address = f"[{host}]" if ":" in host else host
    server = f"https://{address}:{environment.get(PORT, '443')}"
    namespace = account / "namespace"
    home = namespace.read_text(encoding="utf-8").strip() if namespace.is_file() else "default"
    cluster = {"server": server, "certificate-authority": str(authority)}
    return config_of(cluster, {"tokenFile": str(token)}, namespace=home)


def own_namespace(environment: Mapping[str, str], account: Path = ACCOUNT) -> str:
    """Return the namespace of the pod that this process runs in, "" outside of one."""
    if not environment.get(HOST):
        return ""
    told, namespace = environment.get(POD_NAMESPACE, ""), account / "namespace"
    return told or (namespace.read_text(encoding="utf-8").strip() if namespace.is_file() else "")


def own_image(cluster: Cluster, environment: Mapping[str, str]) -> str:
    """Return the image of the first container of this process's pod; "" outside of one.

    A manifest cannot say it: whoever replaces the image of a Deployment, as kustomize does, replaces it in one place.
    """
    name, namespace = environment.get(POD_NAME, ""), environment.get(POD_NAMESPACE, "")
    if not name or not namespace:
        return ""
    containers = dig(cluster.get(POD, name, namespace) or {}, "spec", "containers") or [{}]
    return str(containers[0].get("image", ""))


def config_of(cluster: Mapping[str, str], user: Mapping[str, str], *, namespace: str = "default") -> Json:
    """Return a kubeconfig of one context."""
    context = {"cluster": "own", "user": "own", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "own", "cluster": dict(cluster)}],
        "users": [{"name": "own", "user": dict(user)}],
        "contexts": [{"name": "own", "context": context}],
        "current-context": "own",
    }
