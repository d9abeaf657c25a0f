"""Between Machines and the clusters that they concern: the one that has claimed them, and the one that had."""

from __future__ import annotations

from harness.kube.client import Json
from harness.kube.informer import Informer, Key, key_of
from harness.kube.objects import dig
from harness.kube.reconcile import Queue


def claimed_by(machines: Informer, cluster: Key) -> list[Json]:
    """Return the Machines whose claim names a cluster."""
    return machines.by(_claim, cluster)


def without_claim(machines: Informer, cluster: Json, uid: str) -> list[Json]:
    """Return the Machines of a cluster whose claim somebody has removed, with the claim that they had.

    The operator gives up a claim only once the cluster has nothing on the machine. One that was made after the last
    operation is another Machine of the name.

    Args:
        cluster: the Cluster.  uid: of its ClusterDeployment.
    """
    namespace, name = key_of(cluster)
    ended = str(next((past.get("ended") or "" for past in dig(cluster, "status", "history") or ()), ""))
    found = []
    for host in dig(cluster, "status", "applied", "hosts") or ():
        machine = machines.get(namespace, host["machine"])
        if machine is None or dig(machine, "spec", "claim") or machine["metadata"].get("creationTimestamp", "") > ended:
            continue
        claim = {"cluster": name, "set": host["set"], "uid": uid}
        found.append({**machine, "spec": {**machine["spec"], "claim": claim}})
    return found


def _claim(machine: Json) -> Key | None:
    """Return the cluster that a Machine's claim names."""
    name = dig(machine, "spec", "claim", "cluster")
    return (machine["metadata"]["namespace"], name) if name else None


def follow_clusters(clusters: Informer, machines: Informer, queue: Queue) -> None:
    """Have every change of what bears a cluster's name put the cluster's Machines into a queue; before the start."""

    def changed(_: str, obj: Json) -> None:
        for machine in claimed_by(machines, key_of(obj)):
            queue.add(key_of(machine))

    clusters.subscribe(changed)


def follow_claims(machines: Informer, queue: Queue) -> None:
    """Have every change of a Machine put its clusters into a queue; call it before the informers start."""
    before: dict[Key, str] = {}

    def changed(kind: str, machine: Json) -> None:
        key, cluster = key_of(machine), str(dig(machine, "spec", "claim", "cluster") or "")
        for name in {before.pop(key, ""), cluster} - {""}:
            queue.add((key[0], name))
        if cluster and kind != "DELETED":
            before[key] = cluster

    machines.subscribe(changed)
