"""DNS as pods of each node get it: how long an answer takes under a steady load, and how many there are at most.

dnsperf (https://www.dns-oarc.net/tools/dnsperf) asks the DNS Service for names of the cluster: first so many times a
second, then as fast as answers come. Does not cover names outside of the cluster, whose answers others give.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.kube import Cluster
from harness.until import Deadline
from harness.validate.performance.pods import output

STEADY, STEADY_SECONDS = 200, 6  # questions a second
MOST_SECONDS = 4  # of asking, for a rate that is steady
MARK = "next measurement"
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
        found = pattern.search(text)
        if found is None:
            raise ValueError(f"dnsperf printed no {name}: {text[-300:]!r}")
        numbers[name] = float(found[1])
    return DnsTimes(numbers["latency"], numbers["rate"], int(numbers["sent"]), int(numbers["completed"]))
