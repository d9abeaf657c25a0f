"""What a cell is expected to ask of nodes, beside what its launcher pods then really ask."""

from __future__ import annotations

import pytest

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
from harness.schedule.demand import Demand, Limits, PodRequest, Rules, demand_of, pod_of
from harness.spec import Spec, load_spec

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
