"""Programs of an instance that are killed: a command that needs them starts them again, and everybody is told."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from harness.infra.host import processes
from harness.infra.host.keeper import Keeper
from harness.infra.host.processes import InstanceParts
from harness.kube import Cluster
from harness.kube.resources import NAMESPACE
from harness.proc import Service
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.embedded.run.runs import vmatrix

SECONDS = 600.0  # against hanging
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubevirt", "mirror", "registry")


def kill(infra: EmbeddedProvider, *names: str) -> None:
    """Kill programs; return once they are gone."""
    for name in names:
        service = Service.load(infra.layout.pidfile(name))
        assert service is not None
        os.kill(service.pid, signal.SIGKILL)
    parts = InstanceParts(infra.layout)
    until(
        lambda: set(parts.dead()) == set(names) or NotYet("they live"), deadline=Deadline.after(SECONDS), what="the end"
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_program_that_is_killed_comes_back_and_the_instance_is_whole(infra: EmbeddedProvider, name: str) -> None:
    said = list[str]()
    kill(infra, name)
    Keeper(infra, said.append).look()
    assert said[0].startswith(f"{name} of instance {infra.layout.name} ended and was started again")

    def whole() -> bool | NotYet:
        seen = infra.status()
        return seen.state == "up" or NotYet(str([p for p in seen.programs if p.problem] or seen.problems))

    until(whole, deadline=Deadline.after(SECONDS), what="the instance to be whole")


def test_what_the_api_knew_is_there_after_etcd_was_killed(infra: EmbeddedProvider, cluster: Cluster) -> None:
    cluster.ensure(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "known"}})
    kill(infra, "etcd", "kube-apiserver")
    Keeper(infra, lambda _: None).look()
    assert cluster.get(NAMESPACE, "known") is not None


def test_status_names_them_and_reap_starts_all_again(infra: EmbeddedProvider, tmp_path: Path) -> None:
    name = infra.layout.name
    kill(infra, *PROGRAMS)
    status = vmatrix("infra", "status", "--name", name, cwd=tmp_path)
    assert status.code != 0
    for program in PROGRAMS:
        assert program in status.stdout
    assert str(infra.layout.logfile("etcd")) in status.stdout.replace("\n", "")
    reaped = vmatrix("reap", "--all", "--infra-name", name, cwd=tmp_path, seconds=SECONDS)
    assert reaped.code == 0, reaped.stdout + reaped.stderr
    assert "ended and was started again" in reaped.stdout
    assert [one for one in PROGRAMS if not processes.runs(infra.layout, one)] == []
