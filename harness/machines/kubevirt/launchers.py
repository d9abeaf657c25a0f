"""Launcher pods: the address that counts, what their containers wait for or died of, who should have started them."""

from __future__ import annotations

import ipaddress

from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.resources import POD

CREATED_BY = "kubevirt.io/created-by"
# What KubeVirt's masquerade binding gives to every guest (pod.vmNetworkCIDR's default): nobody else reaches it.
MASQUERADED = ipaddress.ip_network("10.0.2.0/24")
OOM_KILLED = "OOMKilled"
SUCCEEDED = "Succeeded"  # of an instance whose guest shut down, or that was deleted with a grace period of 0
SHUT_DOWN = "it shut down, and nobody deleted it: from inside, or because its launcher was evicted or told to go"
NODE_AGENT = "kubevirt.io=virt-handler"


def launcher_pod(cluster: Cluster, namespace: str, vmi: Json) -> Json | None:
    """Return the newest launcher pod of a VMI."""
    pods = cluster.list(POD, namespace, labels=f"{CREATED_BY}={vmi['metadata']['uid']}").items
    return max(pods, key=lambda p: str(p["metadata"]["creationTimestamp"]), default=None)


def launcher_address(cluster: Cluster, namespace: str, vmi: Json) -> str:
    """Return the address of a VMI's launcher pod, "" while it has none."""
    return address_of(launcher_pod(cluster, namespace, vmi))


def address_of(pod: Json | None) -> str:
    """Return a launcher pod's address, "" while it has none."""
    return str(((pod or {}).get("status") or {}).get("podIP") or "")


def ipv6_address_of(pod: Json | None) -> str:
    """Return a launcher pod's IPv6 address, "" while it has none."""
    given = [str(one.get("ip", "")) for one in ((pod or {}).get("status") or {}).get("podIPs") or []]
    return next((one for one in given if ":" in one), "")


def useless(address: str) -> str:
    """Return why nobody else can reach a machine at an address, "" when that is not known to be so."""
    parsed = ipaddress.ip_address(address)
    if parsed.is_link_local:
        return "is link-local"
    if parsed.is_loopback or parsed.is_unspecified:
        return "is not an address of a network"
    return "is the one that masquerade gives every guest" if parsed in MASQUERADED else ""


def waits_for(pod: Json | None) -> str:
    """Return what a pod's containers wait for, as the kubelet says it; "" when they wait for nothing."""
    for container in _containers(pod):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return f"{waiting['reason']}: {waiting.get('message') or 'no message'}"
    return ""


def died_of(pod: Json | None) -> str:
    """Return how a pod's container ended badly: reason, exit code and last words; "" when none did."""
    for container in _containers(pod):
        for state in ("state", "lastState"):
            ended = (container.get(state) or {}).get("terminated") or {}
            if ended.get("exitCode"):
                said = f": {ended['message'].strip()}" if ended.get("message") else ""
                return f"{ended.get('reason') or 'Error'} (exit code {ended['exitCode']}){said}"
    return ""


def _containers(pod: Json | None) -> list[Json]:
    status = (pod or {}).get("status") or {}
    return [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]


def node_agent(cluster: Cluster, node: str) -> str:
    """Say how KubeVirt's agent on a node is, from its pod; whoever may not look is told so."""
    if not node:
        return "the machine has no node yet"
    try:
        found = cluster.list(POD, labels=NODE_AGENT, fields=f"spec.nodeName={node}").items
    except ApiFailure as refused:
        if not refused.forbidden:
            raise
        return f"this job has no right to look at virt-handler on node {node}"
    if not found:
        return f"no virt-handler pod is on node {node}"
    return "; ".join(_health(pod) for pod in found)


def _health(pod: Json) -> str:
    status = pod.get("status") or {}
    restarts = sum(int(c.get("restartCount") or 0) for c in _containers(pod))
    trouble = waits_for(pod) or died_of(pod)
    said = f", {trouble}" if trouble else ""
    return f"virt-handler pod {pod['metadata']['name']}: {status.get('phase')}, {restarts} restarts{said}"
