"""A machine's status, as the real KubeVirt wrote it."""

from __future__ import annotations

import pytest

from harness.embedded.vm.printable import Seen
from harness.embedded.vm.status import vm_status
from tests.unit.embedded.recording import RECORDED_AT, untimed, versions, without_nulls

MACHINE_STEPS = [
    # name, VM before, instance (its version in the recording) or None, just created, recorded VM after
    ("instance created", 3, None, True, 4),
    ("instance seen", 4, 1, False, 5),
    ("scheduling", 5, 2, False, 6),
    ("asked by its node's agent", 6, 5, False, 7),
    ("running", 7, 6, False, 8),
    ("ready", 8, 7, False, 9),
    ("deleted", 10, 8, False, 11),
    ("pod terminating", 11, 9, False, 12),
    ("shut down", 12, 10, False, 12),
    ("let go", 12, 11, False, 12),
]


@pytest.mark.parametrize(("name", "before", "seen", "created", "after"), MACHINE_STEPS)
def test_machine_status_follows_the_recording(
    name: str, before: int, seen: int | None, created: bool, after: int
) -> None:
    machine, expected = versions("vm")[before], versions("vm")[after]
    instance = versions("vmi")[seen] if seen is not None else None
    status = vm_status(Seen(machine, instance, start_expected=created), RECORDED_AT)
    assert without_nulls(untimed(status)) == without_nulls(untimed(expected["status"])), name
