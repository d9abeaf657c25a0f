"""A site's worth of clusters: what a manager needs that starts beside them, and how quickly it still reacts.

Logins, executors and what the Job controller makes of them are played; the API server and the manager are real.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.kube.client import Cluster
from harness.kube.objects import ensure
from harness.kube.resources import CRD, NAMESPACE, SERVICE_ACCOUNT
from harness.operator.api.crds import crds
from harness.until import Deadline, NotYet, until
from tests.bench.figures import Ledger
from tests.bench.ground import Ground
from tests.bench.operator import IMAGE, WAIT_SECONDS, clear_operator, edit, resident
from tests.embedded.operator.many import all_begun, declare_many
from tests.embedded.operator.played_jobs import PLAYED, hand_over, playing

CLUSTERS, MACHINES = 200, 10  # each; 2000 in all
MADE_SECONDS = 1800.0  # until all of them have begun, on a host that does other things as well
SELDOM_SECONDS = 3.0  # between looks at all objects: they cost the API as much as the manager's own
EDITS = 10


def measure(ground: Ground, ledger: Ledger, _: int) -> None:
    """Declare everything, let a first manager begin all deployments, and start a second one beside that."""
    kubeconfig = ground.layout.kubeconfig
    api = Cluster.from_kubeconfig(kubeconfig)
    for body in crds():
        ensure(api, CRD, body)
    name = f"bench-many-{secrets.token_hex(3)}"
    api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": PLAYED}})
    try:
        api.ensure(SERVICE_ACCOUNT, SERVICE_ACCOUNT.manifest("default", name, labels={}))
        hand_over(api, name)
        with playing(api, runs=True):  # executors that do not start would be looked at and told of, one by one
            _measure(ground, ledger, api, name)
    finally:
        clear_operator(api, name)


def _measure(ground: Ground, ledger: Ledger, api: Cluster, name: str) -> None:
    note = f"{CLUSTERS} ClusterDeployments, {CLUSTERS * MACHINES} Machines"
    declare_many(api, name, range(CLUSTERS), MACHINES)
    began = time.monotonic()
    with _running(ground, name, "first") as first:
        _until(first.leads, "the first manager to work", MADE_SECONDS)
        with _running(ground, name, "second") as second:
            _until(all_begun(api, name, CLUSTERS), "all Jobs", MADE_SECONDS, SELDOM_SECONDS)
            _until(first.rests, "the first manager to rest", MADE_SECONDS)
            ledger.add("many, from machines to Jobs", "s", [time.monotonic() - began], note=note)
            os.kill(first.service.pid, signal.SIGKILL)
            _taken_over(ledger, second)
            edits = [edit(api, name, number) for number in range(EDITS)]
            ledger.add("many, edit to Job", "s", edits, target=1.0, note=f"{EDITS} edits beside all that")
            ledger.add("many, manager", "MiB", [resident(second.service)], target=350.0, note="VmRSS at the end")


def _taken_over(ledger: Ledger, second: Running) -> None:
    killed = time.monotonic()
    _until(second.leads, "the second manager to work", MADE_SECONDS)
    leads = time.monotonic()
    ledger.add("many, killed to work again", "s", [leads - killed], target=20.0, note="with its first lists")
    _until(second.rests, "the second manager to rest", MADE_SECONDS)
    after = time.monotonic() - leads
    ledger.add("many, first sync", "s", [after], target=30.0, note="after that, until nothing is to be looked at")


@dataclass
class Running:
    """A manager that runs."""

    service: proc.Service
    log: Path

    def leads(self) -> bool | NotYet:
        """Tell whether it has the Lease and its first lists."""
        return self._figure("leading") == 1.0 or NotYet(self.log.read_text()[-300:])

    def rests(self) -> bool | NotYet:
        """Tell whether nothing is to be looked at."""
        left = self._figure("queue_length")
        return left == 0.0 or NotYet(f"{left:g} objects to look at")

    def _figure(self, name: str) -> float:
        """Return the sum of a metric's samples; -1 before there is an answer."""
        port = re.search(r"health on port (\d+)", self.log.read_text(encoding="utf-8"))
        if port is None:
            return -1.0
        with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/metrics", timeout=WAIT_SECONDS) as answer:
            text = answer.read().decode()
        return sum(float(found) for found in re.findall(rf"^vmatrix_operator_{name}\S* (\S+)$", text, re.MULTILINE))


@contextmanager
def _running(ground: Ground, namespace: str, name: str) -> Iterator[Running]:
    """Run a manager with all controllers as a process of its own."""
    log = ground.directory / f"many-{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [
        "--kubeconfig",
        str(ground.layout.kubeconfig),
        "--namespace",
        namespace,
        "--health-port",
        "0",
        "--git-port",
        "0",
    ]
    command = [sys.executable, "-m", "tests.bench.many_manager", "operator", "run", *words, "--executor-image", IMAGE]
    service = proc.spawn(command, log=log)
    try:
        yield Running(service, log)
    finally:
        service.stop(grace=WAIT_SECONDS)


def _until(probe: Callable[[], object], what: str, seconds: float, interval: float = 0.1) -> None:
    until(probe, deadline=Deadline.after(seconds), what=what, interval=interval)
