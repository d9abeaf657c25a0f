"""How many cells a host holds, by what they declare and by what they were measured to take; and what else bounds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from harness.embedded.node.registration import RESERVED_KIB
from harness.model import Cell
from harness.schedule.admission import Admission
from harness.schedule.capacity import Bound, Survey
from harness.schedule.demand import Rules, demand_of
from harness.schedule.outlook import Outlook
from tests.unit.schedule.matrix import Shelf, cell, node
from tests.unit.schedule.simulation import NO_CLUSTER

HOST_MIB = 24 * 1024 - RESERVED_KIB // 1024
# The most that the smoke cell's machines took on the embedded infrastructure (docs/performance.md), times 1.2.
MEASURED = {"cp-0": 1235, "w-1": 806}
PLENTY = 64000


def admitted(asked: Mapping[str, int], *, millicpus: int = PLENTY, left: int = HOST_MIB, held: int = 0) -> int:
    """Return how many cells of a control plane and a worker are admitted, one after the other, by a host of 24 GiB.

    left: what the host has available with no machine on it.  held: what each machine keeps of it once it runs.
    """
    cells = [cell(f"c{number}", 2048, 1536) for number in range(40)]
    pods: list[Bound] = []

    def look() -> Survey:
        promised = sum(pod.request.memory_mib for pod in pods)  # taken, or not yet: what is available tells only `held`
        taken = len(pods) * held
        spare = left - taken - sum(max(0, pod.request.memory_mib - held) for pod in pods)
        assert promised <= HOST_MIB, "the scheduler finds no room for what was admitted"
        return Survey((node("n", HOST_MIB, millicpus=millicpus, pods=250),), tuple(pods), left={"n": spare})

    sizes = {one.id: asked for one in cells} if asked else {}
    with Admission(NO_CLUSTER, "r", outlook=Outlook(Rules(), look, Shelf().ledger, sizes)) as admission:
        for number, one in enumerate(cells):
            if admission.try_admit(one) is not None:
                return number
            pods += (Bound("n", request, "r", one.id) for request in demand_of(one, Rules(), asked).pods)
            admission.machines_up(one.id)
    return len(cells)


def test_a_host_of_24_gib_holds_twice_as_many_measured_cells() -> None:
    assert (admitted({}), admitted(MEASURED)) == (5, 10)


def test_processors_bound_it_as_before() -> None:
    assert (admitted({}, millicpus=2000), admitted(MEASURED, millicpus=2000)) == (4, 4)
    assert (admitted({}, millicpus=8000), admitted(MEASURED, millicpus=8000)) == (5, 10)


@pytest.mark.parametrize(
    ("left", "held", "most"), [(HOST_MIB, 450, 10), (10000, 450, 4), (10000, 900, 4), (2000, 0, 0)]
)
def test_what_the_host_has_left_rules_whatever_was_measured(left: int, held: int, most: int) -> None:
    assert admitted(MEASURED, left=left, held=held) == most


def test_a_cell_that_takes_more_than_it_was_admitted_with_leaves_less_for_others() -> None:
    assert admitted(MEASURED, left=HOST_MIB, held=2000) < admitted(MEASURED, left=HOST_MIB, held=700)


def test_the_account_of_a_node_bounds_its_free_memory_and_not_what_may_ever_be_there() -> None:
    seen = Survey((node("a", 8000), node("b", 8000)), (), left={"a": 3000})
    assert [room.memory_mib for room in seen.free] == [3000, 8000]
    assert [room.memory_mib for room in seen.empty()] == [8000, 8000]
    assert [room.memory_mib for room in replace(seen, left={"a": 9000}).free] == [8000, 8000]


def test_a_measured_cell_asks_for_what_it_took_and_the_console() -> None:
    one: Cell = cell("c", 2048, 1536)
    assert [pod.memory_mib for pod in demand_of(one, Rules(), MEASURED).pods] == [1235 + 34, 806 + 34]
    declared = demand_of(one).pods
    assert [pod.memory_mib for pod in demand_of(one, Rules(), {"cp-0": 1235}).pods] == [1269, declared[1].memory_mib]
