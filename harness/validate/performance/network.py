"""The pod network between nodes and within them: throughput by iperf3, round trips by sockperf, both over TCP.

Each node has a pod that answers. A pod on each node asks that of its own node and that of the next one, one after the
other, so that no two measurements share a wire. Does not cover every pair: the suite `network` does, without times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.kube import Cluster
from harness.kube.resources import POD
from harness.until import Deadline
from harness.validate.performance.pods import output, pod, started, wait_for
from harness.validate.remote.objects import container

SECONDS = 2  # of each measurement
BYTES = 64  # of a message whose round trip is measured
MARK = "next measurement"
SOCKPERF_PORT = 11111
CONNECT_MS = 5000
SUMMARY = re.compile(r"Summary: (Latency|Round trip) is ([\d.]+) usec")
MIDDLE = re.compile(r"percentile 50\.0+\s*=\s*([\d.]+)")


@dataclass(frozen=True)
class Pair:
    """What one node's pod got from another's: MB (10^6 bytes) a second, and the seconds of a round trip (median)."""

    throughput: float
    round_trip: float


def serve(api: Cluster, nodes: Sequence[str], image: str, deadline: Deadline) -> dict[str, str]:
    """Have a pod on every node that answers; return their addresses. Raises TimedOut when one does not start."""
    for node in nodes:
        servers = [
            container("iperf3", image, command=["iperf3", "-s"]),
            container("sockperf", image, command=["sockperf", "sr", "--tcp", "-p", str(SOCKPERF_PORT)]),
        ]
        api.create(POD, pod(f"server-{node}", servers, node=node))
    names = [f"server-{node}" for node in nodes]
    found = wait_for(api, names, started, deadline, "a pod on every node that answers")
    return {node: str(found[f"server-{node}"]["status"]["podIP"]) for node in nodes}


def targets(nodes: Sequence[str], source: str) -> tuple[str, ...]:
    """Return which nodes' pods are asked from a node: its own, and the next one's."""
    following = nodes[(nodes.index(source) + 1) % len(nodes)]
    return tuple(dict.fromkeys((source, following)))


def network_of_node(
    api: Cluster, source: str, servers: Mapping[str, str], image: str, deadline: Deadline
) -> dict[str, Pair]:
    """Return what a pod on a node gets from others, by their node.

    Args:
        servers: addresses by node.

    Raises:
        TimedOut: the pod does not end.  AssertionError: a program fails.
    """
    parts = [
        f"iperf3 -c {address} -t {SECONDS} -J --connect-timeout {CONNECT_MS}; echo {MARK!r}; "
        f"sockperf pp --tcp -i {address} -p {SOCKPERF_PORT} -t {SECONDS} -m {BYTES} --full-rtt; echo {MARK!r}"
        for address in servers.values()
    ]
    texts = output(api, f"client-{source}", image, source, "; ".join(parts), deadline).split(MARK)
    return {
        node: Pair(throughput_of(texts[2 * number]), round_trip_of(texts[2 * number + 1]))
        for number, node in enumerate(servers)
    }


def throughput_of(text: str) -> float:
    """Return the MB a second that iperf3's JSON says the other side got. Raises ValueError when it does not."""
    try:
        return float(json.loads(text[text.index("{") :])["end"]["sum_received"]["bits_per_second"]) / 8e6
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"iperf3 printed no throughput: {text[-300:]!r}") from error


def round_trip_of(text: str) -> float:
    """Return the seconds of the median round trip that sockperf printed. Raises ValueError when it did not.

    It tells half of a round trip unless it is asked for the whole, and says which.
    """
    summary, middle = SUMMARY.search(text), MIDDLE.search(text)
    if summary is None:
        raise ValueError(f"sockperf printed no summary: {text[-300:]!r}")
    usual = float(middle[1]) if middle is not None else float(summary[2])
    return usual * (2.0 if summary[1] == "Latency" else 1.0) / 1e6
