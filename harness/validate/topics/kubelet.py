"""Kubelet: the configuration that running kubelets report (/configz)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from harness.kube import Cluster
from harness.kube.client import Unreachable
from harness.kube.objects import same_setting
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import value_at
from harness.validate.findings import Mismatch, differs, on_every
from harness.validate.probes import words_of
from harness.validate.variables import patched_settings

# In every cell: kubelet's authentication and authorization.
KUBELET_SETTINGS: Mapping[str, Any] = {
    "authentication.anonymous.enabled": False,
    "authentication.webhook.enabled": True,
    "authorization.mode": "Webhook",
    "readOnlyPort": 0,
    "rotateCertificates": True,
}
SERVICE_ADDRESS = "service"  # of `dns.kubelet_address` in product.yml
OK = 200
OMITTED = {"readOnlyPort": 0}  # what /configz leaves out


def kubelet_configurations(api: Cluster, expected: ExpectedGuest) -> dict[str, Mapping[str, Any]]:
    """Return the configuration that each running kubelet reports (/configz), by node."""
    return asked_kubelets(api, expected)[0]


def asked_kubelets(api: Cluster, expected: ExpectedGuest) -> tuple[dict[str, Mapping[str, Any]], dict[str, str]]:
    """Return the configuration that each running kubelet reports, and why others do not, by node."""
    found, silent = {}, {}
    for name in expected.nodes:
        try:
            answer = api.send("GET", f"/api/v1/nodes/{name}/proxy/configz")
        except Unreachable as error:
            silent[name] = f"no answer of the API server: {error.summary}"
            continue
        if answer.code == OK and isinstance(answer.body, dict):
            found[name] = answer.body["kubeletconfig"]
        else:
            silent[name] = f"{answer.code}: {words_of(answer.body)}"
    return found, silent


def wrong_kubelet_settings(
    settings: Mapping[str, Mapping[str, Any]],
    dns_address: str,
    expected: ExpectedGuest,
    silent: Mapping[str, str] | None = None,
) -> list[Mismatch]:
    """Return the settings of running kubelets that are not those of the cell.

    Args:
        dns_address: the ClusterIP of the DNS server's Service. Every kubelet must give it to its pods, or the address
            that the product says; where the product does not say, also one on the node itself (NodeLocal DNSCache).
        silent: why kubelets did not report theirs, by node.
    """
    said = expected.leaves.dns.kubelet_address
    address = dns_address if said in (None, SERVICE_ADDRESS) else said
    wanted = {**KUBELET_SETTINGS, "clusterDomain": expected.dns_domain, **expected.kubelet_config}
    patched = patched_settings(expected.variables)

    def judge(name: str, running: Mapping[str, Any]) -> Iterator[Mismatch]:
        for path, value in wanted.items():
            if path.partition(".")[0] in patched:  # another check looks at it
                continue
            there = value_at({**OMITTED, **running}, path)
            yield from [] if same_setting(value, there) else differs(f"{name} kubelet", path, value, there)
        given = running.get("clusterDNS") or []
        on_node = said is None and len(given) == 1 and ipaddress.ip_address(given[0]).is_link_local
        yield from [] if on_node else differs(f"{name} kubelet", "clusterDNS", [address], given)

    why = silent or {}
    said_why = [Mismatch(f"{name} kubelet", "its configuration", why[name]) for name in expected.nodes if name in why]
    asked = tuple(name for name in expected.nodes if name not in why)
    return said_why + (on_every(asked, settings, judge) if asked or not said_why else [])
