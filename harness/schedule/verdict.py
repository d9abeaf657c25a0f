"""Whether a cell fits into an infra cluster now, all of it or not at all: pure, from what was seen there."""

from __future__ import annotations

from collections.abc import Iterable

from harness.schedule.book import Book, Entry
from harness.schedule.capacity import Survey
from harness.schedule.demand import PodRequest
from harness.schedule.room import describe, place, remainder


def refusal(seen: Survey, book: Book, wanted: Entry) -> str:
    """Return why a cell cannot be admitted, "" when it can.

    It has to fit beside every pod that has a node, beside what others have reserved and not bound to a node yet, and
    beside what cells want that have waited too long. Pods of a reserved cell are not counted twice.

    Args:
        seen: the cluster, looked at after the book was read.
        book: what counts now.
    """
    others = tuple(entry for entry in book.reservations if entry.key != wanted.key)
    coming = [*_to_come(seen, others), *_strays(seen, (*book.reservations, wanted))]
    left = place(seen.free(), coming)
    if left is None:
        return f"{len(coming)} machines of other cells are about to take all that is free ({describe(seen.free())})"
    mine = tuple(_to_come(seen, (wanted,)))
    if place(left, mine) is None:
        beside = f" beside {len(others)} reservations" if others else ""
        return f"it wants {wanted.demand}; free{beside}: {describe(left)}"
    elders = book.elder_claims(wanted.run, wanted.cell)
    if elders and place(left, [*mine, *_to_come(seen, elders)]) is None:
        first = elders[0]
        return f"it makes way for {first.cell} of run {first.run}, which wants {first.demand} and has waited too long"
    return ""


def possible(seen: Survey, pods: Iterable[PodRequest]) -> bool:
    """Tell whether pods fit on the nodes once everything is gone that ever goes."""
    return place(seen.empty(), tuple(pods)) is not None


def _to_come(seen: Survey, entries: Iterable[Entry]) -> Iterable[PodRequest]:
    """Return the pods of cells that no node has yet."""
    for entry in entries:
        bound = (pod.request for pod in seen.machines_of(entry.run, entry.cell) if pod.node)
        yield from remainder(entry.demand.pods, bound)


def _strays(seen: Survey, entries: Iterable[Entry]) -> Iterable[PodRequest]:
    """Return the machines that wait for a node and have no reservation (any more): a node is about to take them."""
    known = {entry.key for entry in entries}
    return (pod.request for pod in seen.pods if pod.cell and not pod.node and (pod.run, pod.cell) not in known)
