"""How long it takes from a Service's endpoint being ready until the Service answers on each node.

As upstream's network programming latency, but seen from outside of kube-proxy: Services without endpoints get one, one
after the other, and every node asks for all of them all the time.
"""

from __future__ import annotations

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
from harness.validate.performance.pods import NAME, pod, ready, wait_for
from harness.validate.remote.hosts import MACHINE, run_on_each
from harness.validate.remote.objects import HTTP_PORT, netexec

PROGRAM = MACHINE / "services.py"
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
    found = wait_for(api, ["backend-0"], ready, deadline, "the pod behind the Services")
    backend = str(found["backend-0"]["status"]["podIP"])
    addresses = [api.create(SERVICE, _service(number))["spec"]["clusterIP"] for number in range(ROUNDS)]
    seconds = BEFORE + ROUNDS * BETWEEN + AFTER
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(_ask, hosts, addresses, seconds, timeouts)
        time.sleep(BEFORE)
        given = []
        for number in range(ROUNDS):
            api.create(ENDPOINT_SLICE, _slice(number, backend))
            given.append(time.time())
            time.sleep(BETWEEN)
        answers = asking.result()
    return {name: taken(given, addresses, found) for name, found in answers.items()}


def taken(given: Sequence[float], addresses: Sequence[str], found: FirstAnswers) -> list[float | None]:
    """Return how long each Service took on one node; those that got their endpoint before it asked are left out."""
    return [
        max(0.0, first - at) if (first := found.first.get(f"{address}:{PORT}")) is not None else None
        for at, address in zip(given, addresses, strict=True)
        if at > found.began
    ]


def middle(took: Sequence[float | None]) -> float:
    """Return the median of those that answered. There is at least one."""
    return median(one for one in took if one is not None)


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
    given = {"services": [[address, PORT] for address in addresses], "seconds": seconds}
    called = time.time()
    read = lambda raw: first_answers(raw, called, time.time())  # noqa: E731
    limit = timeouts.machine_program + seconds
    return run_on_each(hosts, PROGRAM, read, timeouts, given=dict.fromkeys(hosts, given), seconds=limit)


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
