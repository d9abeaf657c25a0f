"""Machines that restarted are what they were, and the cluster has everything that it had acknowledged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.check_result import MEASURED
from harness.errors import HarnessBug
from harness.model import Cell
from harness.validate.commands import on_machine
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.phases import data, restarts
from harness.validate.phases.data import LIFE
from harness.validate.phases.monitor import PhaseMonitor, PhaseRecord
from harness.validate.phases.observation import Observation

Note = Callable[[str, object], None]


@pytest.mark.when(phase=restarts.restarts)
def test_machines_have_restarted(cell: Cell, phase: int, before: Observation, after: Observation) -> None:
    names = cell.phases[phase].restarts
    require(
        restarts.not_restarted(
            names, after.expected.nodes, restarts.boot_ids(before.view), restarts.boot_ids(after.view)
        ),
        claim=f"the kernel of {', '.join(names)} booted during the phase, and no other node's",
        look="the boot id that each kubelet reports: Node.status.nodeInfo.bootID",
        do=on_machine(
            after.expected, "cat /proc/sys/kernel/random/boot_id; journalctl --no-pager --list-boots", machine=names[0]
        ),
    )


@pytest.mark.when(phase=restarts.restarts)
def test_restarted_machines_are_as_before(
    cell: Cell, phase: int, record: PhaseRecord, monitor: PhaseMonitor, after: Observation
) -> None:
    names = cell.phases[phase].restarts
    record.need(record.states)
    require(
        restarts.lost(names, record.states, monitor.states_of(names, with_files=False)),
        claim=f"{', '.join(names)} have the mounts, links, routes, services and kernel settings of before",
        look="what sets it at boot: /etc/fstab, /etc/sysctl.d, /etc/modules-load.d, enabled units",
        do=on_machine(
            after.expected, "systemctl --no-pager --failed; journalctl --no-pager --boot -p warning", machine=names[0]
        ),
    )


@pytest.mark.when(phase=restarts.restarts)
def test_containers_of_the_cluster_come_back_without_a_crash_loop(
    cell: Cell, phase: int, before: Observation, after: Observation, record_property: Note
) -> None:
    earlier = restarts.container_restarts(before.view.system_pods)
    now = restarts.container_restarts(after.view.system_pods)
    record_property(MEASURED, f"{sum(now.values()) - sum(earlier.values())} restarts of {len(now)} containers")
    require(
        restarts.restless(earlier, now),
        claim=f"no container of the cluster needed more than {restarts.MOST_CONTAINER_RESTARTS} restarts to come back",
        look="logs of the container's last end: kubectl logs --previous",
        do="kubectl --kubeconfig kubeconfig get pods -A -o wide",
    )


@pytest.mark.when(phase=restarts.power_cut)
def test_no_acknowledged_write_is_gone(record: PhaseRecord, inspection: Inspection, record_property: Note) -> None:
    record.need(record.writer)
    if record.writer is None:
        raise HarnessBug("nothing was written during the phase", hint="the scenario says that the power is cut")
    acknowledged = record.writer.acknowledged
    record_property(MEASURED, f"{len(acknowledged)} acknowledged writes")
    require(
        restarts.missing_writes(acknowledged, data.written(inspection.api)),
        claim="every write that the API acknowledged before, during and after the loss of power is there",
        look="etcd's flags (--unsafe-no-fsync?), its disk's cache mode, and its log after the boot",
        do=f"kubectl --kubeconfig kubeconfig -n {LIFE} get configmap {data.NAME} -o yaml",
    )
