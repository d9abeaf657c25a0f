"""Whether only the cluster's own pods run in its own namespaces, with accounts and priorities that they start with."""

from __future__ import annotations

from collections.abc import Iterator

from harness.kube import Cluster
from harness.kube.resources import REPLICA_SET, SERVICE_ACCOUNT
from harness.validate.expected import PROXY_MODES, ExpectedGuest
from harness.validate.facts.cluster import ClusterView, Json
from harness.validate.findings import Mismatch, unjudged
from harness.validate.layout import static_by_view
from harness.validate.variables import ADD_ONS

CRITICAL = 2_000_000_000  # the priority of system-cluster-critical (kubernetes.io, "Guaranteed Scheduling")
MIRROR = "kubernetes.io/config.mirror"  # annotation of what the API shows of static pods
HELPERS = "helper-pod-"  # of the storage provisioner: they make and delete volumes' folders and end


def strange_system_pods(api: Cluster, view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return pods of the cluster's own namespaces that nobody knows, or that could not start anew as they are."""
    leaves = expected.leaves
    if leaves.namespaces is None or leaves.add_ons is None or leaves.dns.deployment is None:
        why = "product.yml does not say which there are (namespaces, add_ons, dns.deployment)"
        return [unjudged("which pods run in the cluster's own namespaces", why, whole=True)]
    if not view.system_pods:
        return [Mismatch("the cluster", "system pods", "none")]
    known = _known(view, expected)
    owners = _owners(api)
    found: list[Mismatch] = []
    for pod in view.system_pods:
        place = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        owner = _owner(pod, owners)
        if owner not in known and not pod["metadata"]["name"].startswith(HELPERS):
            found.append(Mismatch(f"pod {place}", "a pod that the product has", f"one of {owner}"))
    return [*found, *_unimportant(view, expected, owners), *_without_account(api, view)]


def _known(view: ClusterView, expected: ExpectedGuest) -> set[str]:
    """Return what pods of the cluster may belong to: KIND NAMESPACE/NAME."""
    leaves, plugin = expected.leaves, expected.plugin
    found = {f"Deployment {leaves.dns.deployment}"}
    for name in expected.addons:
        if (deployment := ADD_ONS[name].deployment) is not None:
            found.add(f"Deployment {(leaves.add_ons or {}).get(name, '/'.join(deployment))}")
        if (daemon_set := ADD_ONS[name].daemon_set) is not None:
            found.add(f"DaemonSet {'/'.join(daemon_set)}")
    if expected.kube_proxy_mode in PROXY_MODES and leaves.kube_proxy is not None:
        found.add(f"DaemonSet {leaves.kube_proxy}")
    if plugin is not None and plugin.daemon is not None:
        found.add(f"DaemonSet {'/'.join(plugin.daemon)}")
    static = [program for program, wanted in static_by_view(view, expected).items() if wanted]
    found |= {f"static pod kube-system/{program}-{node}" for program in static for node in expected.control_plane}
    others = leaves.control_plane.other_static_pods or ()
    return found | {f"static pod kube-system/{name}-{node}" for name in others for node in expected.nodes}


def _owners(api: Cluster) -> dict[str, str]:
    """Return the Deployment of each ReplicaSet, as NAMESPACE/NAME."""
    found = {}
    for one in api.list(REPLICA_SET).items:
        space, name = one["metadata"]["namespace"], one["metadata"]["name"]
        for owner in one["metadata"].get("ownerReferences", ()):
            found[f"{space}/{name}"] = f"{owner['kind']} {space}/{owner['name']}"
    return found


def _owner(pod: Json, owners: dict[str, str]) -> str:
    meta = pod["metadata"]
    if MIRROR in (meta.get("annotations") or {}):
        return f"static pod {meta['namespace']}/{meta['name']}"
    for one in meta.get("ownerReferences", ()):
        place = f"{meta['namespace']}/{one['name']}"
        return owners.get(place, f"{one['kind']} {place}") if one["kind"] == "ReplicaSet" else f"{one['kind']} {place}"
    return "nobody"


def _unimportant(view: ClusterView, expected: ExpectedGuest, owners: dict[str, str]) -> Iterator[Mismatch]:
    """Yield pods of kubeadm's add-ons that are not evicted last."""
    if expected.leaves.kubeadm is None:
        return
    kubeadms = {f"Deployment {expected.leaves.dns.deployment}", f"DaemonSet {expected.leaves.kube_proxy}"}
    for pod in view.system_pods:
        priority = pod["spec"].get("priority", 0)
        if _owner(pod, owners) in kubeadms and priority < CRITICAL:
            place = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            yield Mismatch(f"pod {place}", f"a priority of {CRITICAL} or more", str(priority))


def _without_account(api: Cluster, view: ClusterView) -> Iterator[Mismatch]:
    """Yield the ServiceAccounts of running pods that are gone, or that give no token to the next pod."""
    accounts = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in api.list(SERVICE_ACCOUNT).items}
    used = {(pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName", "")) for pod in view.system_pods}
    for space, name in sorted(used):
        if not name:  # of a static pod
            continue
        account, where = accounts.get((space, name)), f"ServiceAccount {space}/{name}"
        if account is None:
            yield Mismatch(where, "to exist: pods run with it", "none")
        elif account.get("automountServiceAccountToken") is False:
            yield Mismatch(where, "automountServiceAccountToken true, or none", "false")
