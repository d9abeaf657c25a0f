"""Reservations on a real API server: processes that reserve at once, and one that is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput, InfraError
from harness.kube import Cluster
from harness.kube.resources import LEASE, NAMESPACE, POD, SERVICE_ACCOUNT
from harness.model import LABEL_CELL, LABEL_MANAGED, LABEL_RUN, MANAGED_BY, Cell, Phase, PlannedMachine
from harness.providers.embedded import EmbeddedProvider
from harness.schedule.admission import Admission, survey
from harness.schedule.placement import Limits, demand_of
from harness.schedule.reservations import ANNOTATION, LEASE_NAME, RESERVATIONS_NAMESPACE, Ledger
from harness.until import Deadline, NotYet, until

FORK = multiprocessing.get_context("fork")
PROCESSES = 4
CELLS_EACH = 6
ENDS_WITHIN = 240.0
TTL = 3.0


def cell(name: str, memory_mib: int, machines: int = 2) -> Cell:
    made = tuple(PlannedMachine(f"m-{n}", ("node",), 1, memory_mib, 12, "debian-13") for n in range(machines))
    return Cell(name, {"topology": "t"}, "fresh", (Phase("deploy"),), made, {})


def share(infra: Path, parts: int) -> int:
    """Return the guest memory of a machine of which two are one of so many equal parts of what is free."""
    (node,) = survey(Cluster.from_kubeconfig(infra)).free
    return node.memory_mib // parts // 2 - 400


@pytest.fixture(autouse=True)
def _empty_book(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.delete(LEASE, LEASE_NAME, RESERVATIONS_NAMESPACE)


def started(work: Callable[..., None], *arguments: object) -> Any:
    process = FORK.Process(target=work, args=arguments)
    process.start()
    return process


@dataclass(frozen=True)
class Race:
    """What the processes of a race share: where, what, when, and how often each may have got in."""

    infra: Path
    memory_mib: int
    together: Barrier
    answers: Any

    def run(self, name: str) -> None:
        with Admission(Cluster.from_kubeconfig(self.infra), name, ttl=ENDS_WITHIN) as admission:
            self.together.wait()
            cells = [cell(f"c{n}", self.memory_mib) for n in range(CELLS_EACH)]
            got = [c.id for c in cells if admission.try_admit(c) is None]
            self.answers.put((name, got))
            self.together.wait()  # nobody gives anything back before all have asked for everything


def test_processes_that_reserve_at_once_share_what_there_is_and_no_more(
    infra: EmbeddedProvider, cluster: Cluster
) -> None:
    room = 7  # equal cells; 24 are wanted
    race = Race(infra.kubeconfig(), share(infra.kubeconfig(), room), FORK.Barrier(PROCESSES + 1), FORK.Queue())
    processes = [started(race.run, f"run{n}") for n in range(PROCESSES)]
    try:
        race.together.wait(ENDS_WITHIN)
        answers = dict(race.answers.get(timeout=ENDS_WITHIN) for _ in processes)
        reserved = Ledger(cluster, "observer", ttl=ENDS_WITHIN).read().reservations
        (node,) = survey(cluster).free
        race.together.wait(ENDS_WITHIN)
    finally:
        for process in processes:
            process.join(ENDS_WITHIN)
            process.kill()
    assert sorted((r.run, r.cell) for r in reserved) == sorted((n, c) for n, got in answers.items() for c in got)
    assert sum(r.demand.memory_mib for r in reserved) <= node.memory_mib
    assert len(reserved) >= room  # and nothing that would have fitted was refused
    assert [p.exitcode for p in processes] == [0] * PROCESSES
    assert Ledger(cluster, "observer", ttl=ENDS_WITHIN).read().reservations == ()


def hold(infra: Path, memory_mib: int, ready: Any) -> None:
    admission = Admission(Cluster.from_kubeconfig(infra), "holder", ttl=TTL)
    ready.put(admission.try_admit(cell("held", memory_mib)) is None)
    while True:
        admission.renew()
        time.sleep(TTL / 10)


def test_a_live_holder_keeps_its_reservation_and_a_killed_ones_expires(
    infra: EmbeddedProvider, cluster: Cluster
) -> None:
    memory, ready = share(infra.kubeconfig(), 1), FORK.Queue()
    holder = started(hold, infra.kubeconfig(), memory, ready)
    try:
        assert ready.get(timeout=ENDS_WITHIN)
        with Admission(cluster, "other", ttl=4 * TTL) as other:
            began = time.monotonic()
            while time.monotonic() - began < 8 * TTL:  # twice the other's patience with silence
                assert other.try_admit(cell("mine", memory)) is not None
                time.sleep(0.5)
            os.kill(holder.pid, signal.SIGKILL)
            killed = time.monotonic()
            until(
                lambda: None if other.try_admit(cell("mine", memory)) is None else NotYet("not yet"),
                deadline=Deadline.after(ENDS_WITHIN),
                what="the dead holder's reservation has expired",
            )
            assert time.monotonic() - killed >= 4 * TTL - TTL
    finally:
        holder.kill()
        holder.join()


def test_machines_that_are_there_count_once(cluster: Cluster) -> None:
    (before,) = survey(cluster).free
    planned = cell("bound", before.memory_mib // 3, machines=1)
    namespace = "vmatrix-bound-runone-1"
    with Admission(cluster, "runone") as one, Admission(cluster, "runtwo") as two:
        assert one.try_admit(planned) is None
        launch(cluster, namespace, planned)
        try:
            other = cell("other", before.memory_mib // 3, machines=1)
            assert two.try_admit(other) is None  # not counted as a pod and as a reservation
            two.gone("other")
            one.machines_up("bound")
            assert two.try_admit(other) is None
            assert two.try_admit(cell("third", before.memory_mib // 3)) is not None
        finally:
            cluster.delete(NAMESPACE, namespace)
            until(
                lambda: NotYet("there") if survey(cluster).machines_of("runone", "bound") else None,
                deadline=Deadline.after(60),
                what="the pod is gone",
            )


def launch(cluster: Cluster, namespace: str, planned: Cell) -> None:
    """Create a pod as large as a cell's launcher and wait until it is bound to the node."""
    labels = {LABEL_RUN: "runone", LABEL_CELL: planned.id}
    meta: dict[str, Any] = {"name": namespace, "labels": {**labels, LABEL_MANAGED: MANAGED_BY}}
    cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    (pod,) = demand_of(planned).pods
    asked = {"memory": f"{pod.memory_mib}Mi", "cpu": f"{pod.millicpus}m"}
    container = {"name": "compute", "image": "none", "resources": {"requests": asked}}
    until(
        lambda: cluster.get(SERVICE_ACCOUNT, "default", namespace) or NotYet("no service account"),
        deadline=Deadline.after(60),
        what="the namespace has its service account",
    )
    cluster.create(
        POD,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "launcher",
                "namespace": namespace,
                "labels": {**labels, "kubevirt.io": "virt-launcher"},
            },
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
        },
    )
    until(
        lambda: None if any(p.node for p in survey(cluster).machines_of("runone", planned.id)) else NotYet("unbound"),
        deadline=Deadline.after(60),
        what="the pod is bound",
    )


def test_a_deleted_book_is_written_again_and_a_spoilt_one_is_said(cluster: Cluster) -> None:
    now = [0.0]
    with Admission(cluster, "run", now=lambda: now[0]) as admission:
        assert admission.try_admit(cell("c", 512)) is None
        cluster.delete(LEASE, LEASE_NAME, RESERVATIONS_NAMESPACE)
        now[0] = 1000.0
        admission.renew()
        assert [r.cell for r in Ledger(cluster, "observer", ttl=60).read().reservations] == ["c"]
        spoilt = {"metadata": {"annotations": {ANNOTATION: "{"}}}
        cluster.merge(LEASE, LEASE_NAME, spoilt, RESERVATIONS_NAMESPACE)
        with pytest.raises(InfraError, match="cannot be read") as caught:
            admission.try_admit(cell("d", 512))
        assert "delete lease vmatrix-schedule/reservations" in caught.value.hint
        cluster.delete(LEASE, LEASE_NAME, RESERVATIONS_NAMESPACE)


def test_a_cell_that_can_never_fit_is_refused_at_once_with_numbers(cluster: Cluster) -> None:
    (node,) = survey(cluster).free
    with Admission(cluster, "run", limits=Limits(machines=2)) as admission:
        admission.check_possible([cell("fits", 1024)])
        for planned in (cell("huge", node.memory_mib), cell("many", 256, machines=3)):
            with pytest.raises(BadInput, match="can never start here") as caught:
                admission.check_possible([cell("fits", 1024), planned])
            assert caught.value.exit_code == 2
            assert "1 of 2 cells" in str(caught.value)
