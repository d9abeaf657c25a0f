"""People with rights of their own in a test's namespace: service accounts, by their tokens."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from harness.infra.cluster.rights import Right, binding, role
from harness.kube.client import Cluster
from harness.kube.in_cluster import config_of
from harness.kube.objects import ensure
from harness.kube.resources import ROLE, ROLE_BINDING, SERVICE_ACCOUNT


def person(api: Cluster, namespace: str, name: str, admin: Path, folder: Path) -> Cluster:
    """Return a client of somebody who may do nothing yet; `admin`: a kubeconfig of the same API."""
    api.ensure(SERVICE_ACCOUNT, SERVICE_ACCOUNT.manifest(name, namespace, labels={}))
    path = f"{SERVICE_ACCOUNT.path(namespace, name)}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.request("POST", path, body=body)["status"]["token"]
    cluster = yaml.safe_load(admin.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
    file = folder / f"{name}.kubeconfig"
    file.write_text(json.dumps(config_of(cluster, {"token": token})), encoding="utf-8")
    return Cluster.from_kubeconfig(file)


def permit(api: Cluster, namespace: str, name: str, *rights: Right) -> None:
    """Let somebody have exactly these rights."""
    ensure(api, ROLE, role(name, rights, namespace, {}))
    ensure(api, ROLE_BINDING, binding(name, name, [name], namespace, namespace, {}))
