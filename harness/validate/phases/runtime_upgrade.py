"""Whether the container runtime of a running cluster was replaced, and only what had to start anew did.

A runtime is replaced below its containers: those of pods that no drain moves (of a DaemonSet, static ones) run on, with
the shims that they have, and what begins afterwards is run by the new version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.model import Cell
from harness.validate.facts.cluster import ClusterView, Json, by_name
from harness.validate.findings import Mismatch, differs, on_every, unjudged
from harness.validate.phases.observation import Observation

STAYS = {"DaemonSet", "Node"}  # owners of pods that a drain leaves where they are
MOST_IMAGES = 50  # that kubelet reports of a node (nodeStatusMaxImages)
Containers = Mapping[str, Mapping[str, str]]  # ids by container, by NAMESPACE/POD


def replaces(cell: Cell, index: int) -> bool:
    """Tell whether a phase changes the container runtime of an existing cluster, and not Kubernetes."""
    if index == 0 or not (cell.phases[index].cluster and cell.phases[index - 1].cluster):
        return False
    was, now = cell.phases[index - 1].values, cell.phases[index].values
    return was["runtime"] != now["runtime"] and was["kubernetes"] == now["kubernetes"]


def not_replaced(before: Observation, after: Observation) -> list[Mismatch]:
    """Return where the old runtime was not seen before, or the new one is not seen after: Nodes, running programs."""
    old, new = before.expected.runtime_version, after.expected.runtime_version
    if not old or not new:
        return [unjudged("the version of the container runtime", "the cell does not say it, or the product decides it")]
    if (before.expected.runtime, old) == (after.expected.runtime, new):
        return [Mismatch("the phase", "a container runtime whose version changes", old)]
    return [*_wrong(before, "before the phase"), *_wrong(after, "after it")]


def _wrong(seen: Observation, when: str) -> Iterator[Mismatch]:
    program, version = seen.expected.runtime_process, seen.expected.runtime_version
    nodes = by_name(seen.view.nodes)
    for name in seen.expected.nodes:
        reported = nodes[name]["status"]["nodeInfo"]["containerRuntimeVersion"] if name in nodes else "no Node"
        said = reported.rpartition("://")[2].removeprefix("v")
        yield from differs(f"{name}, as its Node reports, {when}", "version", version, said)
        running = seen.running[name].versions.get(program, ()) if name in seen.running else ()
        yield from differs(f"{name}: {program}, running, {when}", "version", version, ", ".join(running))


def staying(view: ClusterView) -> Containers:
    """Return the containers of the cluster's own pods that no drain moves."""
    found: dict[str, dict[str, str]] = {}
    for pod in view.system_pods:
        if STAYS & {owner["kind"] for owner in pod["metadata"].get("ownerReferences", [])}:
            found[f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"] = _ids(pod)
    return found


def _ids(pod: Json) -> dict[str, str]:
    return {one["name"]: one.get("containerID", "") for one in pod["status"].get("containerStatuses") or []}


def started_anew(before: Containers, after: Containers) -> list[Mismatch]:
    """Return containers that are others than before, of pods that no drain moves."""

    def judge(pod: str, now: Mapping[str, str]) -> Iterator[Mismatch]:
        for container, was in before[pod].items():
            if now.get(container) != was:
                yield Mismatch(f"{pod} {container}", f"the container of before, {was}", now.get(container) or "none")

    return on_every(tuple(before), after, judge)


def images_of(view: ClusterView) -> dict[str, frozenset[str]]:
    """Return the names of the images that each node's runtime tells its kubelet of, without digests."""
    return {
        node["metadata"]["name"]: frozenset(
            name for image in node["status"].get("images", []) for name in image.get("names") or [] if "@" not in name
        )
        for node in view.nodes
    }


def lost_images(before: Mapping[str, frozenset[str]], after: Mapping[str, frozenset[str]]) -> list[Mismatch]:
    """Return nodes that no longer have the images that they had."""

    def judge(name: str, now: frozenset[str]) -> Iterator[Mismatch]:
        if not before[name]:
            yield Mismatch(f"{name}, before the phase", "images", "none")
        elif len(now) >= MOST_IMAGES:
            yield unjudged(f"the images of {name}", f"its Node names {MOST_IMAGES} of them, and no more")
        elif gone := before[name] - now:
            yield Mismatch(name, f"the {len(before[name])} images of before", f"no {', '.join(sorted(gone))}")

    return on_every(tuple(before), after, judge)


def wrong_shims(after: Observation) -> list[Mismatch]:
    """Return shims that are not of the runtime under which their pod began, and those that run nothing."""
    if after.expected.runtime_process != "containerd":
        return [unjudged("what runs the containers", "only containerd has shims that are looked at", whole=True)]
    version = after.expected.runtime_version

    def judge(name: str) -> Iterator[Mismatch]:
        for shim in after.running[name].shims if name in after.running else ():
            where = f"{name}, the shim of sandbox {shim.pod[:12]}"
            if shim.later:
                yield from differs(f"{where}, which began after containerd", "version", version, shim.version)
            if not shim.version:
                yield Mismatch(where, "a program that tells its version", "none")
            if not shim.children:
                yield Mismatch(where, "containers that it runs", "none: it was left behind")

    found = [one for name in after.expected.nodes for one in judge(name)]
    none = [name for name in after.expected.nodes if name not in after.running or not after.running[name].shims]
    return [*found, *(Mismatch(name, "shims of its pods", "none") for name in none)]


def older_shims(after: Observation) -> str:
    """Return how many pods are still run by the shims that they began with, for people to read."""
    every = [shim for seen in after.running.values() for shim in seen.shims]
    old = [shim for shim in every if shim.version != after.expected.runtime_version]
    return f"{len(old)} of {len(every)} pods run under the shims of before, until they start anew"
