"""Flags that are wrong are found."""

from __future__ import annotations

import pytest

from harness.validate.judge.program_flags import wrong_flags
from tests.unit.validate.changes import Judge, finds, passes_a_well_guest_only, replace_flag, without_process
from tests.unit.validate.guests import Change

JUDGES: tuple[Judge, ...] = (wrong_flags,)
FAULTS: list[tuple[Judge, Change]] = [
    (
        wrong_flags,
        replace_flag("kube-apiserver", "--authorization-mode=Node,RBAC", "--authorization-mode=AlwaysAllow"),
    ),
    (
        wrong_flags,
        replace_flag("kube-controller-manager", "--cluster-cidr=10.243.0.0/16", "--cluster-cidr=10.0.0.0/8"),
    ),
    (wrong_flags, replace_flag("etcd", "--client-cert-auth=true", "--client-cert-auth=false")),
    (wrong_flags, without_process("kube-apiserver")),
]


@pytest.mark.parametrize("judge", JUDGES)
def test_only_a_well_guest_passes(judge: Judge) -> None:
    assert passes_a_well_guest_only(judge)


@pytest.mark.parametrize(("judge", "fault"), FAULTS)
def test_a_fault_is_found(judge: Judge, fault: Change) -> None:
    assert finds(judge, fault)
