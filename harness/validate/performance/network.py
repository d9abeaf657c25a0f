"""Network performance: throughput and latency between pods, DNS lookups, and how soon a Service answers.

Throughput is measured by iperf3, round trips by sockperf, both over TCP. Each node has a pod that answers. A pod on
each node asks that of its own node and that of the next one, one after the other, so that no two measurements share a
wire. Does not cover every pair: the suite `network` does, without times.

dnsperf (https://www.dns-oarc.net/tools/dnsperf) asks the DNS Service for names of the cluster: first so many times a
second, then as fast as answers come. Does not cover names outside of the cluster, whose answers others give.

Services: as upstream's network programming latency, but seen from outside of kube-proxy: Services without endpoints get
one, one after the other, and every node asks for all of them all the time.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any

from harness.kube import Cluster
from harness.kube.resources import ENDPOINT_SLICE, POD, SERVICE
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.facts.cluster import Json
from harness.validate.hosts import MACHINE, run_on_each
from harness.validate.performance.pods import NAME, output, pod, ready, started, wait_for
from harness.validate.pods import HTTP_PORT, container, netexec

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
    pods = wait_for(api, names, started, deadline, "a pod on every node that answers")
    return {node: str(pods[f"server-{node}"]["status"]["podIP"]) for node in nodes}


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


STEADY, STEADY_SECONDS = 200, 6  # questions a second
MOST_SECONDS = 4  # of asking, for a rate that is steady
CLIENTS = 4  # sockets that ask side by side
FOUND = {
    "rate": re.compile(r"^\s*Queries per second:\s+([\d.]+)", re.MULTILINE),
    "latency": re.compile(r"^\s*Average Latency \(s\):\s+([\d.]+)", re.MULTILINE),
    "sent": re.compile(r"^\s*Queries sent:\s+(\d+)", re.MULTILINE),
    "completed": re.compile(r"^\s*Queries completed:\s+(\d+)", re.MULTILINE),
}


@dataclass(frozen=True)
class DnsTimes:
    """What dnsperf says: seconds for an answer (mean), answers a second, questions sent and answered."""

    latency: float
    rate: float
    sent: int
    completed: int


def dns_of_node(
    api: Cluster, node: str, image: str, server: str, domain: str, deadline: Deadline
) -> tuple[DnsTimes, DnsTimes]:
    """Return how DNS answers a pod on a node: under the steady load, and at most.

    Args:
        server: address of the DNS Service.  domain: of the cluster.

    Raises:
        TimedOut: the pod does not end.  AssertionError: dnsperf fails.
    """
    names = (f"kubernetes.default.svc.{domain} A", f"kube-dns.kube-system.svc.{domain} A")
    questions = "\\n".join(names)
    ask = f"dnsperf -s {server} -d /tmp/questions -c {CLIENTS}"
    script = (
        f"printf '{questions}\\n' > /tmp/questions; {ask} -l {STEADY_SECONDS} -Q {STEADY}; echo {MARK!r}; "
        f"{ask} -l {MOST_SECONDS}"
    )
    steady, _, most = output(api, f"dns-{node}", image, node, script, deadline).partition(MARK)
    return dns_times(steady), dns_times(most)


def dns_times(text: str) -> DnsTimes:
    """Return what a run of dnsperf printed. Raises ValueError when it lacks a number."""
    numbers: dict[str, float] = {}
    for name, pattern in FOUND.items():
        match = pattern.search(text)
        if match is None:
            raise ValueError(f"dnsperf printed no {name}: {text[-300:]!r}")
        numbers[name] = float(match[1])
    return DnsTimes(numbers["latency"], numbers["rate"], int(numbers["sent"]), int(numbers["completed"]))


FIRST_ANSWERS = MACHINE / "services.py"
ROUNDS = 5
PORT = 80
BEFORE = 3.0  # seconds that nodes ask in vain first: their programs have to be running
BETWEEN = 1.6  # seconds from one Service's endpoint to the next: more than kube-proxy's minSyncPeriod of 1 s
AFTER = 15.0  # seconds that nodes go on asking


@dataclass(frozen=True)
class FirstAnswers:
    """When Services first answered a machine, by address, in seconds of the harness's clock."""

    began: float
    first: Mapping[str, float]


def programming_seconds(
    api: Cluster, hosts: Mapping[str, Any], image: str, timeouts: Timeouts, deadline: Deadline
) -> dict[str, list[float | None]]:
    """Return how long each Service took to answer on each node, by node; None where it never did.

    Args:
        hosts: the nodes.

    Raises:
        TimedOut: the pod behind the Services does not start.
    """
    api.create(POD, pod("backend-0", [netexec(image)]))
    pods = wait_for(api, ["backend-0"], ready, deadline, "the pod behind the Services")
    backend = str(pods["backend-0"]["status"]["podIP"])
    addresses = [api.create(SERVICE, _service(number))["spec"]["clusterIP"] for number in range(ROUNDS)]
    seconds = BEFORE + ROUNDS * BETWEEN + AFTER
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(_ask, hosts, addresses, seconds, timeouts)
        time.sleep(BEFORE)
        endpoint_times = []
        for number in range(ROUNDS):
            api.create(ENDPOINT_SLICE, _slice(number, backend))
            endpoint_times.append(time.time())
            time.sleep(BETWEEN)
        answers = asking.result()
    return {name: taken(endpoint_times, addresses, first_seen) for name, first_seen in answers.items()}


def taken(endpoint_times: Sequence[float], addresses: Sequence[str], answers: FirstAnswers) -> list[float | None]:
    """Return how long each Service took on one node; those that got their endpoint before it asked are left out."""
    return [
        max(0.0, first - at) if (first := answers.first.get(f"{address}:{PORT}")) is not None else None
        for at, address in zip(endpoint_times, addresses, strict=True)
        if at > answers.began
    ]


def median_of(took: Sequence[float | None]) -> float:
    """Return the median of those that answered. There is at least one."""
    return median(seconds for seconds in took if seconds is not None)


def first_answers(raw: Mapping[str, Any], called: float, answered: float) -> FirstAnswers:
    """Return a machine's answers in the harness's time.

    The machine began after it was called, and ended before it had answered: between these two its clock may differ. If
    they leave it possible that the clocks agree, they do.
    """
    least, most = called - raw["began"], answered - raw["ended"]
    ahead = 0.0 if least <= 0.0 <= most else (least + most) / 2
    return FirstAnswers(raw["began"] + ahead, {name: at + ahead for name, at in raw["first"].items()})


def _ask(
    hosts: Mapping[str, Any], addresses: Sequence[str], seconds: float, timeouts: Timeouts
) -> dict[str, FirstAnswers]:
    options = {"services": [[address, PORT] for address in addresses], "seconds": seconds}
    called = time.time()
    read = lambda raw: first_answers(raw, called, time.time())  # noqa: E731
    limit = timeouts.machine_program + seconds
    return run_on_each(hosts, FIRST_ANSWERS, read, timeouts, given=dict.fromkeys(hosts, options), seconds=limit)


def _service(number: int) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"round-{number}", "namespace": NAME},
        "spec": {"ports": [{"name": "http", "port": PORT, "targetPort": HTTP_PORT}]},
    }


def _slice(number: int, address: str) -> Json:
    labels = {"kubernetes.io/service-name": f"round-{number}", "endpointslice.kubernetes.io/managed-by": "vmatrix"}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"round-{number}", "namespace": NAME, "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": HTTP_PORT, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }
