"""Certificates that expire, are missing or are others are found."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch
from harness.validate.judge.bad_certificates import bad_certificates
from tests.unit.validate.changes import Judge, finds, passes_a_well_guest_only
from tests.unit.validate.guests import Change, Json

KUBELET_CLIENT = "/var/lib/kubelet/pki/kubelet-client-current.pem"
API_SERVER = "/etc/kubernetes/pki/apiserver.crt"
RECORDED_AT = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)


def certificates(seen: Mapping[str, NodeFacts], wanted: ExpectedGuest) -> list[Mismatch]:
    return bad_certificates(seen, wanted, RECORDED_AT)


def certificates_a_year_on(seen: Mapping[str, NodeFacts], wanted: ExpectedGuest) -> list[Mismatch]:
    return bad_certificates(seen, wanted, datetime(2027, 11, 1, tzinfo=UTC))


def without_kubelet_client(raw: Json) -> None:
    del raw["certificates"]["/var/lib/kubelet/pki/kubelet-client-current.pem"]


JUDGES: tuple[Judge, ...] = (certificates,)
FAULTS: list[tuple[Judge, Change]] = [
    (certificates_a_year_on, lambda _: None),
    (certificates, without_kubelet_client),
    (
        certificates,
        lambda raw: raw["certificates"].update({API_SERVER: raw["certificates"][KUBELET_CLIENT]}),
    ),
]


@pytest.mark.parametrize("judge", JUDGES)
def test_only_a_well_guest_passes(judge: Judge) -> None:
    assert passes_a_well_guest_only(judge)


@pytest.mark.parametrize(("judge", "fault"), FAULTS)
def test_a_fault_is_found(judge: Judge, fault: Change) -> None:
    assert finds(judge, fault)
