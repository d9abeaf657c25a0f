"""Whether a cell fits into an infra cluster now, all of it or not at all: pure, from what was seen there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.errors import BadInput, InfraError
from harness.schedule.book import Book, Entry
from harness.schedule.capacity import Survey
from harness.schedule.demand import Demand, PodRequest
from harness.schedule.limits import Limits
from harness.schedule.room import all_fit, describe, remainder


def refusal(seen: Survey, book: Book, wanted: Entry) -> str:
    """Return why a cell cannot be admitted, "" when it can.

    It has to fit beside every pod that has a node, beside what others have reserved and not bound to a node yet, and
    beside what cells want that have waited too long. Pods of a reserved cell are not counted twice.
    The cluster has to be looked at after the book was read.
    """
    if seen.quota is not None and (why := refusal(seen.quota, book, wanted)):
        return why
    others = tuple(entry for entry in book.reservations if entry.key != wanted.key)
    coming = [*_to_come(seen, others), *_strays(seen, (*book.reservations, wanted))]
    free, mine = seen.free, list(_to_come(seen, (wanted,)))
    if not all_fit(free, [*coming, *mine]):
        promised = f"; reserved by others: {Demand(tuple(coming))}" if coming else ""
        return f"it needs {wanted.demand}; available: {describe(free)}{promised}"
    elders = book.elder_claims(wanted.run, wanted.cell)
    if elders and not all_fit(free, [*coming, *mine, *_to_come(seen, elders)]):
        first = elders[0]
        return f"it yields to {first.cell} of run {first.run}, which needs {first.demand} and has waited too long"
    return ""


def possible(seen: Survey, pods: Iterable[PodRequest]) -> bool:
    """Tell whether pods fit on the nodes once everything is gone that ever goes."""
    wanted = tuple(pods)
    return all_fit(seen.empty(), wanted) and (seen.quota is None or possible(seen.quota, wanted))


def check_possible(seen: Survey, demands: Mapping[str, Demand], limits: Limits) -> None:
    """Refuse cells, here by id, that can never start, however long they wait.

    Raises:
        BadInput: some do not fit even when all other cells are gone, or break the run's limits alone.
        InfraError: no node takes machines.
    """
    if not seen.nodes:
        raise InfraError(
            "no node of the infra cluster can run virtual machines",
            hint="`kubectl get nodes -L kubevirt.io/schedulable`: one must be Ready, schedulable and untainted",
        )
    problems = [line for cell, demand in demands.items() if (line := _impossible(seen, cell, demand, limits))]
    if problems:
        raise BadInput(
            f"{len(problems)} of {len(demands)} cells can never start here: {problems[0]}",
            hint="leave them out, choose smaller topologies, raise the limits, or use an infra with larger nodes",
            detail="\n".join(problems),
        )


def _impossible(seen: Survey, cell: str, demand: Demand, limits: Limits) -> str:
    if why := limits.refusal((), demand):
        return f"{cell} alone: {why}"
    for room in (seen, seen.quota):
        if room is not None and not all_fit(room.empty(), demand.pods):
            return f"{cell} needs {demand}; the most that can be available is {describe(room.empty())}"
    return ""


def _to_come(seen: Survey, entries: Iterable[Entry]) -> Iterable[PodRequest]:
    """Return the pods of cells that no node has yet."""
    for entry in entries:
        bound = (pod.request for pod in seen.machines_of(entry.run, entry.cell) if pod.node)
        yield from remainder(entry.demand.pods, bound)


def _strays(seen: Survey, entries: Iterable[Entry]) -> Iterable[PodRequest]:
    """Return the machines that wait for a node and have no reservation (any more): a node is about to take them."""
    known = {entry.key for entry in entries}
    return (pod.request for pod in seen.pods if pod.cell and not pod.node and (pod.run, pod.cell) not in known)
