"""What nodes and their pods take, by the nodes' own account: the Summary API of a kubelet, through the API server.

It asks for the right to `get` `nodes/proxy`. A node that does not answer is left out.
https://kubernetes.io/docs/reference/instrumentation/node-metrics/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from harness.infra.cluster.nodes import MIB
from harness.kube import Cluster
from harness.kube.resources import NODE

READ_SECONDS = 5.0  # a node reads a few files for each pod; whoever asks does so again


@dataclass(frozen=True)
class PodUsage:
    """What a pod takes of its node, in MiB.

    memory: its working set.  kept: of that, what the node cannot take back by dropping page cache.
    disk: what the disks of its claims take; 0 where the node does not tell.
    """

    memory: int
    kept: int
    disk: int


@dataclass(frozen=True)
class NodeUsage:
    """What a node has available (MiB) for whoever comes, and what its pods take, by their uid."""

    available: int
    pods: Mapping[str, PodUsage]


def usage_of(cluster: Cluster, nodes: Iterable[str]) -> dict[str, NodeUsage]:
    """Return what nodes say of themselves, by their names.

    Raises:
        Unreachable: the API server does not answer.
    """
    paths = {name: NODE.path(name=name, subresource="proxy/stats/summary") for name in nodes}
    answers = {name: cluster.send("GET", path, read_seconds=READ_SECONDS) for name, path in paths.items()}
    return {
        name: read_summary(answer.body)
        for name, answer in answers.items()
        if answer.code == HTTPStatus.OK and isinstance(answer.body, dict)
    }


def read_summary(body: Mapping[str, Any]) -> NodeUsage:
    """Return what a Summary says."""
    available = int(((body.get("node") or {}).get("memory") or {}).get("availableBytes") or 0)
    return NodeUsage(available // MIB, dict(_pods(body)))


def _pods(body: Mapping[str, Any]) -> Iterator[tuple[str, PodUsage]]:
    for pod in body.get("pods") or []:
        memory = pod.get("memory")
        if not memory:
            continue
        disk = sum(int(v.get("usedBytes") or 0) for v in pod.get("volume") or [] if v.get("pvcRef"))
        taken, kept = (int(memory.get(name) or 0) for name in ("workingSetBytes", "rssBytes"))
        yield str(pod["podRef"]["uid"]), PodUsage(_mib(taken), _mib(kept), _mib(disk))


def _mib(amount: int) -> int:
    return -(-amount // MIB)
