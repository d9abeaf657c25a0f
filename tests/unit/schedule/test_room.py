"""Pods are sure of places on nodes, or are not: each whole on one node, in whatever order the scheduler gets them."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.schedule.demand import PodRequest
from harness.schedule.room import NodeRoom, all_fit, remainder
from tests.unit.schedule.matrix import node

SIZES = st.integers(1, 8)
PODS = st.lists(st.builds(PodRequest, SIZES, SIZES), max_size=6)
NODES = st.lists(
    st.builds(NodeRoom, st.just("n"), st.integers(0, 16), st.integers(0, 30), st.integers(0, 6)), max_size=4
)


def request(memory: int, millicpus: int = 200) -> PodRequest:
    return PodRequest(memory, millicpus)


def test_the_sum_is_not_enough_when_no_node_holds_the_largest() -> None:
    nodes = (node("a", 3000), node("b", 3000))
    assert all_fit(nodes, [request(2000), request(2000)])
    assert not all_fit(nodes, [request(4000)])
    assert not all_fit(nodes, [request(2000)] * 3)


def test_cpu_and_the_number_of_pods_count() -> None:
    assert not all_fit((node("a", 9000, millicpus=300),), [request(1, 200)] * 2)
    assert all_fit((node("a", 9000, millicpus=400),), [request(1, 200)] * 2)
    assert not all_fit((node("a", 9000, pods=1),), [request(1)] * 2)


def test_nothing_fits_on_no_node_but_nothing() -> None:
    assert not all_fit((), [request(1)])
    assert all_fit((), [])


def test_a_packing_that_the_scheduler_may_miss_does_not_count() -> None:
    assert not all_fit((node("a", 4), node("b", 3)), [request(4, 1), request(2, 1)])  # the small one first, to a
    assert all_fit((node("a", 5), node("b", 6)), [request(4, 1), request(2, 1)])


@given(PODS, st.integers(1, 30), st.integers(1, 30))
def test_on_one_node_it_is_a_matter_of_the_sums(pods: list[PodRequest], memory: int, millicpus: int) -> None:
    enough = sum(p.memory_mib for p in pods) <= memory and sum(p.millicpus for p in pods) <= millicpus
    assert all_fit((node("a", memory, millicpus=millicpus),), pods) == enough


@settings(max_examples=400)
@given(PODS, NODES, st.randoms(use_true_random=False))
def test_what_fits_finds_its_places_whatever_the_scheduler_does(
    pods: list[PodRequest], nodes: list[NodeRoom], random: Random
) -> None:
    if all_fit(tuple(nodes), pods):
        left = list(nodes)
        for pod in random.sample(pods, len(pods)):
            chosen = random.choice([n for n, room in enumerate(left) if room.holds(pod)])
            left[chosen] = left[chosen].less(pod)


@given(PODS, NODES)
def test_less_pods_or_more_nodes_fit_as_well(pods: list[PodRequest], nodes: list[NodeRoom]) -> None:
    if all_fit(tuple(nodes), pods):
        assert all_fit((*nodes, node("more", 1)), pods)
        assert all(all_fit(tuple(nodes), pods[:n] + pods[n + 1 :]) for n in range(len(pods)))


def test_hardly_anything_is_lost_on_many_nodes() -> None:
    nodes = tuple(node(f"n{n}", 64000) for n in range(8))
    most = max(count for count in range(1, 300) if all_fit(nodes, [request(2378)] * count))
    assert most >= 0.95 * 8 * (64000 // 2378)


def test_bound_pods_are_taken_off_what_is_still_to_come() -> None:
    expected = [request(2048), request(1536), request(1536)]
    assert remainder(expected, []) == (request(1536), request(1536), request(2048))
    assert remainder(expected, [request(2040)]) == (request(1536), request(1536))
    assert remainder(expected, [request(1)] * 5) == ()
