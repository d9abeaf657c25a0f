"""From a Machine to the clusters that it concerns: the one that has claimed it, and the one that had."""

from __future__ import annotations

from harness.kube.client import Json
from harness.kube.informer import Informer, Key, key_of
from harness.kube.objects import dig
from harness.kube.reconcile import Queue


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
