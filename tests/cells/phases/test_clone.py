"""A cluster that begins as a clone has the data of the backup, and nothing that its source was known by."""

from __future__ import annotations

import pytest

from harness.model import Cell
from harness.validate.commands import on_machine
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.phases import credentials, data
from harness.validate.phases.monitor import PhaseMonitor
from harness.validate.phases.observation import Observation
from harness.validate.topics import certificates, nodes


@pytest.fixture
def source(inspection: Inspection, monitor: PhaseMonitor, phase: int) -> Observation:
    """The source when the phase before began. Raises the error that kept it from being seen."""
    return monitor.record(phase - 1).guest_before()


@pytest.mark.when(phase=data.clones)
def test_what_came_after_the_backup_is_not_there(
    cell: Cell, phase: int, inspection: Inspection, monitor: PhaseMonitor
) -> None:
    require(
        data.later_marks(cell, phase, monitor.marks, data.found_marks(inspection.api)),
        claim="a clone has the data of its backup, and none that is newer",
        look="was another snapshot cloned? cluster_etcd_snapshot_path in the phase's log",
        do=f"kubectl --kubeconfig kubeconfig -n {data.LIFE} get configmaps -o yaml",
    )


@pytest.mark.when(phase=data.clones)
def test_credentials_of_the_source_are_refused(phase: int, inspection: Inspection, monitor: PhaseMonitor) -> None:
    require(
        credentials.accepted(monitor.record(phase - 1).former_credentials(), inspection.guest.kubeconfig),
        claim="nobody trusts the CA of the source, and what it and its key of service accounts signed is refused",
        look="ca.crt and sa.pub in the folder of certificates: are they those of before the reset?",
        do=on_machine(inspection.expected, "ls -lt /etc/kubernetes/pki"),
    )


@pytest.mark.when(phase=data.clones)
def test_every_authority_and_certificate_is_the_clones_own(source: Observation, after: Observation) -> None:
    require(
        certificates.not_renewed(source.facts, after.facts, after.expected, certificates.REPLACED),
        claim="every CA and every certificate of the clone is another one than its source's",
        look="the role reset in the log of the phase before: were certificates left behind?",
        do=on_machine(after.expected, "kubeadm certs check-expiration"),
    )


@pytest.mark.when(phase=data.clones)
def test_nodes_are_the_clones_own(source: Observation, after: Observation) -> None:
    require(
        nodes.same_nodes(source.view.nodes, after.view.nodes),
        claim="the Nodes of the source are gone, and each machine has registered anew",
        look="the role etcd_clone: etcd_clone_keys in its vars has what is deleted of a snapshot",
        do="kubectl --kubeconfig kubeconfig get nodes -o yaml",
    )
