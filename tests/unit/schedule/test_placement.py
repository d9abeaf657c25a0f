"""What a cell is expected to ask of nodes, beside what its launcher pods then ask; and whether pods find places."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cell import manifests
from harness.cell.place import cell_labels, namespace_name
from harness.embedded.vm.instance import instance_of
from harness.embedded.vmi.launcher import launcher_pod
from harness.kube.objects import quantity
from harness.machines.kubevirt.manifests import GoldenImage, machine
from harness.model import Cell, PlannedMachine
from harness.paths import project_dir
from harness.plan import make_cell
from harness.plan.tiers import tier_cells
from harness.schedule.admission import request_of
from harness.schedule.placement import (
    Demand,
    Limits,
    NodeRoom,
    PodRequest,
    Rules,
    all_fit,
    demand_of,
    pod_of,
    remainder,
)
from harness.spec import Spec, load_spec
from tests.unit.schedule.matrix import node

TEMPLATES = project_dir() / "vm-templates"
IMAGE = GoldenImage("debian-13-abc", "http://m/images/x.qcow2", "sha256:" + "a" * 64, "10Gi", "debian")
SPEC = load_spec(project_dir() / "matrix")
MOST_TOO_MUCH_MIB = 16  # per machine


def cell_of(spec: Spec, topology: str) -> Cell:
    smoke = tier_cells(spec, "smoke", "embedded")[0]
    return make_cell(spec, {**smoke.values, "topology": topology})


def plan(cell: Cell) -> manifests.CellPlan:
    labels = cell_labels(run="abc123", cell=cell.id, attempt=1, expires_at=1e9, environment={})
    return manifests.CellPlan(
        namespace_name("abc123", cell.id, 1), labels, "ssh-ed25519 A", "cluster.local", None, expires_at=1e9
    )


@pytest.mark.parametrize("topology", sorted(SPEC.topologies))
def test_launcher_pods_ask_for_no_more_than_expected_and_hardly_less(topology: str) -> None:
    cell = cell_of(SPEC, topology)
    expected = demand_of(cell)
    assert expected.machines == len(cell.machines) > 0
    for planned, room in zip(cell.machines, expected.pods, strict=True):
        vm = machine(plan(cell), planned, IMAGE, directory=TEMPLATES)[-1]
        vm["metadata"].update(uid="0c0ffee0-0000-4000-8000-000000000001", generation=1)
        vmi = instance_of(vm)
        vmi["metadata"]["uid"] = "0c0ffee0-0000-4000-8000-000000000002"
        asked = request_of(launcher_pod(vmi)["spec"])
        assert asked.memory_mib <= room.memory_mib <= asked.memory_mib + MOST_TOO_MUCH_MIB
        assert asked.millicpus == room.millicpus


@pytest.mark.parametrize("topology", sorted(SPEC.topologies))
def test_the_quota_of_a_cells_namespace_is_never_what_limits_it(topology: str) -> None:
    cell = cell_of(SPEC, topology)
    hard = manifests.quota(plan(cell), cell.machines, directory=TEMPLATES)["spec"]["hard"]
    assert demand_of(cell).memory_mib * 2**20 <= quantity(hard["requests.memory"])
    assert demand_of(cell).machines <= int(hard["pods"])


def test_a_recorded_launcher_of_kubevirt_1_9_is_met() -> None:
    compute, console_log_mib = 2324, 35_000_000 / 2**20
    room = pod_of(PlannedMachine("cp-0", (), 2, 2048, 12, ""), Rules())
    assert compute + console_log_mib <= room.memory_mib
    assert room.millicpus == 205


def test_settings_of_kubevirt_count() -> None:
    machine = PlannedMachine("cp-0", (), 2, 2048, 12, "")
    usual = pod_of(machine, Rules())
    assert pod_of(machine, Rules(cpu_allocation_ratio=1)).millicpus == 2005
    assert pod_of(machine, Rules(memory_overcommit=50)).memory_mib == usual.memory_mib + 2048
    assert pod_of(machine, Rules(overhead_ratio=2.0)).memory_mib == usual.memory_mib + 260 + 16 + 4


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(memory_mib=2999), "3000 MiB of memory, its limit is 2999"),
        (Limits(cpus=0.59), "0.6 CPUs"),
        (Limits(machines=2), "3 machines"),
        (Limits(cells=1), "2 cells"),
        (Limits(3000, 0.6, 3, 2), ""),
        (Limits(), ""),
    ],
)
def test_limits_count_all_that_a_run_holds(limits: Limits, words: str) -> None:
    held, wanted = Demand((PodRequest(1000, 200),) * 2), Demand((PodRequest(1000, 200),))
    said = limits.refusal([held], wanted)
    assert words in said
    assert bool(said) == bool(words)


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
