"""A machine's volumes, as the real KubeVirt described them."""

from __future__ import annotations

from harness.embedded.vm.volumes import snapshot_statuses
from tests.unit.embedded.recording import versions


def test_snapshot_statuses_are_the_recorded_ones() -> None:
    recorded = versions("vm")[1]
    assert snapshot_statuses(recorded) == recorded["status"]["volumeSnapshotStatuses"]
