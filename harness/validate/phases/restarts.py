"""Restarts: what restarted machines must have kept, and what shows that they have restarted."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from harness.model import Cell
from harness.validate.facts.cluster import ClusterView, Json
from harness.validate.findings import Mismatch, on_every
from harness.validate.inspection import MachineState

# Policy: a control plane's containers wait for each other by ending and being started again, a few times.
MOST_CONTAINER_RESTARTS = 8
OF_PODS = ("veth", "bridge")  # kinds of links that come and go with pods
PODS_MOUNT = re.compile(r"^(/run/|/var/run/|/var/lib/(kubelet|containerd|containers|docker|rancher)/)")
# Drawn anew at each boot, as keys.
DRAWN = re.compile(r"/(tcp_fastopen_key|netdev_rss_key|stable_secret)$")
RUNS = "active running"
Restarts = Mapping[str, int]  # of containers, by "NAMESPACE/POD CONTAINER"


def restarts(cell: Cell, index: int) -> bool:
    """Tell whether machines restart in a phase."""
    return bool(cell.phases[index].restart)


def power_cut(cell: Cell, index: int) -> bool:
    """Tell whether machines restart without warning in a phase."""
    return cell.phases[index].restart == "power-cut"


def boot_ids(view: ClusterView) -> dict[str, str]:
    """Return the boot id that each node's kubelet reports."""
    return {node["metadata"]["name"]: str(node["status"]["nodeInfo"]["bootID"]) for node in view.nodes}


def not_restarted(
    restarted: Collection[str], nodes: Sequence[str], before: Mapping[str, str], after: Mapping[str, str]
) -> list[Mismatch]:
    """Return nodes that should have restarted and have not, and those that have and should not."""

    def judge(name: str, now: str) -> Iterator[Mismatch]:
        was = before.get(name, "")
        if not was or not now:
            yield Mismatch(name, "a boot id before and after the phase", f"{was or 'none'}, {now or 'none'}")
        elif (was == now) == (name in restarted):
            requirement = "another boot id than before" if name in restarted else "the boot id from before"
            yield Mismatch(name, requirement, f"{was}, then {now}")

    return on_every(nodes, after, judge)


def lost(names: Sequence[str], before: Mapping[str, MachineState], after: Mapping[str, MachineState]) -> list[Mismatch]:
    """Return what machines had before they restarted, set by whoever deployed, and have not afterwards.

    Args:
        names: of all machines that restarted.  before, after: their states, without files.
    """

    def judge(name: str, now: MachineState) -> Iterator[Mismatch]:
        was = before.get(name)
        if was is None:
            yield Mismatch(name, "a record of the machine before its restart", "none")
            return
        before_it, there = lasting(was), lasting(now)
        for kind, things in before_it.items():
            if not things:
                yield Mismatch(f"{name}, {kind}", "something to compare", "nothing")
            for thing, value in things.items():
                if (after_it := there[kind].get(thing)) != value:
                    yield Mismatch(
                        f"{name}, {kind} {thing}", value or "as before", "gone" if after_it is None else after_it
                    )

    return on_every(names, after, judge)


def lasting(state: MachineState) -> dict[str, dict[str, str]]:
    """Return the part of a state that outlasts a boot, by kind."""
    links = state.get("link", {})
    passing = {name for name, value in links.items() if value.split(" ")[0] in OF_PODS}
    return {
        "mount": {where: kind for where, kind in state.get("mount", {}).items() if not PODS_MOUNT.match(where)},
        "link": {name: value for name, value in links.items() if name not in passing},
        "route": {line: value for line, value in state.get("route", {}).items() if passing.isdisjoint(line.split())},
        "unit": {
            name: value
            for name, value in state.get("unit", {}).items()
            if name.startswith("file ") or (name.endswith(".service") and value == RUNS)
        },
        "kernel setting": {
            name: value
            for name, value in state.get("kernel setting", {}).items()
            if not DRAWN.search(name) and passing.isdisjoint(name.split("/"))
        },
    }


def container_restarts(pods: Sequence[Json]) -> dict[str, int]:
    """Return how often each container of pods was started again."""
    return {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']} {status['name']}": int(status["restartCount"])
        for pod in pods
        for status in pod["status"].get("containerStatuses") or []
    }


def restless(before: Restarts, after: Restarts) -> list[Mismatch]:
    """Return containers of the cluster that were started again too often during a restart of their machine."""
    limit = MOST_CONTAINER_RESTARTS
    return [
        Mismatch(name, f"at most {limit} restarts of the container", str(count - before.get(name, 0)))
        for name, count in sorted(after.items())
        if count - before.get(name, 0) > limit
    ]


def missing_writes(acknowledged: Collection[str], present: Collection[str]) -> list[Mismatch]:
    """Return what the API had acknowledged and does not have any more."""
    if not acknowledged:
        return [Mismatch("the API", "writes acknowledged before the power was cut", "none")]
    gone = sorted(set(acknowledged) - set(present))
    if not gone:
        return []
    return [Mismatch("the API", f"all {len(acknowledged)} acknowledged writes", f"{len(gone)} gone, such as {gone[0]}")]
