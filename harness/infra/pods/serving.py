"""The kubelet's request for its serving certificate: told from all others, and approved.

The certificate is for the machine's address, which is not known before it boots.
"""

from __future__ import annotations

import base64
from http import HTTPStatus

from cryptography import x509
from cryptography.x509.oid import NameOID

from harness.kube.client import Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import CSR

SERVING = "kubernetes.io/kubelet-serving"


def approve_requests(cluster: Cluster, node: str) -> None:
    """Approve what a node asks for."""
    for request in cluster.list(CSR).items:
        if asks_for_serving(request, node):
            approve(cluster, request)


def serves(cluster: Cluster, node: str) -> bool:
    """Tell whether the API reaches a node's kubelet: before that, nobody sees a pod's log or enters a pod."""
    return cluster.send("GET", f"/api/v1/nodes/{node}/proxy/healthz").code == HTTPStatus.OK


def asks_for_serving(request: Json, node: str) -> bool:
    """Tell whether a request that nobody has answered is for the serving certificate of a node, and made by it."""
    spec, name = request["spec"], f"system:node:{node}"
    if spec.get("signerName") != SERVING or spec.get("username") != name or dig(request, "status", "conditions"):
        return False
    subject = x509.load_pem_x509_csr(base64.b64decode(spec["request"])).subject
    return [str(part.value) for part in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [name]


def approve(cluster: Cluster, request: Json) -> None:
    """Approve a request for a certificate."""
    why = {"type": "Approved", "status": "True", "reason": "PodsMachine", "message": "the instance's own machine"}
    body = {**request, "status": {**(request.get("status") or {}), "conditions": [why]}}
    cluster.replace(CSR, body, subresource="approval")
