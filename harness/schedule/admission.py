"""Which cells of a run may start now: all of a cell's machines fit, beside all that other runs have and were promised.

A node counts when launcher pods can go there: ready, schedulable, labelled by KubeVirt, without a taint that keeps
ordinary pods away.

One Admission per run, in one process. Not covered: in which order cells are tried (harness/session/dispatch.py).
"""

from __future__ import annotations

import math
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from functools import cached_property
from typing import Any

from harness.embedded.node.registration import MACHINES_ONLY
from harness.errors import BadInput, InfraError
from harness.infra.cluster.capacity import ENDED, MIB, SCHEDULABLE, NodeUsage, usable, usage_of
from harness.infra.pods import NAMESPACE_NAME
from harness.kube import ApiFailure, Cluster
from harness.kube.client import Json
from harness.kube.objects import quantity
from harness.kube.resources import NODE, POD, RESOURCE_QUOTA
from harness.model import LABEL_CELL, LABEL_RUN, Cell
from harness.schedule.placement import (
    Demand,
    Limits,
    NodeRoom,
    Nodes,
    PodRequest,
    Rules,
    all_fit,
    demand_of,
    describe,
    remainder,
    rules_of,
)
from harness.schedule.reservations import RESERVATIONS_NAMESPACE, Book, Entry, Ledger

LAUNCHER = ("kubevirt.io", "virt-launcher")
UNSEEN = "the infra cluster, whose nodes cannot be listed"
UNBOUNDED = 10**9
REPELLING = frozenset({"NoSchedule", "NoExecute"})
LASTING_OWNERS = frozenset({"DaemonSet", "Node"})  # whose pods stay on a node whatever else goes


@dataclass(frozen=True)
class Bound:
    """A pod that counts: its node ("" while it has none), what it asks for, whose cell's machine it is ("" of none).

    lasting: it stays on its node for as long as the node does; as the machine that runs the infra cluster's own pods.
    """

    node: str
    request: PodRequest
    run: str = ""
    cell: str = ""
    lasting: bool = False


@dataclass(frozen=True)
class Survey:
    """What the usable nodes can allocate, and the pods that have not ended.

    quota: the same of the namespace that cells share, its quota taken for a node: cells have to fit into both.
    left: what nodes have left (MiB) by their own account, for machines that are not there yet, whatever was requested.
    """

    nodes: Nodes
    pods: tuple[Bound, ...]
    quota: Survey | None = None
    left: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def free(self) -> Nodes:
        """Return what the nodes have left beside all pods that are bound to them, by requests and by their account."""
        nodes = _less(self.nodes, self.pods)
        return tuple(replace(n, memory_mib=min(n.memory_mib, self.left.get(n.name, n.memory_mib))) for n in nodes)

    def empty(self) -> Nodes:
        """Return what the nodes would have left beside the pods that never go."""
        return _less(self.nodes, (pod for pod in self.pods if pod.lasting))

    def machines_of(self, run: str, cell: str) -> tuple[Bound, ...]:
        """Return the launcher pods of a cell, those that wait for a node included."""
        return tuple(pod for pod in self.pods if (pod.run, pod.cell) == (run, cell))


def _less(nodes: Nodes, pods: Iterable[Bound]) -> Nodes:
    left = {node.name: node for node in nodes}
    for pod in pods:
        if pod.node in left:
            left[pod.node] = left[pod.node].less(pod.request)
    return tuple(left.values())


def survey(cluster: Cluster, namespace: str | None = None, spare_mib: int | None = None) -> Survey:
    """Look at an infra cluster's nodes and pods and the quota of the namespace that cells share, or at what one may.

    Args:
        spare_mib: memory of a node that is left free beside all machines, where nodes are asked what they have
            available; None where requests alone count.
    """
    try:
        nodes = tuple(_room(node) for node in cluster.list(NODE).items if takes_machines(node))
        pods = cluster.list(POD).items
    except ApiFailure as failure:
        if not failure.forbidden:
            raise
        return _allotted(cluster, namespace)
    quota = None if namespace is None else _allotted(cluster, namespace)
    living = [pod for pod in pods if _lives(pod)]
    left = {} if spare_mib is None else _left(usage_of(cluster, [node.name for node in nodes]), living, spare_mib)
    return Survey(nodes, tuple(map(_bound, living)), quota, left)


def _left(nodes: Mapping[str, NodeUsage], pods: Iterable[Json], spare_mib: int) -> dict[str, int]:
    """Return what nodes have available beside what the pods on them were promised and have not taken yet.

    A pod that takes more than it was promised has no part in this: what it takes is not available any more.
    """
    left = {name: usage.available - spare_mib for name, usage in nodes.items()}
    for pod in pods:
        node = pod["spec"].get("nodeName") or ""
        if node in left:
            used = nodes[node].pods.get(pod["metadata"]["uid"])
            left[node] -= max(0, request_of(pod["spec"]).memory_mib - (used.kept if used is not None else 0))
    return left


def _lives(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") not in ENDED


def _allotted(cluster: Cluster, namespace: str | None) -> Survey:
    """Return what quotas allow as one node; without any the cluster's own scheduler is the only bound.

    A pod of the namespace takes its part of the quota from the moment it exists, whether it has a node or not.
    """
    if namespace is None:
        return Survey((NodeRoom(UNSEEN, UNBOUNDED, UNBOUNDED, UNBOUNDED),), ())
    hard = [(q.get("spec") or {}).get("hard") or {} for q in cluster.list(RESOURCE_QUOTA, namespace).items]
    name = f"the quota of {namespace}"
    room = NodeRoom(
        name=name,
        memory_mib=_least(hard, ("requests.memory", "memory"), Decimal(MIB)),
        millicpus=_least(hard, ("requests.cpu", "cpu"), Decimal(1) / 1000),
        pods=_least(hard, ("pods", "count/pods"), Decimal(1)),
    )
    pods = (pod for pod in cluster.list(POD, namespace).items if _lives(pod))
    return Survey((room,), tuple(replace(_bound(pod), node=name) for pod in pods))


def _least(hard: Iterable[Mapping[str, Any]], names: Sequence[str], unit: Decimal) -> int:
    amounts = [quantity(str(limits[name])) / unit for limits in hard for name in names if name in limits]
    return int(min(amounts, default=Decimal(UNBOUNDED)))


def takes_machines(node: Mapping[str, Any]) -> bool:
    """Tell whether launcher pods can be scheduled to a node."""
    taints = [t for t in (node.get("spec") or {}).get("taints") or [] if t.get("key") != MACHINES_ONLY["key"]]
    labels = node.get("metadata", {}).get("labels") or {}
    return usable(node) and labels.get(SCHEDULABLE) == "true" and not any(t.get("effect") in REPELLING for t in taints)


def _room(node: Json) -> NodeRoom:
    allocatable = node["status"].get("allocatable") or {}
    return NodeRoom(
        name=node["metadata"]["name"],
        memory_mib=int(quantity(allocatable.get("memory", "0")) / MIB),
        millicpus=int(quantity(allocatable.get("cpu", "0")) * 1000),
        pods=int(quantity(allocatable.get("pods", "0"))),
    )


def _bound(pod: Json) -> Bound:
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    machine = labels.get(LAUNCHER[0]) == LAUNCHER[1]
    return Bound(
        node=pod["spec"].get("nodeName") or "",
        request=request_of(pod["spec"]),
        run=labels.get(LABEL_RUN, "") if machine else "",
        cell=labels.get(LABEL_CELL, "") if machine else "",
        lasting=meta.get("namespace") == NAMESPACE_NAME
        or any(owner.get("kind") in LASTING_OWNERS for owner in meta.get("ownerReferences") or []),
    )


def request_of(spec: Mapping[str, Any]) -> PodRequest:
    """Return what the scheduler counts for a pod.

    That is the sum of its containers and sidecars or, where that is more, an init container beside the sidecars started
    before it; the pod's own `resources` override both; its runtime class's overhead is added.
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    memory, cpu = (_effective(spec, name) for name in ("memory", "cpu"))
    return PodRequest(memory_mib=math.ceil(memory / MIB), millicpus=math.ceil(cpu * 1000))


def _effective(spec: Mapping[str, Any], name: str) -> Decimal:
    sidecars = highest = Decimal(0)
    for container in spec.get("initContainers") or []:
        asked = _asked(container, name)
        highest = max(highest, sidecars + asked)
        if container.get("restartPolicy") == "Always":
            sidecars += asked
    together = sidecars + sum((_asked(c, name) for c in spec.get("containers") or []), Decimal(0))
    own = ((spec.get("resources") or {}).get("requests") or {}).get(name)
    counted = quantity(str(own)) if own is not None else max(highest, together)
    return counted + quantity(str((spec.get("overhead") or {}).get(name, "0")))


def _asked(container: Mapping[str, Any], name: str) -> Decimal:
    return quantity(str(((container.get("resources") or {}).get("requests") or {}).get(name, "0")))


def refusal(survey: Survey, book: Book, entry: Entry) -> str:
    """Return why a cell cannot be admitted, "" when it can.

    It has to fit beside every pod that has a node, beside what others have reserved and not bound to a node yet, and
    beside what cells want that have waited too long. Pods of a reserved cell are not counted twice.
    The cluster has to be looked at after the book was read.
    """
    if survey.quota is not None and (why := refusal(survey.quota, book, entry)):
        return why
    others = tuple(other for other in book.reservations if other.key != entry.key)
    coming = [*_to_come(survey, others), *_strays(survey, (*book.reservations, entry))]
    free, mine = survey.free, list(_to_come(survey, (entry,)))
    if not all_fit(free, [*coming, *mine]):
        promised = f"; reserved by others: {Demand(tuple(coming))}" if coming else ""
        return f"it needs {entry.demand}; available: {describe(free)}{promised}"
    elders = book.elder_claims(entry.run, entry.cell)
    if elders and not all_fit(free, [*coming, *mine, *_to_come(survey, elders)]):
        first = elders[0]
        return f"it yields to {first.cell} of run {first.run}, which needs {first.demand} and has waited too long"
    return ""


def possible(survey: Survey, pods: Iterable[PodRequest]) -> bool:
    """Tell whether pods fit on the nodes once everything is gone that ever goes."""
    requests = tuple(pods)
    return all_fit(survey.empty(), requests) and (survey.quota is None or possible(survey.quota, requests))


def check_possible(survey: Survey, demands: Mapping[str, Demand], limits: Limits) -> None:
    """Refuse cells, here by id, that can never start, however long they wait.

    Raises:
        BadInput: some do not fit even when all other cells are gone, or break the run's limits alone.
        InfraError: no node takes machines.
    """
    if not survey.nodes:
        raise InfraError(
            "no node of the infra cluster can run virtual machines",
            hint="`kubectl get nodes -L kubevirt.io/schedulable`: one must be Ready, schedulable and untainted",
        )
    problems = [line for cell, demand in demands.items() if (line := _impossible(survey, cell, demand, limits))]
    if problems:
        raise BadInput(
            f"{len(problems)} of {len(demands)} cells can never start here: {problems[0]}",
            hint="leave them out, choose smaller topologies, raise the limits, or use an infra with larger nodes",
            detail="\n".join(problems),
        )


def _impossible(survey: Survey, cell: str, demand: Demand, limits: Limits) -> str:
    if why := limits.refusal((), demand):
        return f"{cell} alone: {why}"
    for room in (survey, survey.quota):
        if room is not None and not all_fit(room.empty(), demand.pods):
            return f"{cell} needs {demand}; the most that can be available is {describe(room.empty())}"
    return ""


def _to_come(survey: Survey, entries: Iterable[Entry]) -> Iterable[PodRequest]:
    """Return the pods of cells that no node has yet."""
    for entry in entries:
        bound = (pod.request for pod in survey.machines_of(entry.run, entry.cell) if pod.node)
        yield from remainder(entry.demand.pods, bound)


def _strays(survey: Survey, entries: Iterable[Entry]) -> Iterable[PodRequest]:
    """Return the machines that wait for a node and have no reservation (any more): a node is about to take them."""
    known = {entry.key for entry in entries}
    return (pod.request for pod in survey.pods if pod.cell and not pod.node and (pod.run, pod.cell) not in known)


@dataclass(frozen=True)
class Outlook:
    """How an infra cluster is seen: KubeVirt's settings, what is free there, and, for a holder, who reserved what.

    asked: the memory (MiB) that machines request, by the cells' ids, where that is not what they declare.
    """

    rules: Rules
    look: Callable[[], Survey]
    ledger: Callable[[str], Ledger]
    asked: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @staticmethod
    def of(cluster: Cluster, ttl: float, namespace: str | None, spare_mib: int | None = None) -> Outlook:
        """Return what asks the cluster itself; reservations lie in the shared namespace or in one of their own.

        Args:
            spare_mib: of each node, where nodes are asked what they have left; see `survey`.
        """
        book = namespace if namespace is not None else RESERVATIONS_NAMESPACE
        return Outlook(
            rules_of(cluster),
            lambda: survey(cluster, namespace, spare_mib),
            lambda holder: Ledger(cluster, holder, ttl=ttl, namespace=book),
        )


TTL_SECONDS = 90.0  # unless `reservation` of timeouts.yml is given
PATIENCE_SECONDS = 1800.0  # docs/decisions/schedule-order.md has the simulation that this number comes from
RENEWALS = 3  # per TTL


@dataclass(frozen=True)
class Refused:
    """A cell that may not start yet, and why, in words with numbers."""

    cell: Cell
    reason: str


@dataclass(frozen=True)
class Decision:
    """What came of trying cells in order: the one that may start and has its room, if any; why those before may not."""

    admitted: Cell | None
    refused: tuple[Refused, ...]


class Cause(Enum):
    """What keeps a cell waiting."""

    LIMITS = "limits"
    ROOM = "room"


@dataclass(frozen=True)
class _Head:
    """The cell that is tried first, since when it is, and what keeps it waiting."""

    cell: str
    demand: Demand
    since: float
    cause: Cause | None = None


class Admission(AbstractContextManager["Admission"]):
    """What one run holds of an infra cluster. Thread-safe."""

    def __init__(
        self,
        cluster: Cluster,
        run: str,
        *,
        limits: Limits | None = None,
        ttl: float = TTL_SECONDS,
        patience: float = PATIENCE_SECONDS,
        namespace: str | None = None,
        now: Callable[[], float] = time.monotonic,
        outlook: Outlook | None = None,
    ) -> None:
        """Open the admission of a run.

        Args:
            ttl: seconds without a sign of life after which other runs consider this one's reservations dead.
            patience: seconds after which what the first of the waiting cells wants is kept free for it.
            namespace: the one that cells share; its quota counts where nodes may not be listed.
            outlook: what is known of the cluster and of what machines request; else the cluster is asked.
        """
        self._run = run
        self._limits = limits or Limits()
        self._patience = patience
        self._holder = f"{run}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        known = outlook or Outlook.of(cluster, ttl, namespace)
        self._rules, self._look, self._ledger = known.rules, known.look, known.ledger(self._holder)
        self._asked = known.asked
        self._now = now
        self._every = ttl / RENEWALS
        self._written = now()
        self._held: dict[str, Demand] = {}
        self._reserved: dict[str, Entry] = {}
        self._claimed: set[str] = set()
        self._head: _Head | None = None
        self._demands: dict[str, Demand] = {}
        self._owed: set[str] = set()  # cells whose entries could not be taken out of the book yet
        self._lock = threading.RLock()

    def __exit__(self, *_: object) -> None:
        """Give back what is reserved."""
        self.close()

    def check_possible(self, cells: Sequence[Cell]) -> None:
        """Refuse cells that can never start here, however long they wait; raises what `verdict.check_possible` does."""
        check_possible(self._look(), {cell.id: self._demand(cell) for cell in cells}, self._limits)

    def _demand(self, cell: Cell) -> Demand:
        if cell.id not in self._demands:
            self._demands[cell.id] = demand_of(cell, self._rules, self._asked.get(cell.id))
        return self._demands[cell.id]

    def try_admit(self, cell: Cell) -> Refused | None:
        """Reserve room for one cell, or say why not; None when it may start. Raises what `admit_first` does."""
        decision = self.admit_first((cell,))
        return None if decision.admitted is not None else decision.refused[0]

    def admit_first(self, cells: Sequence[Cell]) -> Decision:
        """Reserve room for the first cell of several that fits; the cluster is looked at once for all of them.

        Raises:
            InfraRetriable: the API did not answer, or other runs were faster, for a minute.
        """
        refused: list[Refused] = []
        open_: list[tuple[Cell, Entry]] = []
        with self._lock:
            self._look_at_head(cells)
            for cell in cells:
                demand = self._demand(cell)
                if why := self._limited(cell.id, demand):
                    refused.append(self._refuse(cell, why, Cause.LIMITS))
                else:
                    open_.append((cell, Entry(self._holder, self._run, cell.id, demand)))
            chosen = self._reserve_first(open_, refused) if open_ else None
        return Decision(chosen, tuple(refused))

    def _look_at_head(self, cells: Sequence[Cell]) -> None:
        if cells and (self._head is None or self._head.cell != cells[0].id):
            self._head = _Head(cells[0].id, self._demand(cells[0]), self._now())

    def _overdue(self, cause: Cause) -> _Head | None:
        """Return the first of the waiting cells when that has kept it waiting for too long."""
        head = self._head
        late = head is not None and head.cause is cause and self._now() - head.since >= self._patience
        return head if late else None

    def _reserve_first(self, open_: Sequence[tuple[Cell, Entry]], refused: list[Refused]) -> Cell | None:
        outcome: list[tuple[Cell, Entry, str]] = []

        def edit(book: Book) -> Book | None:
            survey = self._look()
            outcome.clear()
            changed = book
            answers: dict[tuple[Demand, tuple[Entry, ...]], str] = {}
            for cell, entry in open_:
                question = entry.demand, changed.elder_claims(*entry.key)  # many cells are alike: ask once for all
                why = answers[question] = answers.get(question) or refusal(survey, changed, entry)
                outcome.append((cell, entry, why))
                if not why:
                    return changed.reserve(entry)
                changed = self._stake(survey, changed, entry)
            return None if changed == book else changed

        after = self._ledger.change(edit)
        self._written = self._now()
        self._claimed = {entry.cell for entry in after.claims if entry.holder == self._holder}
        for cell, entry, why in outcome:
            if why:
                refused.append(self._refuse(cell, why, Cause.ROOM))
                continue
            self._held[cell.id] = entry.demand
            self._reserved[cell.id] = entry
            self._owed.discard(cell.id)
            if self._head is not None and self._head.cell == cell.id:
                self._head = None
            return cell
        return None

    def _stake(self, survey: Survey, book: Book, entry: Entry) -> Book:
        """Return the book with a claim of the cell that has waited too long, unless it cannot fit any more at all."""
        head = self._overdue(Cause.ROOM)
        if head is None or head.cell != entry.cell:
            return book
        return book.claim(entry) if possible(survey, entry.demand.pods) else book.release(*entry.key)

    def _limited(self, cell: str, demand: Demand) -> str:
        """Return which limit keeps a cell waiting; what the first wants counts as held when it has waited too long."""
        head = self._overdue(Cause.LIMITS)
        kept = () if head is None or head.cell == cell else (head.demand,)
        return self._limits.refusal((*self._held.values(), *kept), demand)

    def _refuse(self, cell: Cell, why: str, cause: Cause) -> Refused:
        if self._head is not None and self._head.cell == cell.id:
            self._head = replace(self._head, cause=cause)
        return Refused(cell, why)

    def machines_up(self, cell: str) -> None:
        """Give back a cell's reservation: its machines count by themselves now. Again is fine, later is fine."""
        with self._lock:
            if self._reserved.pop(cell, None) is not None:
                self._release(cell)

    def gone(self, cell: str) -> None:
        """Forget a cell: it has been torn down, was never started, or is not wanted any more. Again is fine."""
        with self._lock:
            self._held.pop(cell, None)
            if self._head is not None and self._head.cell == cell:
                self._head = None
            if self._reserved.pop(cell, None) is not None or cell in self._claimed:
                self._claimed.discard(cell)
                self._release(cell)

    def _release(self, cell: str) -> None:
        self._owed.add(cell)
        self._ledger.change(lambda book: book.release(self._run, cell))
        self._owed.discard(cell)
        self._written = self._now()

    def renew(self) -> None:
        """Give a sign of life when one is due and there is something to keep; call it every few seconds.

        The book is put right by it: a reservation that others took for dead (this process was stopped for too long) is
        put back, one that could not be given back in time is given back.

        Raises:
            InfraRetriable: the API did not answer for a minute.
        """
        with self._lock:
            due = self._now() - self._written >= self._every
            if due and (self._reserved or self._claimed or self._owed):
                self._ledger.change(self._put_right)
                self._written = self._now()
                self._owed.clear()

    def _put_right(self, book: Book) -> Book:
        for cell in self._owed:
            book = book.release(self._run, cell)
        there = {entry.key for entry in book.reservations}
        for entry in self._reserved.values():
            book = book if entry.key in there else book.reserve(entry)
        return book

    def close(self) -> None:
        """Give back everything that is reserved; running cells stay as they are. Again is fine."""
        with self._lock:
            kept = bool(self._reserved or self._claimed or self._owed)
            self._reserved.clear()
            self._claimed.clear()
            self._owed.clear()
            if kept:
                self._ledger.change(lambda book: book.without((self._holder,)))
