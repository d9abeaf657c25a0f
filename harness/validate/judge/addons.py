"""What must be true of the workloads of a guest's add-ons: CoreDNS, kube-proxy, the network plugin, optional ones."""

from __future__ import annotations

from harness.validate.facts.addons import ADD_ONS
from harness.validate.facts.cluster import ClusterView, Json
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.judge.mismatch import Mismatch, differs

DEPLOYMENTS = (("kube-system", "coredns"),)  # in every cell
KUBE_PROXY = ("kube-system", "kube-proxy")


def unavailable_deployments(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the Deployments of add-ons that are missing, rolling out or short of replicas; and those not wanted."""
    found: list[Mismatch] = []
    for namespace, name in (ADD_ONS[name].deployment for name in ADD_ONS if name not in expected.addons):
        if view.find(view.deployments, namespace, name) is not None:
            where = f"Deployment {namespace}/{name}"
            found.append(Mismatch(where, "not to exist: the cell does not ask for it", "it exists"))
    for namespace, name in (*DEPLOYMENTS, *(ADD_ONS[name].deployment for name in expected.addons)):
        where = f"Deployment {namespace}/{name}"
        deployment = view.find(view.deployments, namespace, name)
        if deployment is None:
            found.append(Mismatch(where, "to exist", "none"))
            continue
        wanted = deployment["spec"].get("replicas", 1)
        status = deployment.get("status", {})
        for count in ("replicas", "updatedReplicas", "availableReplicas"):
            found += differs(where, count, wanted, status.get(count, 0))
        found += differs(where, "any replica wanted", True, wanted > 0)
        found += _stale(where, deployment)
    return found


def unready_daemon_sets(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the DaemonSets of add-ons that are missing or are not ready on every node of the inventory."""
    wanted = [KUBE_PROXY, *([expected.plugin.daemon_set] if expected.plugin.daemon_set is not None else [])]
    found: list[Mismatch] = []
    for namespace, name in wanted:
        where = f"DaemonSet {namespace}/{name}"
        daemon_set = view.find(view.daemon_sets, namespace, name)
        if daemon_set is None:
            found.append(Mismatch(where, "to exist", "none"))
            continue
        status = daemon_set.get("status", {})
        for count in ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady"):
            found += differs(where, count, len(expected.nodes), status.get(count, 0))
        found += _stale(where, daemon_set)
    return found


def _stale(where: str, obj: Json) -> list[Mismatch]:
    """Return a mismatch when the status is of an older generation than the spec."""
    observed = obj.get("status", {}).get("observedGeneration")
    return differs(where, "observed generation", obj["metadata"].get("generation"), observed)
