"""What the running kubelets of a guest must be configured to, asked through the API."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from harness.kube import Cluster
from harness.kube.resources import SERVICE
from harness.validate.facts.cluster import value_at
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.judge.mismatch import Mismatch, differs, on_every

# In every cell: kubelet's authentication and authorization.
KUBELET_SETTINGS: Mapping[str, Any] = {
    "authentication.anonymous.enabled": False,
    "authentication.webhook.enabled": True,
    "authorization.mode": "Webhook",
    "readOnlyPort": 0,
    "rotateCertificates": True,
}
OMITTED = {"readOnlyPort": 0}  # what /configz leaves out


def kubelet_configurations(api: Cluster, expected: ExpectedGuest) -> dict[str, Mapping[str, Any]]:
    """Return the configuration that each running kubelet reports (/configz), by node."""
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

    def judge(name: str, running: Mapping[str, Any]) -> Iterator[Mismatch]:
        for path, value in wanted.items():
            yield from differs(f"{name} kubelet", path, value, value_at({**OMITTED, **running}, path))

    return on_every(expected.nodes, settings, judge)


def dns_address(api: Cluster, expected: ExpectedGuest) -> str:
    """Return the kube-dns Service's address, "" when it has none in the Service network."""
    service = api.get(SERVICE, "kube-dns", "kube-system")
    address = service["spec"].get("clusterIP", "") if service else ""
    inside = address and ipaddress.ip_address(address) in ipaddress.ip_network(expected.service_cidr)
    return address if inside else ""
