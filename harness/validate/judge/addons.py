"""What must be true of the workloads of a guest's add-ons: CoreDNS, kube-proxy, the network plugin, optional ones."""

from __future__ import annotations

from collections.abc import Iterable

from harness.validate.facts.addons import ADD_ONS
from harness.validate.facts.cluster import ClusterView, Json
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.judge.mismatch import Mismatch, differs

DEPLOYMENTS = (("kube-system", "coredns"),)  # in every cell
KUBE_PROXY = ("kube-system", "kube-proxy")


def unavailable_deployments(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the Deployments of add-ons that are missing, rolling out or short of replicas; and those not wanted."""
    found: list[Mismatch] = []
    for name, add_on in ADD_ONS.items():
        if name not in expected.addons and view.find(view.deployments, *add_on.deployment) is not None:
            where = f"Deployment {'/'.join(add_on.deployment)}"
            found.append(Mismatch(where, "not to exist: the cell does not ask for it", "it exists"))
    for namespace, name in (*DEPLOYMENTS, *(ADD_ONS[name].deployment for name in expected.addons)):
        deployment = view.find(view.deployments, namespace, name)
        wanted = deployment["spec"].get("replicas", 1) if deployment is not None else 1
        counts = ("replicas", "updatedReplicas", "availableReplicas")
        found += _wrong_counts(f"Deployment {namespace}/{name}", deployment, counts, wanted)
        found += differs(f"Deployment {namespace}/{name}", "any replica wanted", True, wanted > 0)
    return found


def unready_daemon_sets(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the DaemonSets of add-ons that are missing or are not ready on every node of the inventory."""
    wanted = [KUBE_PROXY, *([expected.plugin.daemon] if expected.plugin.daemon is not None else [])]
    counts = ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady")
    found: list[Mismatch] = []
    for namespace, name in wanted:
        daemon_set = view.find(view.daemon_sets, namespace, name)
        found += _wrong_counts(f"DaemonSet {namespace}/{name}", daemon_set, counts, len(expected.nodes))
    return found


def _wrong_counts(where: str, obj: Json | None, counts: Iterable[str], wanted: int) -> list[Mismatch]:
    """Return a mismatch for a missing object, for each other count, and for the status of an older generation."""
    if obj is None:
        return [Mismatch(where, "to exist", "none")]
    status = obj.get("status", {})
    found = [one for count in counts for one in differs(where, count, wanted, status.get(count, 0))]
    generation = obj["metadata"].get("generation")
    return found + differs(where, "observed generation", generation, status.get("observedGeneration"))
