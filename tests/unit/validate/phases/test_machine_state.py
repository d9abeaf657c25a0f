"""A reset machine is compared with itself, whole: what is left, lost or changed is found, and so is no look at all."""

from __future__ import annotations

import copy

import pytest

from harness.spec.models.leaves import ClusterLeaves
from harness.validate.findings import Mismatch, real
from harness.validate.inspection import MachineState
from harness.validate.phases import machine_state
from harness.validate.phases.machine_state import KINDS, LISTED
from tests.unit.validate import guests

ALL = (*KINDS, "firewall rule")
WELL: MachineState = {kind: {f"{kind} of the system": "as it is"} for kind in ALL}
UNSAID = ClusterLeaves()


def not_as_before(
    names: tuple[str, ...],
    before: dict[str, MachineState],
    after: dict[str, MachineState],
    leaves: ClusterLeaves = guests.OURS,
) -> list[Mismatch]:
    return machine_state.not_as_before(names, before, after, leaves)


def test_a_machine_as_before_passes() -> None:
    assert not_as_before(("m",), {"m": WELL}, {"m": copy.deepcopy(WELL)}) == []


@pytest.mark.parametrize("kind", ALL)
def test_what_is_left_behind_lost_or_changed_is_found(kind: str) -> None:
    left, lost, changed = copy.deepcopy(WELL), copy.deepcopy(WELL), copy.deepcopy(WELL)
    left[kind]["of the cluster"] = ""
    lost[kind] = {"another": ""}
    changed[kind] = dict.fromkeys(WELL[kind], "another")
    for after in (left, lost, changed):
        assert any(f.seen.startswith(kind) for f in not_as_before(("m",), {"m": WELL}, {"m": after}))


@pytest.mark.parametrize(("before", "after"), [({}, {"m": WELL}), ({"m": WELL}, {}), ({}, {})])
def test_a_machine_that_was_not_looked_at_is_found(
    before: dict[str, MachineState], after: dict[str, MachineState]
) -> None:
    assert not_as_before(("m",), before, after)


def test_two_empty_states_prove_nothing() -> None:
    assert not_as_before(("m",), {"m": {}}, {"m": {}})


def test_many_differences_are_counted() -> None:
    after = copy.deepcopy(WELL)
    after["file"] |= {f"/left/{number}": "" for number in range(LISTED + 5)}
    found = not_as_before(("m",), {"m": WELL}, {"m": after})
    assert len(found) == LISTED + 1
    assert found[-1].seen == "5 more differences"


def left(kind: str, name: str) -> MachineState:
    """Return the state of a machine on which one thing more is left."""
    after = copy.deepcopy(WELL)
    after[kind][name] = ""
    return after


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("process", "/usr/local/bin/etcd"),
        ("process", "/usr/local/bin/containerd-shim-runc-v2 -namespace k8s.io -id 1"),
        ("mount", "/var/lib/kubelet/pods/1/volumes/token"),
        ("link", "flannel.1"),
        ("firewall rule", "1: chain KUBE-SERVICES {"),
        ("control group", "kubepods"),
    ],
)
def test_what_disturbs_another_cluster_is_found_after_the_reset_of_any_product(kind: str, name: str) -> None:
    assert real(not_as_before(("m",), {"m": WELL}, {"m": left(kind, name)}, UNSAID))


@pytest.mark.parametrize(("kind", "name"), [("file", "/usr/local/bin/crictl"), ("process", "/usr/bin/chronyd")])
def test_files_and_other_programs_are_not_judged_where_the_product_does_not_say_what_it_leaves(
    kind: str, name: str
) -> None:
    found = not_as_before(("m",), {"m": WELL}, {"m": left(kind, name)}, UNSAID)
    assert real(found) == []
    assert [str(one).partition(":")[0] for one in found] == ["each file", "each unit", "each kernel setting"]


def test_a_product_may_say_what_a_reset_leaves() -> None:
    said = ClusterLeaves(reset_leaves=("file /usr/local/bin/*",))
    assert not_as_before(("m",), {"m": WELL}, {"m": left("file", "/usr/local/bin/crictl")}, said) == []
    assert real(not_as_before(("m",), {"m": WELL}, {"m": left("file", "/var/lib/etcd/member")}, said))
