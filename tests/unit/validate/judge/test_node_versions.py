"""Programs of another version, on disk or running, are found."""

from __future__ import annotations

import pytest

from harness.validate.judge.node_versions import replaced_binaries, wrong_binaries
from tests.unit.validate.changes import Judge, finds, passes_a_well_guest_only, put, second_process, without_process
from tests.unit.validate.guests import Change, Json


def replaced_kubelet(raw: Json) -> None:
    for process in raw["processes"]:
        if process["name"] == "kubelet":
            process["executable"] += " (deleted)"


JUDGES: tuple[Judge, ...] = (
    wrong_binaries,
    replaced_binaries,
)
FAULTS: list[tuple[Judge, Change]] = [
    (wrong_binaries, put("versions/kubelet", "Kubernetes v1.35.4")),
    (wrong_binaries, put("versions/runc", None)),
    (wrong_binaries, put("cni_plugins/bridge", "CNI bridge plugin v1.1.1")),
    (wrong_binaries, put("cni_plugins", {})),
    (replaced_binaries, replaced_kubelet),
    (replaced_binaries, without_process("kubelet")),
    (replaced_binaries, second_process("containerd")),
]


@pytest.mark.parametrize("judge", JUDGES)
def test_only_a_well_guest_passes(judge: Judge) -> None:
    assert passes_a_well_guest_only(judge)


@pytest.mark.parametrize(("judge", "fault"), FAULTS)
def test_a_fault_is_found(judge: Judge, fault: Change) -> None:
    assert finds(judge, fault)
