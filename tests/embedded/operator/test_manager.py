"""`vmatrix operator run` as a process: one of two works, SIGTERM ends it, and definitions must not be older."""

from __future__ import annotations

import copy
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.kube.client import Cluster
from harness.kube.objects import dig
from harness.kube.resources import CRD, LEASE
from harness.providers.embedded import EmbeddedProvider
from harness.until import NotYet
from tests.embedded.operator.world import IMAGE, MINE, NAME, World

DEPLOY = f"{NAME}-1-deploy"
PATIENT = ("--lease-seconds", "300")  # a host that stands still for a while costs nobody the Lease
END_SECONDS = 300.0  # against hanging: for a process of this host to end


@dataclass
class Running:
    """A manager that runs."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        """Return what it has printed."""
        return self.log.read_text(encoding="utf-8")

    def ask(self, path: str) -> str:
        """Return an answer of its health port, "" before there is one."""
        port = re.search(r"health on port (\d+)", self.said())
        if port is None:
            return ""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}{path}", timeout=END_SECONDS) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode()
        except OSError:
            return ""

    def works(self) -> bool | NotYet:
        """Tell whether it is the one that works."""
        assert self.process.poll() is None, self.said()
        return "\nvmatrix_operator_leading 1.0\n" in self.ask("/metrics") or NotYet(self.said())

    def waits(self) -> bool | NotYet:
        """Tell whether it waits for another to end."""
        assert self.process.poll() is None, self.said()
        return "\nvmatrix_operator_leading 0.0\n" in self.ask("/metrics") or NotYet(self.said())

    def end(self, number: signal.Signals) -> int:
        """Send a signal; return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(END_SECONDS)


@pytest.fixture
def begin(infra: EmbeddedProvider, namespace: str, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Return what starts managers of the test's namespace; none is left after the test."""
    started: list[Running] = []

    def starting(*more: str) -> Running:
        log = tmp_path / f"manager-{len(started)}.log"
        command = [sys.executable, "-c", "from harness.cli import main; main()", "operator", "run"]
        options = ["--kubeconfig", str(infra.kubeconfig()), "--namespace", namespace, "--executor-image", IMAGE]
        options += ["--controllers", ",".join(MINE), "--health-port", "0", "--git-port", "0", "--timeout-scale", "10"]
        with log.open("wb") as sink:
            environment = {**os.environ, "TMPDIR": str(tmp_path)}  # who is killed leaves its folder
            process = subprocess.Popen(
                [*command, *options, *more], stdout=sink, stderr=subprocess.STDOUT, env=environment
            )
        started.append(Running(process, log))
        return started[-1]

    yield starting
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()


def test_manager_works_from_the_object_to_the_job_and_ends_when_told(
    world: World, begin: Callable[..., Running]
) -> None:
    manager = begin()
    world.wait(manager.works, "the manager to work")
    assert manager.ask("/healthz") == manager.ask("/readyz") == "ok\n"
    world.declare()
    world.succeed(DEPLOY)
    world.history(1)
    counted = 'vmatrix_operator_operations_total{operation="deploy",outcome="succeeded"} 1.0'
    world.wait(lambda: counted in manager.ask("/metrics") or NotYet(manager.said()), counted)
    assert 'vmatrix_operator_reconcile_errors_total{controller="clusterinstall"} 0.0' in manager.ask("/metrics")
    assert manager.end(signal.SIGTERM) == 0
    names = [lease["metadata"]["name"] for lease in world.api.list(LEASE, world.namespace).items]
    (name,) = names
    assert dig(world.get(LEASE, name), "spec", "holderIdentity") in (None, "")


def test_another_takes_over_what_a_killed_manager_has_begun(world: World, begin: Callable[..., Running]) -> None:
    first = begin(*PATIENT)
    world.wait(first.works, "the first manager to work")
    second = begin(*PATIENT)
    world.wait(second.waits, "the second manager to wait")
    assert second.ask("/readyz") == "ok\n"
    world.declare()
    world.kubelet.run(DEPLOY)
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    world.succeed(DEPLOY)
    (lease,) = world.api.list(LEASE, world.namespace).items
    soon = {"spec": {"leaseDurationSeconds": 1}}  # else the second waits for five minutes
    world.api.merge(LEASE, lease["metadata"]["name"], soon, world.namespace)
    world.wait(second.works, "the second manager to work")
    assert [entry["attempt"] for entry in world.history(1)] == [1]
    assert world.kubelet.jobs() == [DEPLOY]


def test_manager_whose_lease_another_has_ends_with_an_error(world: World, begin: Callable[..., Running]) -> None:
    manager = begin()
    world.wait(manager.works, "the manager to work")
    (lease,) = world.api.list(LEASE, world.namespace).items
    spec = {"spec": {"holderIdentity": "another"}}
    world.api.merge(LEASE, lease["metadata"]["name"], spec, world.namespace)
    assert manager.process.wait(END_SECONDS) == 75
    assert "is another's now" in manager.said()


@pytest.fixture
def older(api: Cluster) -> Iterator[str]:
    """Have a definition without a field that this version knows, and no test needs; return its name."""
    name = "machinesets.cluster.vmatrix.dev"
    found = api.get(CRD, name)
    assert found is not None
    older = copy.deepcopy(found)
    older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"].pop("executions")
    older["metadata"]["annotations"].pop("cluster.vmatrix.dev/schema")
    changed = api.replace(CRD, older)
    yield name
    own = {name: found["metadata"][name] for name in ("name", "annotations", "labels") if name in found["metadata"]}
    meta = {**own, "resourceVersion": (api.get(CRD, name) or changed)["metadata"]["resourceVersion"]}
    api.replace(CRD, {**found, "metadata": meta})


def test_definitions_that_are_older_are_refused_with_what_to_do(older: str, begin: Callable[..., Running]) -> None:
    manager = begin()
    assert manager.process.wait(END_SECONDS) == 2
    said = manager.said()
    assert f"the definition {older} is older than the operator, without status.executions" in said
    assert "vmatrix operator crds | kubectl apply --server-side -f -" in said
