"""Which images the pods of the doctor's dry run have: what is on a node already, before anything is pulled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.embedded.node.registration import RUNTIME
from harness.infra.cluster.nodes import SCHEDULABLE, usable
from harness.kube import ApiFailure, Cluster
from harness.kube.client import Json
from harness.kube.resources import NODE, POD

SMALL = frozenset({"busybox", "alpine", "agnhost", "netshoot"})  # have a shell, ip, wget and arping
HANDLER, LAUNCHER = "virt-handler", "virt-launcher"  # KubeVirt's: one has bash and ip, the other bash and ncat


@dataclass(frozen=True)
class Images:
    """A node, and the images of the pod that listens on it and of the one that looks around."""

    node: str
    peer: str
    looker: str


def choose(cluster: Cluster, others: Sequence[str]) -> Images | str | None:
    """Return a node on which machines run and the images; why there are none; or None where no pod ever runs.

    Args:
        others: images that nodes can perhaps pull.
    """
    try:
        nodes = [node for node in cluster.list(NODE).items if usable(node)]
    except ApiFailure as failure:
        if failure.forbidden:
            return "not allowed: list nodes"
        raise
    able = [n for n in nodes if (n["metadata"].get("labels") or {}).get(SCHEDULABLE) == "true"]
    real = [n for n in able if not _runtime(n).startswith(RUNTIME)]
    if not real:  # embedded KubeVirt, or none at all, which another check says
        return None
    small = (Images(name, image, image) for name, image in _small(real))
    pulled = (Images(real[0]["metadata"]["name"], image, image) for image in others)
    found = next(small, None) or _of_kubevirt(cluster, {n["metadata"]["name"] for n in real}) or next(pulled, None)
    return found or "no node has an image that will do (busybox, or KubeVirt's own)"


def _runtime(node: Json) -> str:
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("containerRuntimeVersion", ""))


def _small(nodes: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """Yield nodes with a small image that they have; nodes tell of their fifty largest images alone."""
    for node in nodes:
        for image in node["status"].get("images") or []:
            for name in image.get("names") or []:
                if repository(name).rpartition("/")[2] in SMALL:
                    yield node["metadata"]["name"], name


def repository(image: str) -> str:
    """Return an image's name without its tag and its digest."""
    name = image.partition("@")[0]
    before, _, last = name.rpartition("/")
    return f"{before}/{last.partition(':')[0]}".lstrip("/")


def _of_kubevirt(cluster: Cluster, nodes: set[str]) -> Images | None:
    """Return KubeVirt's own images on a node: virt-handler's pod pulls the launcher's to it, too."""
    try:
        pods = cluster.list(POD, labels=f"kubevirt.io={HANDLER}").items
    except ApiFailure as failure:
        if failure.forbidden:
            return None
        raise
    for pod in pods:
        named = {word: image for image in _images(pod["spec"]) for word in (HANDLER, LAUNCHER) if word in image}
        if pod["spec"].get("nodeName") in nodes and {HANDLER, LAUNCHER} <= named.keys():
            return Images(pod["spec"]["nodeName"], named[LAUNCHER], named[HANDLER])
    return None


def _images(spec: Mapping[str, Any]) -> list[str]:
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    return [str(container.get("image", "")) for container in containers]
