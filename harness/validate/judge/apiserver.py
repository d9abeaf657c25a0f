"""What must be true of a guest's API server and kubelets, asked through the API itself."""

from __future__ import annotations

import base64
import ipaddress
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.errors import BadInput
from harness.kube import Cluster
from harness.kube.resources import SERVICE
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.judge.mismatch import Mismatch, differs, on_every

# Whom RBAC must refuse what (verb, group, resource). None of them is granted anything of this by any default role.
FORBIDDEN = (
    ("system:anonymous", "list", "", "secrets"),
    ("system:anonymous", "create", "", "pods"),
    ("system:serviceaccount:default:default", "list", "", "secrets"),
    ("system:serviceaccount:default:default", "create", "rbac.authorization.k8s.io", "clusterrolebindings"),
)
# What every kubelet must be configured to, whatever the cell: kubelet's authentication and authorization.
KUBELET_SETTINGS: Mapping[str, Any] = {
    "authentication.anonymous.enabled": False,
    "authentication.webhook.enabled": True,
    "authorization.mode": "Webhook",
    "readOnlyPort": 0,
    "rotateCertificates": True,
}


def wrong_version(api: Cluster, expected: ExpectedGuest) -> list[Mismatch]:
    """Return a finding when the API server that answers has another version than expected."""
    return differs("/version", "gitVersion", f"v{expected.kubernetes}", api.request("GET", "/version")["gitVersion"])


def failing_probes(api: Cluster) -> list[Mismatch]:
    """Return the parts of /readyz and /livez that are not ok."""
    found: list[Mismatch] = []
    for path in ("/readyz", "/livez"):
        answer = api.send("GET", path, query={"verbose": "true"})
        lines = str(answer.body).splitlines()
        good = [line for line in lines if line.startswith("[+]")]
        found += [Mismatch(path, "ok", line) for line in lines if line.startswith("[-]")]
        if answer.code != 200 or not good:
            found.append(Mismatch(path, "200 and a list of parts", f"{answer.code} with {len(good)} good parts"))
    return found


def anonymous(kubeconfig: Path, target: Path) -> Cluster:
    """Return a client of the same API with no credentials at all.

    Args:
        kubeconfig: the admin's; only its server and CA are used.
        target: the file to write the anonymous kubeconfig to; it holds no secret.
    """
    read = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    try:
        cluster = read["clusters"][0]["cluster"]
        base64.b64decode(cluster["certificate-authority-data"], validate=True)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise BadInput(f"kubeconfig {kubeconfig} has no cluster with an embedded CA", paths=[kubeconfig]) from error
    nobody = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "guest", "cluster": cluster}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "nobody", "context": {"cluster": "guest", "user": "nobody"}}],
        "current-context": "nobody",
    }
    target.write_text(json.dumps(nobody), encoding="utf-8")
    return Cluster.from_kubeconfig(target)


def admitted_strangers(nobody: Cluster) -> list[Mismatch]:
    """Return the requests that the API answers without credentials although it must refuse them."""
    found: list[Mismatch] = []
    for path in ("/api/v1/nodes", "/api/v1/secrets", "/api/v1/namespaces/kube-system/configmaps"):
        code = nobody.send("GET", path).code
        if code not in (401, 403):
            found.append(Mismatch(f"GET {path} without credentials", "401 or 403", str(code)))
    return found


def excessive_rights(api: Cluster) -> list[Mismatch]:
    """Return what RBAC allows although it must not; an admin who is refused too would make that prove nothing."""
    found: list[Mismatch] = []
    for user, verb, group, resource in FORBIDDEN:
        if _allowed(api, user, verb, group, resource):
            found.append(Mismatch(user, f"no right to {verb} {resource}", "allowed"))
    own = {
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "*", "resource": "*", "group": "*"}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = api.request("POST", path, body={"apiVersion": "authorization.k8s.io/v1", **own})
    return found + differs("the admin", "every right", True, answer["status"]["allowed"])


def _allowed(api: Cluster, user: str, verb: str, group: str, resource: str) -> bool:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": {"verb": verb, "group": group, "resource": resource}},
    }
    answer = api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=body)
    return bool(answer["status"]["allowed"])


def kubelet_configurations(api: Cluster, expected: ExpectedGuest) -> dict[str, Mapping[str, Any]]:
    """Return the configuration that each running kubelet says it uses (/configz), by node."""
    found = {}
    for name in expected.nodes:
        answer = api.send("GET", f"/api/v1/nodes/{name}/proxy/configz")
        if answer.code == 200 and isinstance(answer.body, dict):
            found[name] = answer.body["kubeletconfig"]
    return found


def wrong_kubelet_settings(
    settings: Mapping[str, Mapping[str, Any]], dns_address: str, expected: ExpectedGuest
) -> list[Mismatch]:
    """Return the settings of running kubelets that are not those of the cell.

    Args:
        dns_address: the ClusterIP of the kube-dns Service, which every kubelet must give its pods.
    """
    wanted = {
        **KUBELET_SETTINGS,
        "clusterDomain": expected.dns_domain,
        "clusterDNS": [dns_address],
        **expected.kubelet_config,
    }

    def judge(name: str, running: Mapping[str, Any]) -> list[Mismatch]:
        found: list[Mismatch] = []
        for path, value in wanted.items():
            found += differs(f"{name} kubelet", path, value, _at(running, path))
        return found

    return on_every(expected.nodes, settings, judge)


def dns_address(api: Cluster, expected: ExpectedGuest) -> str:
    """Return the kube-dns Service's address, "" when there is none or it is not of the Service network."""
    service = api.get(SERVICE, "kube-dns", "kube-system")
    address = service["spec"].get("clusterIP", "") if service else ""
    inside = address and ipaddress.ip_address(address) in ipaddress.ip_network(expected.service_cidr)
    return address if inside else ""


def _at(settings: Mapping[str, Any], path: str) -> Any:
    value: Any = settings
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None and path == "readOnlyPort":
        return 0  # left out of the JSON when 0
    return value
