"""After a phase that leaves no cluster, every machine is as it was before its deployment."""

from __future__ import annotations

import pytest

from harness.model import Cell, GuestCluster
from harness.validate.commands import on_machine
from harness.validate.expected import expected_of
from harness.validate.findings import require
from harness.validate.phases.leftovers import not_as_before
from harness.validate.phases.monitor import PhaseMonitor


def leaves_no_cluster(cell: Cell, index: int) -> bool:
    """Tell whether there is no cluster after a phase."""
    return not cell.phases[index].cluster


@pytest.mark.when(phase=leaves_no_cluster)
def test_every_machine_is_as_before_its_deployment(
    guest: GuestCluster, cell: Cell, phase: int, monitor: PhaseMonitor
) -> None:
    names = cell.phases[phase].machines
    require(
        not_as_before(names, monitor.bare_states(), monitor.states_of(names), monitor.leaves),
        claim="nothing of the cluster is left on any machine: no process, mount, network namespace, interface, route, "
        "firewall rule, unit, control group, kernel setting or file",
        look="the role reset in the phase's log",
        do=on_machine(expected_of(guest, monitor.leaves), "ps -ef; findmnt; ip netns; ip link; nft list ruleset"),
    )
