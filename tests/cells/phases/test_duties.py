"""A phase that does one of the duties of a running cluster did it, on every machine that it is for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.model import Cell
from harness.validate.commands import etcdctl, on_machine
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.phases import credentials
from harness.validate.phases.monitor import PhaseRecord
from harness.validate.phases.observation import Observation
from harness.validate.topics import certificates, etcd


def named(name: str) -> Callable[[Cell, int], bool]:
    """Return the condition that a phase has a name."""
    return lambda cell, index: cell.phases[index].name == name


@pytest.mark.when(phase=named(etcd.DEFRAGMENT))
def test_every_member_was_defragmented(before: Observation, after: Observation) -> None:
    require(
        etcd.not_defragmented(before.etcd, after.etcd, after.expected),
        claim="every member of etcd was defragmented in the phase, and none was restarted for it",
        look="the phase's log: was the gain worth it by cluster_etcd_defragment_percent and _mebibytes?",
        do=etcdctl(after.expected, "endpoint status --cluster"),
    )


@pytest.mark.when(phase=named(certificates.RENEW))
def test_every_certificate_is_a_new_one(before: Observation, after: Observation) -> None:
    require(
        certificates.not_renewed(before.facts, after.facts, after.expected),
        claim="every certificate of control planes and of members of etcd was signed in the phase",
        look="the phase's log: did `kubeadm certs renew` run on each of them?",
        do=on_machine(after.expected, "kubeadm certs check-expiration"),
    )


@pytest.mark.when(phase=named(credentials.ROTATE))
def test_every_authority_and_certificate_is_a_new_one(before: Observation, after: Observation) -> None:
    require(
        certificates.not_renewed(before.facts, after.facts, after.expected, certificates.REPLACED),
        claim="every CA, and every certificate of control planes, members of etcd and kubelets, was made in the phase",
        look="the phase's log; cluster_ca_rotation has to be another name than that of an earlier rotation",
        do=on_machine(after.expected, "cat /etc/kubernetes/ca-rotation/state.yml"),
    )


@pytest.mark.when(phase=named(credentials.ROTATE))
def test_former_credentials_are_refused(record: PhaseRecord, inspection: Inspection) -> None:
    require(
        credentials.accepted(record.former_credentials(), inspection.guest.kubeconfig),
        claim="nobody trusts the former CA, and what it and the former key of service accounts signed is refused",
        look="ca.crt and sa.pub in the folder of certificates, and whether the API server is older than they",
        do=on_machine(inspection.expected, "grep -c BEGIN /etc/kubernetes/pki/ca.crt /etc/kubernetes/pki/sa.pub"),
    )
