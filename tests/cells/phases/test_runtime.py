"""An upgrade of the container runtime alone has changed it on every node, below containers that ran on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.check_result import MEASURED
from harness.model import Cell
from harness.validate.commands import on_machine
from harness.validate.findings import require
from harness.validate.phases import upgrade
from harness.validate.phases.observation import Observation

pytestmark = pytest.mark.when(phase=upgrade.replaces)
Note = Callable[[str, object], None]


def test_every_node_had_the_old_container_runtime_before_and_has_the_new_one(
    cell: Cell, phase: int, before: Observation, after: Observation
) -> None:
    require(
        upgrade.not_replaced(before, after),
        claim=f"every node ran {before.expected.runtime} {before.expected.runtime_version} before the phase and runs "
        f"{after.expected.runtime_version} after it, by its Node and by the running process's file",
        look=f"logs/{cell.stage(phase)}.log: was the machine skipped? journalctl -u containerd -u kubelet on it",
        do=on_machine(after.expected, f"/proc/$(pidof {after.expected.runtime_process})/exe --version"),
    )


def test_containers_that_no_drain_moves_run_on(
    cell: Cell, before: Observation, after: Observation, record_property: Note
) -> None:
    was, now = upgrade.staying(before.view), upgrade.staying(after.view)
    record_property(MEASURED, f"{sum(map(len, was.values()))} containers of {len(was)} pods")
    require(
        upgrade.started_anew(was, now),
        claim="static pods and those of DaemonSets have the containers of before: nothing started them anew",
        look="KillMode of the runtime's unit; the kubelet's journal from when the runtime started",
        do="kubectl --kubeconfig kubeconfig get pods -A -o wide",
    )


def test_nodes_keep_their_images(before: Observation, after: Observation) -> None:
    require(
        upgrade.lost_images(upgrade.images_of(before.view), upgrade.images_of(after.view)),
        claim="every node has the images of before, by what its runtime tells its kubelet",
        look="the runtime's folder of data and its log: did it begin with an empty one?",
        do=on_machine(
            after.expected, f"ctr -n k8s.io images ls; journalctl --no-pager -u {after.expected.runtime_process}"
        ),
    )


def test_pods_are_run_by_the_runtime_under_which_they_began(after: Observation, record_property: Note) -> None:
    record_property(MEASURED, upgrade.older_shims(after))
    require(
        upgrade.wrong_shims(after),
        claim="what began after the runtime is run by its version, and no shim was left behind without containers",
        look="which file containerd starts for a pod: its PATH, /usr/local/bin/containerd-shim-runc-v2",
        do=on_machine(after.expected, "ps -ef --forest; ls -l /proc/$(pidof -s containerd-shim-runc-v2)/exe"),
    )
