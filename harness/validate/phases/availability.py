"""Availability during a phase: requests from a machine all through it, outages, and the workload that must answer.

The workload: two pods behind a Service, of which one may be evicted at a time. It is created before the first phase
that needs it, and stays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.errors import InfraError, ProductError
from harness.kube import Cluster
from harness.kube.resources import DEPLOYMENT, POD_DISRUPTION_BUDGET, SERVICE
from harness.model import Machine
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.facts.cluster import Json
from harness.validate.findings import Mismatch
from harness.validate.hosts import MACHINE, remote_command
from harness.validate.phases.data import LIFE
from harness.validate.pods import (
    HTTP_PORT,
    INTERVAL,
    describe_pods,
    ensure_namespace,
    netexec,
    wait_for_service_account,
)

UNWATCHED_SECONDS = 10.0  # a busy host sends requests late; a longer gap between two of them counts as not watched


@dataclass(frozen=True)
class TimedRequest:
    """One request: when it was sent (seconds since the first), how long it took, and why it failed ("": it did not)."""

    at: float
    took: float
    why: str


@dataclass(frozen=True)
class Availability:
    """How available one address was during a phase.

    outage: the longest time, in seconds, from the first failed request to the next successful one.
    why: how the longest outage began.  lasts: whether an outage goes on at the end.
    seconds: from the first request to the end of the last.
    unwatched: the longest time without any request, 0 when that is tolerable.
    """

    name: str
    asked: int
    failed: int
    outage: float
    why: str
    seconds: float
    unwatched: float
    lasts: bool

    def summary(self, limit: float | None) -> str:
        """Return one line for reports; `limit` (seconds) is the longest outage allowed, None for any."""
        allowed = "no limit on a single node" if limit is None else f"limit {limit:.0f} s"
        why = f"; the longest outage began with: {self.why}" if self.failed else ""
        why += f"; no request was sent for {self.unwatched:.0f} s, the host was busy" if self.unwatched else ""
        return (
            f"{self.name}: longest outage {self.outage:.1f} s ({allowed}), "
            f"{self.failed} of {self.asked} requests failed in {self.seconds:.0f} s{why}"
        )


def read_availability(text: str) -> dict[str, Availability]:
    """Return the availability of each address, by its name."""
    rows_by_name: dict[str, list[TimedRequest]] = {}
    for name, row in read_requests(text):
        rows_by_name.setdefault(name, []).append(row)
    return {name: availability_of(name, rows) for name, rows in rows_by_name.items()}


def read_requests(text: str) -> list[tuple[str, TimedRequest]]:
    """Return the requests, each with its address's name; lines of ssh and a last line that was cut off are skipped."""
    requests: list[tuple[str, TimedRequest]] = []
    whole, _, _ = text.rpartition("\n")
    for line in whole.splitlines():
        try:
            row = json.loads(line)
            requests.append((row["of"], TimedRequest(float(row["at"]), float(row["took"]), row["why"])))
        except (ValueError, KeyError, TypeError):
            continue
    return requests


def availability_of(name: str, rows: Sequence[TimedRequest]) -> Availability:
    """Sum up the requests to one address. There is at least one."""
    longest, why, began = 0.0, "", None
    unwatched, last = 0.0, rows[0]
    for row in rows:
        gap = row.at - (last.at + last.took)
        unwatched = max(unwatched, gap if gap > UNWATCHED_SECONDS else 0.0)
        last = row
        end = row.at + row.took
        if row.why and began is None:
            began = row
        if began is not None and end - began.at > longest:
            longest, why = end - began.at, began.why
        if not row.why:
            began = None
    return Availability(
        name=name,
        asked=len(rows),
        failed=sum(bool(row.why) for row in rows),
        outage=longest,
        why=why,
        seconds=last.at + last.took - rows[0].at,
        unwatched=unwatched,
        lasts=began is not None,
    )


PROGRAM = MACHINE / "availability.py"
INTERVAL_SECONDS = 0.5  # the resolution of outages
MOST_SECONDS = 4 * 3600.0  # longer than any phase: the machine stops by itself when vmatrix cannot stop it
STOP_SECONDS = 5.0  # for the local ssh client to end


@dataclass(frozen=True)
class RequestStream:
    """Requests under way: the process that sends them, its log, the names of the addresses, and the machine."""

    service: proc.Service
    log: Path
    names: tuple[str, ...]
    machine: str

    def output(self) -> str:
        """Return the lines so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for_success(self, deadline: Deadline, *, what: str, since_now: bool = False) -> None:
        """Wait for a successful request to every address.

        Args:
            since_now: only requests from now on count.

        Raises:
            InfraError: the machine has stopped sending.  ProductError: no request to an address succeeds in time.
        """
        skip = len(read_requests(self.output())) if since_now else 0

        def probe() -> bool | NotYet:
            rows = read_requests(self.output())[skip:]
            missing = [name for name in self.names if not any(of == name and not row.why for of, row in rows)]
            if not missing:
                return True
            if not self.service.alive():
                raise InfraError(
                    f"{self.machine} stopped sending requests during the phase",
                    hint=f"see the end of {self.log}; is the machine still running?",
                    paths=(self.log,),
                    detail=self.output()[-500:],
                )
            last = {of: row.why for of, row in rows}
            return NotYet("; ".join(f"{name}: {last.get(name, 'no request yet')}" for name in missing))

        try:
            until(probe, deadline=deadline, what=what, interval=0.3)
        except TimedOut as late:
            raise ProductError(late.summary, hint=f"{self.log} has every request", paths=(self.log,)) from late

    def stop(self) -> None:
        """Stop sending. Idempotent."""
        self.service.stop(grace=STOP_SECONDS)


def send_requests(
    machine: Machine, login: Sequence[str], addresses: Mapping[str, tuple[str, str]], log: Path, timeouts: Timeouts
) -> RequestStream:
    """Start to send requests from a machine.

    Args:
        login: the command that logs in to it; the remote command is appended.
        addresses: URL and, for https, the file of the CA on that machine, by name.
        log: gets the lines of machine/availability.py; overwritten.
    """
    timeout = timeouts.availability_request
    requests = [
        {"name": name, "url": url, "cafile": cafile, "timeout": timeout, "interval": INTERVAL_SECONDS}
        for name, (url, cafile) in addresses.items()
    ]
    argument = json.dumps({"seconds": MOST_SECONDS, "requests": requests})
    command = remote_command(PROGRAM, argument, timeouts=timeouts, seconds=MOST_SECONDS + STOP_SECONDS)
    as_root = "" if machine.user == "root" else "sudo "
    log.write_text("", encoding="utf-8")
    service = proc.spawn([*login, as_root + command], log=log)
    return RequestStream(service, log, tuple(addresses), machine.name)


def interrupted(availability: Availability, *, phase_seconds: float, limit: float | None) -> list[Mismatch]:
    """Return outages of an address during a phase, and what keeps the requests from proving that there were none.

    Args:
        phase_seconds: how long the phase took; the requests must cover it.
        limit: the longest outage that is allowed, in seconds; None for any.
    """
    name = availability.name
    if availability.asked == availability.failed:
        return [Mismatch(name, "successful requests during the phase", availability.summary(limit))]
    mismatches: list[Mismatch] = []
    if availability.seconds < phase_seconds:
        took = f"{availability.seconds:.0f} s"
        mismatches.append(Mismatch(name, f"requests during all {phase_seconds:.0f} s of the phase", took))
    if availability.lasts:
        mismatches.append(
            Mismatch(name, "an answer after the phase", f"none for {availability.outage:.1f} s; {availability.why}")
        )
    if limit is not None and availability.unwatched > limit:
        mismatches.append(
            Mismatch(name, f"a request at least every {limit:.0f} s", f"none for {availability.unwatched:.0f} s")
        )
    if limit is not None and availability.outage > limit:
        mismatches.append(Mismatch(name, f"no outage longer than {limit:.0f} s", availability.summary(limit)))
    return mismatches


WORKLOAD = "keeps-answering"
REPLICAS = 2
# A pod keeps answering after it was told to end, until every node's rules have dropped it. Policy: a workload as users
# write it; outages are judged by workload_outage.
SHUTDOWN_SECONDS = 5
READY_SECONDS = 5  # the kubelet's limit for one readiness probe; a busy node's pods stay in the Service


def place_workload(api: Cluster, image: str, nodes: Sequence[str], deadline: Deadline) -> str:
    """Create the workload, wait until both pods are ready, and return the address of their Service.

    On a single node there is no PodDisruptionBudget: pods have no other node to go to, so no eviction would be granted.

    Args:
        image: of agnhost, as the nodes pull it.

    Raises:
        ProductError: the pods do not become ready in time.
    """
    ensure_namespace(api, LIFE)
    wait_for_service_account(api, LIFE, deadline)
    service = api.ensure(SERVICE, _service())
    api.ensure(DEPLOYMENT, _deployment(image))
    if len(nodes) > 1:
        api.ensure(POD_DISRUPTION_BUDGET, _budget())
    try:
        what = f"{REPLICAS} pods of {LIFE}/{WORKLOAD} to be ready"
        until(lambda: _ready(api), deadline=deadline, what=what, interval=INTERVAL)
    except TimedOut as late:
        raise ProductError(
            f"the workload does not start before the phase: {late.summary}",
            hint=f"kubectl --kubeconfig kubeconfig -n {LIFE} describe pods",
            detail=describe_pods(api, LIFE),
        ) from late
    return str(service["spec"]["clusterIP"])


def _ready(api: Cluster) -> bool | NotYet:
    status = (api.get(DEPLOYMENT, WORKLOAD, LIFE) or {}).get("status", {})
    count = status.get("readyReplicas", 0)
    return True if count >= REPLICAS else NotYet(f"{count} ready")


def _metadata() -> Json:
    return {"name": WORKLOAD, "namespace": LIFE}


def _service() -> Json:
    ports = [{"name": "http", "port": 80, "targetPort": HTTP_PORT}]
    spec = {"selector": {"app": WORKLOAD}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(), "spec": spec}


def _budget() -> Json:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": WORKLOAD}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _metadata(), "spec": spec}


def _deployment(image: str) -> Json:
    others = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": WORKLOAD}}}
    spread = {"weight": 100, "podAffinityTerm": others}
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": SHUTDOWN_SECONDS * 2,
        # control planes too: with one worker, its pods have to go somewhere while it is drained
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [spread]}},
        "containers": [netexec(image, f"--delay-shutdown={SHUTDOWN_SECONDS}", timeoutSeconds=READY_SECONDS)],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(),
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": WORKLOAD}},
            "template": {"metadata": {"labels": {"app": WORKLOAD}}, "spec": pod},
        },
    }
