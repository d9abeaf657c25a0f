"""An instance's status with what only the container engine can tell of it: its node, or what is left of one."""

from __future__ import annotations

from dataclasses import replace

from harness.infra.host.status import InstanceStatus, ProgramStatus, State, seen_process
from harness.infra.kind.cluster import KindCluster

NODE = "kind node"


def with_node(seen: InstanceStatus, cluster: KindCluster | None) -> InstanceStatus:
    """Add the node of an instance that has a record; None stands for no engine that answers."""
    pid = cluster.pid() if cluster is not None else None
    if pid is None:
        problem = "no container engine is running" if cluster is None else "its container is not running"
        row = ProgramStatus(NODE, None, 0, 0, problem)
        return replace(seen, state=State.BROKEN, programs=(row, *seen.programs))
    return replace(seen, programs=(ProgramStatus(NODE, pid, *seen_process(pid), ""), *seen.programs))


def with_remains(seen: InstanceStatus, cluster: KindCluster | None) -> InstanceStatus:
    """Add what the engine still has of an instance without a record."""
    if cluster is None or not cluster.engine.containers(cluster.name):
        return seen
    return replace(seen, state=State.BROKEN, leftovers=(*seen.leftovers, f"kind cluster {cluster.name}"))
