"""Pods find places on nodes, or do not: together, each whole on one node, in whatever order the scheduler gets them."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from harness.schedule.demand import PodRequest
from harness.schedule.room import place, remainder
from tests.unit.schedule.matrix import node

SIZES = st.integers(1, 8)
PODS = st.lists(st.builds(PodRequest, SIZES, st.just(1)), max_size=5)


def request(memory: int, millicpus: int = 200) -> PodRequest:
    return PodRequest(memory, millicpus)


def test_the_sum_is_not_enough_when_no_node_holds_the_largest() -> None:
    nodes = (node("a", 3000), node("b", 3000))
    assert place(nodes, [request(2000), request(2000)]) is not None
    assert place(nodes, [request(4000)]) is None
    assert place(nodes, [request(2000)] * 3) is None


def test_cpu_and_the_number_of_pods_count() -> None:
    assert place((node("a", 9000, millicpus=300),), [request(1, 200)] * 2) is None
    assert place((node("a", 9000, pods=1),), [request(1)] * 2) is None


def test_nothing_fits_on_no_node_but_nothing() -> None:
    assert place((), [request(1)]) is None
    assert place((), []) == ()


def test_a_packing_that_spreading_misses_does_not_count() -> None:
    nodes = (node("a", 4), node("b", 3))
    assert place(nodes, [request(4, 1), request(1, 1), request(1, 1), request(1, 1)]) is None  # small ones first: 3 | 2


@given(PODS, st.lists(SIZES, min_size=1, max_size=3))
def test_what_is_placed_takes_exactly_its_room_and_never_more_than_there_is(
    pods: list[PodRequest], sizes: list[int]
) -> None:
    nodes = tuple(node(f"n{n}", size) for n, size in enumerate(sizes))
    left = place(nodes, pods)
    if left is not None:
        assert all(n.memory_mib >= 0 and n.millicpus >= 0 and n.pods >= 0 for n in left)
        assert sum(sizes) - sum(n.memory_mib for n in left) == sum(p.memory_mib for p in pods)


@given(PODS, st.integers(1, 30))
def test_on_one_node_places_are_a_matter_of_the_sum(pods: list[PodRequest], size: int) -> None:
    assert (place((node("a", size),), pods) is not None) == (sum(p.memory_mib for p in pods) <= size)


@given(PODS)
def test_the_order_in_which_pods_are_named_does_not_matter(pods: list[PodRequest]) -> None:
    nodes = (node("a", 9), node("b", 7))
    assert len({place(nodes, order) for order in permutations(pods[:4])}) == 1


def test_bound_pods_are_taken_off_what_is_still_to_come() -> None:
    expected = [request(2048), request(1536), request(1536)]
    assert remainder(expected, []) == (request(1536), request(1536), request(2048))
    assert remainder(expected, [request(2040)]) == (request(1536), request(1536))
    assert remainder(expected, [request(1)] * 5) == ()
