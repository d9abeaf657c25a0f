"""Cells are taken away by label alone: from another process that has a kubeconfig and nothing else of the run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cell.existing import CellSelector, find
from harness.cell.place import namespace_name
from harness.cell.teardown import reap
from harness.infra.host import processes as programs
from harness.kube import Cluster
from harness.kube.resources import NAMESPACE
from harness.machines.reach.ssh import control_directory
from harness.model import LABEL_ATTEMPT, LABEL_CELL, LABEL_EXPIRES, LABEL_MANAGED, LABEL_RUN, MANAGED_BY, Cell
from harness.proc import Service
from tests.embedded.conftest import Instances
from tests.embedded.run import runs
from tests.embedded.run.conftest import TEARDOWN_SECONDS, Nothing, Start, processes
from tests.embedded.run.runs import vmatrix

HOUR = 3600


@pytest.fixture
def empty_cells(cluster: Cluster) -> Iterator[dict[str, str]]:
    """Make two cells without machines, one expired, one not; return their namespaces by the run's id."""
    made = {}
    for run, expires in (("old000", time.time() - HOUR), ("new000", time.time() + HOUR)):
        made[run] = namespace_name(run, "empty", 1)
        labels = {LABEL_MANAGED: MANAGED_BY, LABEL_RUN: run, LABEL_CELL: "empty", LABEL_ATTEMPT: "1"}
        meta = {"name": made[run], "labels": {**labels, LABEL_EXPIRES: str(int(expires))}}
        cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    yield made
    reap(cluster, CellSelector(cell="empty"), seconds=TEARDOWN_SECONDS)


def runs_left(cluster: Cluster) -> list[str]:
    """Return the ids of the runs that still have cells."""
    return sorted(found.run for found in find(cluster, CellSelector()))


def test_only_what_has_expired_is_taken_away(
    cluster: Cluster, empty_cells: dict[str, str], kubeconfig_options: list[str], tmp_path: Path
) -> None:
    reaped = vmatrix("reap", "--expired", *kubeconfig_options, cwd=tmp_path)
    assert (reaped.code, reaped.stdout.splitlines()[0]) == (0, f"deleted: {empty_cells['old000']}")
    assert runs_left(cluster) == ["new000"]
    again = vmatrix("reap", "--expired", *kubeconfig_options, cwd=tmp_path)
    assert (again.code, again.stdout) == (0, "no cells to delete\n")
    past = {"metadata": {"labels": {LABEL_EXPIRES: str(int(time.time()) - 1)}}}
    cluster.merge(NAMESPACE, empty_cells["new000"], past)
    assert vmatrix("reap", "--expired", *kubeconfig_options, cwd=tmp_path).code == 0
    assert runs_left(cluster) == []


def test_all_takes_every_cell_and_nothing_else(
    cluster: Cluster, empty_cells: dict[str, str], kubeconfig_options: list[str], tmp_path: Path
) -> None:
    others = {n["metadata"]["name"] for n in cluster.list(NAMESPACE).items} - set(empty_cells.values())
    reaped = vmatrix("reap", "--all", *kubeconfig_options, cwd=tmp_path)
    assert (reaped.code, reaped.stdout.splitlines()[-1]) == (0, "2 cells deleted")
    assert {n["metadata"]["name"] for n in cluster.list(NAMESPACE).items} == others


def test_a_killed_run_is_seen_and_taken_away_with_a_kubeconfig(
    start: Start, single: Cell, nothing_left: Nothing, kubeconfig_options: list[str], tmp_path: Path
) -> None:
    run = start()
    run.wait_for("step-start", "provision", "login")
    run.send(signal.SIGKILL)
    assert run.end().code == 137
    status = vmatrix("status", *kubeconfig_options, cwd=tmp_path)
    (row,) = [line.split() for line in status.stdout.splitlines() if run.id in line]
    assert row[:4] == [run.id, single.id, "1", namespace_name(run.id, single.id, 1)]
    assert row[6:8] == ["cp-0", "Running"]
    spared = vmatrix("reap", "--expired", *kubeconfig_options, cwd=tmp_path)
    assert spared.stdout == "no cells to delete\n"
    reaped = vmatrix("reap", "--run", run.id, *kubeconfig_options, cwd=tmp_path)
    assert (reaped.code, reaped.stdout.splitlines()[-1]) == (0, "1 cell deleted"), reaped.stderr
    nothing_left(run)
    assert vmatrix("status", *kubeconfig_options, cwd=tmp_path).stdout == "no cells in the infra cluster\n"


def test_an_infra_cluster_that_died_takes_the_folders_of_a_killed_run_with_it(
    instances: Instances, single: Cell, tmp_path: Path
) -> None:
    infra = instances("died")
    infra.up()
    run = runs.start(tmp_path, "tdied1", infra.layout.name)
    control = control_directory(run.id, single.id)
    run.wait_for("step-start", "provision", "login")
    runs.wait_until(control.is_dir, "the folder is there")
    run.send(signal.SIGKILL)
    assert run.end().code == 137
    for name in programs.recorded(infra.layout):
        service = Service.load(infra.layout.pidfile(name))
        assert service is not None
        os.killpg(service.pid, signal.SIGKILL)
    down = vmatrix("infra", "down", "--name", infra.layout.name, cwd=tmp_path)
    assert down.code == 0, down.stderr
    assert not control.exists()
    assert processes(str(control)) == []
