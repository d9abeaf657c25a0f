"""Machines that leave a cluster are forgotten by all of it, and machines that join it were strangers before."""

from __future__ import annotations

import pytest

from harness.model import Cell
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.inspection import Inspection
from harness.validate.judge.mismatch import eventually, require
from harness.validate.phases import leftovers as leaving
from harness.validate.phases import machine_state
from harness.validate.phases.observation import Observation
from harness.validate.phases.witness import Witness


def some_are_gone(cell: Cell, index: int) -> bool:
    """Tell whether machines have left the cluster, in a phase or before it."""
    return cell.phases[index].cluster and bool(leaving.gone_by(cell, index))


def some_are_removed(cell: Cell, index: int) -> bool:
    """Tell whether machines leave in a phase that still exist afterwards."""
    return bool(cell.phases[index].removed)


def some_join(cell: Cell, index: int) -> bool:
    """Tell whether a phase's inventory has machines that the one before had not."""
    return cell.phases[index].cluster and bool(leaving.joined_in(cell, index))


@pytest.mark.when(phase=some_are_gone)
def test_nothing_in_the_api_is_left_of_machines_that_are_gone(
    inspection: Inspection, gone: dict[str, str], timeouts: Timeouts
) -> None:
    found = eventually(
        lambda: leaving.left_in_api(leaving.traces_of(inspection.api), gone, inspection.expected),
        deadline=Deadline.after(timeouts.settle),
        what="the API has forgotten the machines that are gone",
    )
    require(
        found,
        claim=f"the API has no Node, Lease, CSINode, waiting request or pod of {', '.join(gone)}, "
        "and the Service default/kubernetes leads to the control planes that are left",
        look="the end of the phase's log; kube-controller-manager's log (garbage collector, pod garbage collector)",
        do="kubectl --kubeconfig kubeconfig get nodes,csinodes,csr; kubectl --kubeconfig kubeconfig get leases,pods -A",
    )


@pytest.mark.when(phase=some_are_gone)
def test_machines_that_stay_have_forgotten_those_that_are_gone(after: Observation, gone: dict[str, str]) -> None:
    require(
        leaving.left_on_others(after, gone),
        claim=f"no machine that stays names {', '.join(gone)} in /etc/hosts, leads to it from its local address of the "
        "API, or speaks with it as a member of etcd",
        look="/etc/hosts, /etc/api-endpoint/haproxy.cfg and /etc/kubernetes/manifests on the machine",
        do=f"{after.expected.login()}, then grep -n NAME /etc/hosts; systemctl status api-endpoint",
    )


@pytest.mark.when(phase=some_are_removed)
def test_removed_machines_are_as_before_their_deployment(
    cell: Cell, phase: int, witness: Witness, after: Observation
) -> None:
    names = cell.phases[phase].removed
    require(
        machine_state.not_as_before(names, witness.bare_states(), witness.states_of(names)),
        claim=f"nothing of the cluster is left on {', '.join(names)}: no process, mount, interface, rule or file",
        look="the role reset in the phase's log",
        do=f"{after.expected.login(names[0])}, then ps -ef; findmnt; ip link; nft list ruleset",
    )


@pytest.mark.when(phase=some_join)
def test_machines_that_joined_were_no_part_of_the_cluster_before(
    cell: Cell, phase: int, before: Observation, after: Observation
) -> None:
    joined = leaving.joined_in(cell, phase)
    require(
        leaving.not_joined(before, after, joined),
        claim=f"{', '.join(joined)} were neither nodes nor members of etcd before the phase, and are after it",
        look="the phase's log; journalctl -u kubelet on the machine",
        do="kubectl --kubeconfig kubeconfig get nodes -o wide",
    )
