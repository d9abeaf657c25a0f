"""Add-ons: Deployments and DaemonSets of CoreDNS, kube-proxy, the network plugin and optional ones; metrics-server.

metrics-server reports the usage of every node, and of pods on every node. Requests go through the API server, as those
of `kubectl top` do, so the aggregated API is judged as well. Whether the numbers are right is not judged, only that
they are recent and above zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from harness.kube import Cluster
from harness.kube.client import ApiFailure, Unreachable
from harness.kube.objects import quantity
from harness.kube.resources import Resource
from harness.validate.expected import LEFT_OUT, PROXY_MODES, ExpectedGuest
from harness.validate.facts.cluster import DNS_LABEL, ClusterView, Json, by_name
from harness.validate.findings import Mismatch, differs, lasting, on_every, together, unjudged
from harness.validate.variables import ADD_ONS

KUBE_PROXY = "kube-proxy"


def unavailable_deployments(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the Deployments of add-ons that are missing, rolling out or short of replicas; and those not wanted."""
    dns = expected.leaves.dns.deployment
    places = {"CoreDNS": _split(dns) if dns is not None else _labelled(view.deployments)}
    unwanted: list[Mismatch] = []
    deployed = {name: add_on.deployment for name, add_on in ADD_ONS.items() if add_on.deployment is not None}
    for name, usual in deployed.items():
        place = _place_of(name, usual, view, expected)
        if name in expected.addons:
            places[name] = place
        elif expected.leaves.add_ons is not None and place and view.find(view.deployments, *place) is not None:
            where = f"Deployment {'/'.join(place)}"
            unwanted += lasting([Mismatch(where, "not to exist: the cell does not ask for it", "it exists")])
    replicas = {"CoreDNS": expected.leaves.dns.replicas}
    parts = [_deployment(view, name, place, replicas.get(name)) for name, place in places.items()]
    if expected.leaves.add_ons is None:
        unwanted.append(unjudged("whether other add-ons exist", "product.yml does not say which there may be"))
    return together(*parts, unwanted)


def _deployment(view: ClusterView, name: str, place: tuple[str, str] | None, replicas: int | None) -> list[Mismatch]:
    if place is None:
        return [unjudged(f"the Deployment of {name}", "product.yml does not name it, and none looks like it")]
    where, deployment = f"Deployment {'/'.join(place)}", view.find(view.deployments, *place)
    desired = deployment["spec"].get("replicas", 1) if deployment is not None else 1
    counts = ("replicas", "updatedReplicas", "availableReplicas")
    mismatches = _wrong_counts(where, deployment, counts, desired)
    if replicas is not None and deployment is not None:
        mismatches += lasting(differs(where, "replicas wanted", replicas, desired))
    return mismatches + lasting(differs(where, "any replica wanted", True, desired > 0))


def _place_of(name: str, usual: tuple[str, str], view: ClusterView, expected: ExpectedGuest) -> tuple[str, str] | None:
    """Return where an add-on's Deployment is: as the product says, else wherever one of its name is."""
    if expected.leaves.add_ons is not None:
        place = expected.leaves.add_ons.get(name)
        return _split(place) if place is not None else usual
    named = (deployment["metadata"] for deployment in view.deployments if deployment["metadata"]["name"] == name)
    return next(((metadata["namespace"], name) for metadata in named), usual)


def _labelled(objects: Sequence[Json]) -> tuple[str, str] | None:
    """Return where the object with the label of DNS servers is."""
    label, value = DNS_LABEL
    named = (obj["metadata"] for obj in objects if obj["metadata"].get("labels", {}).get(label) == value)
    return next(((metadata["namespace"], metadata["name"]) for metadata in named), None)


def _split(place: str) -> tuple[str, str]:
    namespace, _, name = place.partition("/")
    return namespace, name


def unready_daemon_sets(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the DaemonSets of add-ons that are missing or are not ready on every node of the inventory."""
    proxy, daemon = _proxy(view, expected), expected.plugin.daemon if expected.plugin is not None else None
    counts = ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady")
    parts: list[list[Mismatch]] = []
    others = {name: add_on.daemon_set for name, add_on in ADD_ONS.items() if add_on.daemon_set is not None}
    for place in filter(None, (proxy, daemon, *(others[name] for name in others if name in expected.addons))):
        daemon_set = view.find(view.daemon_sets, *place)
        parts.append(_wrong_counts(f"DaemonSet {'/'.join(place)}", daemon_set, counts, len(expected.nodes)))
    if expected.leaves.add_ons is not None:
        there = (view.find(view.daemon_sets, *place) for name, place in others.items() if name not in expected.addons)
        parts += [
            [_unwanted(daemon_set, "the cell does not ask for it")] for daemon_set in there if daemon_set is not None
        ]
    if expected.kube_proxy_mode == LEFT_OUT:
        kept = view.find(view.daemon_sets, *_split(expected.leaves.kube_proxy or f"kube-system/{KUBE_PROXY}"))
        parts.append([] if kept is None else [_unwanted(kept, "the cell leaves out kube-proxy")])
    elif proxy is None:
        why = f"there is none of that name, in mode {expected.kube_proxy_mode!r}"
        parts.append([unjudged("kube-proxy's DaemonSet", why)])
    if expected.plugin is None:
        why = f"neither product.yml nor network_plugins.yml describes {expected.network_plugin!r}"
        parts.append([unjudged("the network plugin's DaemonSet", why)])
    return together(*parts)


def _unwanted(obj: Json, why: str) -> Mismatch:
    where = f"DaemonSet {obj['metadata']['namespace']}/{obj['metadata']['name']}"
    return Mismatch(where, f"not to exist: {why}", "it exists", lasting=True)


def _proxy(view: ClusterView, expected: ExpectedGuest) -> tuple[str, str] | None:
    """Return where kube-proxy's DaemonSet must be; None where nothing says that there is one."""
    if expected.kube_proxy_mode == LEFT_OUT:
        return None
    if expected.leaves.kube_proxy is not None:
        return _split(expected.leaves.kube_proxy) if expected.kube_proxy_mode in PROXY_MODES else None
    named = (daemon_set["metadata"] for daemon_set in view.daemon_sets if daemon_set["metadata"]["name"] == KUBE_PROXY)
    return next(((metadata["namespace"], KUBE_PROXY) for metadata in named), None)


def _wrong_counts(where: str, obj: Json | None, counts: Iterable[str], desired: int) -> list[Mismatch]:
    """Return a mismatch for a missing object, for each other count, and for the status of an older generation."""
    if obj is None:  # the product has ended: nobody will create it
        return [Mismatch(where, "to exist", "none", lasting=True)]
    status = obj.get("status", {})
    mismatches = [mismatch for count in counts for mismatch in differs(where, count, desired, status.get(count, 0))]
    generation = obj["metadata"].get("generation")
    return mismatches + differs(where, "observed generation", generation, status.get("observedGeneration"))


NODE_METRICS = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
MEASURED = ("cpu", "memory")


def unmeasured_nodes(
    api: Cluster, expected: ExpectedGuest, oldest: timedelta, now: datetime | None = None
) -> list[Mismatch]:
    """Return nodes without a recent usage above zero, and nodes that are not the inventory's.

    Args:
        oldest: how old a measurement may be.
    """
    metrics = _listed(api, NODE_METRICS)
    if isinstance(metrics, Mismatch):
        return [metrics]
    moment = now or datetime.now(UTC)

    def judge(name: str, metric: Mapping[str, Any]) -> Iterator[Mismatch]:
        for what in MEASURED:
            usage = metric.get("usage", {}).get(what)
            if not _positive(usage):
                yield Mismatch(name, f"{what} above zero", repr(usage))
        taken = datetime.fromisoformat(str(metric["timestamp"]))
        if moment - taken > oldest:
            yield Mismatch(name, f"a measurement of the last {oldest}", str(taken))

    measured = by_name(metrics)
    strangers = sorted(set(measured) - set(expected.nodes))
    return on_every(expected.nodes, measured, judge) + differs("metrics-server", "other nodes", [], strangers)


def unmeasured_pods(api: Cluster, view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the nodes without a system pod that has a usage above zero."""
    metrics = _listed(api, POD_METRICS)
    if isinstance(metrics, Mismatch):
        return [metrics]
    nodes = {(p["metadata"]["namespace"], p["metadata"]["name"]): p["spec"].get("nodeName") for p in view.system_pods}
    measured: dict[str, int] = {}
    for item in metrics:
        node = nodes.get((item["metadata"]["namespace"], item["metadata"]["name"]))
        # a container that waited the whole window has used no CPU; its memory is never zero
        used = [container.get("usage", {}) for container in item.get("containers", [])]
        if node is not None and used and all(_positive(usage.get("memory")) for usage in used):
            measured[node] = measured.get(node, 0) + 1
    return on_every(expected.nodes, measured, lambda _, count: differs("metrics-server", "any pod", True, count > 0))


def _listed(api: Cluster, resource: Resource) -> list[Any] | Mismatch:
    """Return what metrics-server lists, or the mismatch that it does not."""
    try:
        return list(api.list(resource).items)
    except (ApiFailure, Unreachable) as failure:
        return Mismatch("metrics.k8s.io", f"a list of {resource.plural}", str(failure))


def _positive(amount: object) -> bool:
    try:
        return quantity(str(amount)) > 0
    except ValueError:
        return False
