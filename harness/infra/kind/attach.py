"""The embedded KubeVirt and CDI part attached to a kind cluster: who it acts as, whom it trusts, what it keeps apart.

The part runs on this host, and so do its machines: a Node object of the cluster stands for the host. What the cluster
itself runs stays on the node that is a container, and no machine is ever scheduled there.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.embedded.node.registration import RUNS_PODS
from harness.errors import InfraError
from harness.files import write_atomically
from harness.infra.host import pki
from harness.infra.host.layout import Layout
from harness.infra.host.network import address_of
from harness.infra.host.pki import ensure_kubeconfig
from harness.infra.host.program import KUBEVIRT as KUBEVIRT_PROGRAM
from harness.kube.client import Cluster, Json
from harness.kube.resources import (
    CLUSTER_ROLE_BINDING,
    DAEMON_SET,
    DEPLOYMENT,
    NODE,
    SECRET,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
)
from harness.until import Deadline, NotYet, until

ACCOUNT = "vmatrix-kubevirt"
NAMESPACE = "kube-system"
TOKEN_SECONDS = 30.0  # the controller manager of a cluster that is ready makes it at once
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def attach(cluster: Cluster, nodes: Collection[str], layout: Layout, index: int) -> None:
    """Prepare a cluster, whose `nodes` are containers, for the embedded KubeVirt, which is started afterwards."""
    ensure_certificates(layout.pki, address=address_of(index), node=layout.node, kubeconfig=layout.kubeconfig)
    ensure_account(cluster, layout.kubeconfig, layout.kubeconfig_of(KUBEVIRT_PROGRAM))
    keep_apart(cluster, nodes)


def ensure_certificates(folder: Path, *, address: str, node: str, kubeconfig: Path) -> None:
    """Make the certificates of the part's services, and have it trust the cluster's own authority besides.

    Args:
        address: what the services listen on.
        node: the Node that stands for this host.
        kubeconfig: of the cluster; its API server shows certificates of its authority when it asks for logs.
    """
    pki.ensure(folder, addresses=[address], names=[], node=node)
    bundle = folder / f"{pki.CA}.crt"
    theirs = authority(kubeconfig)
    if theirs not in bundle.read_bytes():
        write_atomically(bundle, bundle.read_bytes().rstrip(b"\n") + b"\n" + theirs)


def authority(kubeconfig: Path) -> bytes:
    """Return the certificate authority of a kubeconfig's cluster in PEM."""
    return base64.b64decode(_cluster(kubeconfig)["certificate-authority-data"])


def ensure_account(cluster: Cluster, admin: Path, target: Path) -> None:
    """Write the kubeconfig of the embedded KubeVirt: a separate service account, which nobody else uses.

    The webhooks let this identity alone change what real operators would.
    Raises TimedOut when the cluster made no token.
    """
    meta = {"name": ACCOUNT, "namespace": NAMESPACE}
    cluster.ensure(SERVICE_ACCOUNT, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    cluster.ensure(
        CLUSTER_ROLE_BINDING,
        {
            "apiVersion": CLUSTER_ROLE_BINDING.api_version,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": CLUSTER_ROLE_BINDING.group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", **meta}],
        },
    )
    cluster.ensure(
        SECRET,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {**meta, "annotations": {"kubernetes.io/service-account.name": ACCOUNT}},
        },
    )
    ensure_kubeconfig(target, cluster=("kind", _cluster(admin)), user=(ACCOUNT, {"token": _token(cluster)}))


def _token(cluster: Cluster) -> str:
    def token() -> str | NotYet:
        found = cluster.get(SECRET, ACCOUNT, NAMESPACE) or {}
        encoded = (found.get("data") or {}).get("token")
        return base64.b64decode(encoded).decode() if encoded else NotYet("the secret has none")

    return until(token, deadline=Deadline.after(TOKEN_SECONDS), what=f"account {ACCOUNT} to have a token", interval=0.2)


def keep_apart(cluster: Cluster, nodes: Collection[str]) -> None:
    """Keep pods on the nodes that are containers, and machines off them.

    A pod on the Node that stands for the host would wait for ever: only machines run there. The cluster's own pods may
    look for a node before that one has its taint, so they name theirs. Machines need a label that these nodes lack.
    `nodes`: the names of the nodes that are containers.
    """
    for node in nodes:
        cluster.merge(NODE, node, {"metadata": {"labels": {RUNS_PODS: "true"}}, "spec": {"unschedulable": None}})
    for resource in (DEPLOYMENT, DAEMON_SET):
        for found in cluster.list(resource).items:
            patch = _staying(found)
            if patch is not None:
                meta = found["metadata"]
                cluster.merge(resource, meta["name"], patch, meta["namespace"])
    for found in cluster.list(STORAGE_CLASS).items:
        annotations = found["metadata"].get("annotations") or {}
        if annotations.get(DEFAULT_CLASS) == "true" and "vmatrix" not in str(found.get("provisioner")):
            cluster.merge(
                STORAGE_CLASS, found["metadata"]["name"], {"metadata": {"annotations": {DEFAULT_CLASS: "false"}}}
            )


def _staying(workload: Mapping[str, Any]) -> Json | None:
    """Return the patch that keeps a workload's pods on nodes that run pods, None when they stay there already."""
    spec = workload["spec"]["template"]["spec"]
    if {CONTROL_PLANE, RUNS_PODS} & set(spec.get("nodeSelector") or {}):
        return None
    return {"spec": {"template": {"spec": {"nodeSelector": {RUNS_PODS: "true"}}}}}


def _cluster(kubeconfig: Path) -> dict[str, Any]:
    """Return what a kubeconfig says of its one cluster."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    try:
        return dict(config["clusters"][0]["cluster"])
    except (KeyError, IndexError, TypeError) as error:
        raise InfraError(
            f"{kubeconfig} names no cluster", hint="vmatrix infra down --provider kind", paths=[kubeconfig]
        ) from error
