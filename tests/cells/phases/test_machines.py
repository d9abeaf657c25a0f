"""Nothing refers to machines that left a cluster, and machines that joined it were not part of it before."""

from __future__ import annotations

import pytest

from harness.model import Cell
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.commands import on_machine
from harness.validate.findings import eventually, require
from harness.validate.inspection import Inspection
from harness.validate.phases.leftovers import (
    gone_by,
    joined_in,
    left_in_api,
    left_on_others,
    not_as_before,
    not_joined,
    traces_of,
)
from harness.validate.phases.monitor import PhaseMonitor
from harness.validate.phases.observation import Observation


def some_are_gone(cell: Cell, index: int) -> bool:
    """Tell whether machines have left the cluster, in a phase or before it."""
    return cell.phases[index].cluster and bool(gone_by(cell, index))


def some_are_removed(cell: Cell, index: int) -> bool:
    """Tell whether a phase removes machines from the cluster that still exist afterwards."""
    return bool(cell.phases[index].removed) and not cell.phases[index].deletes


def some_join(cell: Cell, index: int) -> bool:
    """Tell whether a phase's inventory has machines that the previous one did not."""
    return cell.phases[index].cluster and bool(joined_in(cell, index))


@pytest.mark.when(phase=some_are_gone)
def test_nothing_in_the_api_is_left_of_machines_that_are_gone(
    inspection: Inspection, gone: dict[str, str], timeouts: Timeouts
) -> None:
    found = eventually(
        lambda: left_in_api(traces_of(inspection.api), gone, inspection.expected),
        deadline=Deadline.after(timeouts.settle),
        what="the API to forget the machines that are gone",
    )
    require(
        found,
        claim=f"the API has no Node, Lease, CSINode, pending certificate request or pod of {', '.join(gone)}, "
        "and the endpoints of the Service default/kubernetes are the remaining control planes",
        look="the end of the phase's log; kube-controller-manager's log (garbage collector, pod garbage collector)",
        do="kubectl --kubeconfig kubeconfig get nodes,csinodes,csr; kubectl --kubeconfig kubeconfig get leases,pods -A",
    )


@pytest.mark.when(phase=some_are_gone)
def test_machines_that_stay_have_forgotten_those_that_are_gone(after: Observation, gone: dict[str, str]) -> None:
    require(
        left_on_others(after, gone),
        claim=f"no remaining machine has {', '.join(gone)} in /etc/hosts, behind its local API address, or as an etcd "
        "server of its API server",
        look="/etc/hosts, /etc/api-endpoint/haproxy.cfg and /etc/kubernetes/manifests on the machine",
        do=on_machine(after.expected, "grep -n MACHINE /etc/hosts; systemctl status api-endpoint"),
    )


@pytest.mark.when(phase=some_are_removed)
def test_removed_machines_are_as_before_their_deployment(
    cell: Cell, phase: int, monitor: PhaseMonitor, after: Observation
) -> None:
    names = cell.phases[phase].removed
    require(
        not_as_before(names, monitor.bare_states(), monitor.states_of(names), monitor.leaves),
        claim=f"nothing of the cluster is left on {', '.join(names)}: no process, mount, interface, rule or file",
        look="the role reset in the phase's log",
        do=on_machine(after.expected, "ps -ef; findmnt; ip link; nft list ruleset", machine=names[0]),
    )


@pytest.mark.when(phase=some_join)
def test_machines_that_joined_were_no_part_of_the_cluster_before(
    cell: Cell, phase: int, before: Observation, after: Observation
) -> None:
    joined = joined_in(cell, phase)
    require(
        not_joined(before, after, joined),
        claim=f"{', '.join(joined)} were not nodes or etcd members before the phase, and are after it",
        look="the phase's log; journalctl -u kubelet on the machine",
        do="kubectl --kubeconfig kubeconfig get nodes -o wide",
    )
