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
from tests.embedded.operator.many import CLUSTERS, ETCDS, Population
from tests.embedded.operator.played_jobs import PLAYED, hand_over, playing

COUNT, MACHINES, MEMBERS = 200, 10, 3  # objects; machines of a cluster, and members of an etcd
IDLE_SECONDS = 60.0
MADE_SECONDS = 1800.0  # until all of them have begun, on a host that does other things as well
SELDOM_SECONDS = 3.0  # between looks at all objects: they cost the API as much as the manager's own
EDITS = 10


@dataclass(frozen=True)
class ManyObjects:
    """What is measured: objects of one kind, each of so many machines. words: what figures are called."""

    words: str
    population: Population
    machines: int
    edits: int = 0


DEPLOYMENTS = ManyObjects("many", CLUSTERS, MACHINES, EDITS)
ETCD_CLUSTERS = ManyObjects("many etcd", ETCDS, MEMBERS)


def measure(ground: Ground, ledger: Ledger, _: int) -> None:
    """Measure a manager of many ClusterDeployments."""
    _measure_one(ground, ledger, DEPLOYMENTS)


def measure_etcd(ground: Ground, ledger: Ledger, _: int) -> None:
    """Measure a manager of many EtcdClusters."""
    _measure_one(ground, ledger, ETCD_CLUSTERS)


def _measure_one(ground: Ground, ledger: Ledger, about: ManyObjects) -> None:
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
            _measure(ground, ledger, api, name, about)
    finally:
        clear_operator(api, name)


def _measure(ground: Ground, ledger: Ledger, api: Cluster, name: str, about: ManyObjects) -> None:
    population, words = about.population, about.words
    note = f"{COUNT} {population.kind.kind}s, {COUNT * about.machines} Machines"
    population.declare(api, name, range(COUNT), about.machines)
    began = time.monotonic()
    with _running(ground, name, "first") as first:
        _until(first.leads, "the first manager to work", MADE_SECONDS)
        with _running(ground, name, "second") as second:
            _until(population.all_begun(api, name, COUNT), "all Jobs", MADE_SECONDS, SELDOM_SECONDS)
            _until(first.rests, "the first manager to rest", MADE_SECONDS)
            ledger.add(f"{words}, from machines to Jobs", "s", [time.monotonic() - began], note=note)
            os.kill(first.service.pid, signal.SIGKILL)
            _taken_over(ledger, second, words)
            _idle(ledger, second, words)
            if about.edits:
                edits = [edit(api, name, number) for number in range(about.edits)]
                ledger.add(f"{words}, edit to Job", "s", edits, target=1.0, note=f"{about.edits} edits beside all that")
            ledger.add(f"{words}, manager", "MiB", [resident(second.service)], target=350.0, note="VmRSS at the end")


def _idle(ledger: Ledger, manager: Running, words: str) -> None:
    """Measure a manager that has nothing to do: how often it looks at an object, and its processor time."""
    looks, spent = manager.figure("reconciles_total"), manager.processor_seconds()
    time.sleep(IDLE_SECONDS)
    looks, spent = manager.figure("reconciles_total") - looks, manager.processor_seconds() - spent
    note = f"in {IDLE_SECONDS:.0f} s with nothing to do"
    ledger.add(f"{words}, idle: looks a minute", "", [looks], note=note)
    ledger.add(f"{words}, idle: processor time a minute", "s", [spent], note=note)


def _taken_over(ledger: Ledger, second: Running, words: str) -> None:
    killed = time.monotonic()
    _until(second.leads, "the second manager to work", MADE_SECONDS)
    leads = time.monotonic()
    ledger.add(f"{words}, killed to work again", "s", [leads - killed], target=20.0, note="with its first lists")
    _until(second.rests, "the second manager to rest", MADE_SECONDS)
    after = time.monotonic() - leads
    ledger.add(f"{words}, first sync", "s", [after], target=30.0, note="after that, until nothing is to be looked at")


@dataclass
class Running:
    """A manager that runs."""

    service: proc.Service
    log: Path

    def leads(self) -> bool | NotYet:
        """Tell whether it has the Lease and its first lists."""
        return self.figure("leading") == 1.0 or NotYet(self.log.read_text()[-300:])

    def rests(self) -> bool | NotYet:
        """Tell whether nothing is to be looked at."""
        left = self.figure("queue_length")
        return left == 0.0 or NotYet(f"{left:g} objects to look at")

    def processor_seconds(self) -> float:
        """Return the processor time that it has used."""
        fields = Path(f"/proc/{self.service.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def figure(self, name: str) -> float:
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
