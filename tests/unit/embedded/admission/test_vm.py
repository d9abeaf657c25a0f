"""The webhooks of VirtualMachine: every recorded request gets the recorded answer."""

from __future__ import annotations

import pytest

from harness.embedded.admission.response import Json
from harness.embedded.admission.vm import default_vm, validate_vm
from tests.unit.embedded.admission.recorded import cases, hold_to

CASES = cases("vm-admission.json")
CHAIN = (
    ("virtualmachines-mutator.kubevirt.io", default_vm),
    ("virtualmachine-validator.kubevirt.io", validate_vm),
)


@pytest.mark.parametrize("case", CASES)
def test_a_recorded_request_gets_the_recorded_answer(case: Json) -> None:
    hold_to(case, CHAIN)


def test_every_recorded_case_is_asked() -> None:
    assert len(CASES) == 43
