"""A pod's own service account as a kubeconfig: what a job in a cluster has without anybody giving it one.

https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/#directly-accessing-the-rest-api
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from harness.files import write_atomically
from harness.kube.failures import Json

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
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
    told, namespace = environment.get("POD_NAMESPACE", ""), account / "namespace"
    return told or (namespace.read_text(encoding="utf-8").strip() if namespace.is_file() else "")


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
