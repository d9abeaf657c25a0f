"""How quickly the operator reacts, and what a manager costs that has nothing to do: its process, its requests."""

from __future__ import annotations

import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness import proc
from harness.kube.client import Cluster, Json
from harness.kube.leader import RENEW_SECONDS, Leadership
from harness.kube.objects import ensure
from harness.kube.resources import CRD, JOB, NAMESPACE
from harness.operator.api.crds import crds
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, ETCD_CLUSTER, MACHINE
from harness.operator.context import OperatorContext, OperatorOptions
from harness.operator.manager import LEASE_NAME, identity
from harness.operator.registry import chosen, start, stop
from harness.until import Deadline, NotYet, until
from tests.bench.figures import Ledger
from tests.bench.ground import Ground
from tests.embedded.operator.recorded import RecordedCluster
from tests.unit.operator.api.objects import deployment, machine

EDITS = 20  # so that the slowest is the 95th percentile
IDLE_SECONDS = 60.0  # what is counted is told per minute
WAIT_SECONDS = 60.0
IMAGE = "registry.invalid/vmatrix:1"  # no executor ever runs here
CONTROLLERS = ("clusterdeployment", "clusterinstall", "executions")  # no machine is logged in to


def measure(ground: Ground, ledger: Ledger, _: int) -> None:
    """Edit one object after the other, then leave a manager alone for a minute."""
    kubeconfig = ground.layout.kubeconfig
    cluster = Cluster.from_kubeconfig(kubeconfig)
    for body in crds():
        ensure(cluster, CRD, body)
    name = f"bench-operator-{secrets.token_hex(3)}"
    cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    try:
        with _running(ground, kubeconfig, name) as manager:
            edits = sorted(edit(cluster, name, number) for number in range(EDITS))
            ledger.add(
                "operator, edit to Job, p95", "s", [edits[-(EDITS // 20) - 1]], target=1.0, note=f"{EDITS} edits"
            )
            ledger.add("- median", "s", edits, note="the same")
            ledger.add("operator, idle manager", "MiB", [resident(manager)], target=120.0, note="VmRSS")
        requests, writes = idle(kubeconfig, name, CONTROLLERS)
        ledger.add("operator, idle: requests a minute", "n", [requests], target=10.0, note="watches aside")
        ledger.add("- of them writes", "n", [writes], note="renewals of the Lease")
    finally:
        clear_operator(cluster, name)


@contextmanager
def _running(ground: Ground, kubeconfig: Path, namespace: str) -> Iterator[proc.Service]:
    """Run a manager as a process of its own."""
    log = ground.directory / "operator.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    words = ["operator", "run", "--kubeconfig", str(kubeconfig), "--namespace", namespace, "--health-port", "0"]
    words += ["--executor-image", IMAGE, "--controllers", ",".join(CONTROLLERS)]
    command = [sys.executable, "-c", "from harness.cli import main; main()", *words]
    service = proc.spawn(command, log=log)
    try:
        _until(lambda: "controllers work" in log.read_text() or NotYet(log.read_text()[-500:]), "a manager")
        yield service
    finally:
        service.stop(grace=WAIT_SECONDS)


def edit(cluster: Cluster, namespace: str, number: int) -> float:
    """Return the seconds from an edit that lets a deployment begin to its Job."""
    name = f"edit-{number}"
    body = deployment(name=name, namespace=namespace, paused=True)
    made = cluster.create(CLUSTER_DEPLOYMENT, body)
    claim = {"cluster": name, "set": "cp", "uid": made["metadata"]["uid"]}
    cluster.create(MACHINE, machine(f"m-{number}", namespace, claim=claim))

    def waits() -> bool | NotYet:
        found: Json = cluster.get(CLUSTER_DEPLOYMENT, name, namespace) or {}
        reasons = {c["reason"] for c in found.get("status", {}).get("conditions", [])}
        return "Paused" in reasons or NotYet(f"reasons are {reasons}")

    _until(waits, f"{name} to wait")
    began = time.monotonic()
    cluster.merge(CLUSTER_DEPLOYMENT, name, {"spec": {"paused": False}}, namespace)
    _until(lambda: cluster.get(JOB, f"{name}-1-deploy", namespace) or NotYet("there is none"), f"the Job of {name}")
    return time.monotonic() - began


def idle(kubeconfig: Path, namespace: str, controllers: Sequence[str] = ()) -> tuple[float, float]:
    """Return how many requests, and how many writes, a manager makes in a minute that has nothing to do.

    Args:
        controllers: those that it runs; all of them for none.
    """
    client = RecordedCluster.open(kubeconfig)
    context = OperatorContext.of(client, kubeconfig, namespace=namespace, options=OperatorOptions(IMAGE))
    leadership = Leadership(client, namespace, LEASE_NAME, identity())
    leadership.acquire(context.stopping)
    start(context, chosen(controllers))
    try:
        _until(lambda: not any(len(c.queue) for c in context.controllers) or NotYet("they look"), "controllers to rest")
        leadership.renew()
        client.asked.clear()
        deadline = Deadline.after(IDLE_SECONDS)
        while deadline.remaining():
            context.stopping.wait(RENEW_SECONDS)
            leadership.renew()
        return float(len(client.asked)), float(len(client.writes()))
    finally:
        stop(context)
        leadership.release()


def resident(service: proc.Service) -> float:
    status = Path(f"/proc/{service.pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None, status
    return int(found[1]) / 1024


def clear_operator(cluster: Cluster, namespace: str) -> None:
    """Delete everything; nobody resets machines that never were."""
    cluster.delete(NAMESPACE, namespace)
    for kind in (CLUSTER_DEPLOYMENT, ETCD_CLUSTER):
        for obj in cluster.list(kind, namespace).items:
            cluster.merge(kind, obj["metadata"]["name"], {"metadata": {"finalizers": None}}, namespace)


def _until(probe: Callable[[], object], what: str) -> None:
    until(probe, deadline=Deadline.after(WAIT_SECONDS), what=what, interval=0.01)
