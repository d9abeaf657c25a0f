"""A reset machine is compared with itself, whole: what is left, lost or changed is found, and so is no look at all."""

from __future__ import annotations

import copy

import pytest

from harness.validate.phases.machine_state import KINDS, LISTED, not_as_before
from harness.validate.remote.gather import MachineState

ALL = (*KINDS, "firewall rule")
WELL: MachineState = {kind: {f"{kind} of the system": "as it is"} for kind in ALL}


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
