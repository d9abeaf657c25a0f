"""Flags, kernel settings, certificates, identities and proxy modes that are wrong are found."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from harness.validate.facts.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.judge.mismatch import Mismatch
from harness.validate.judge.node_configuration import (
    bad_certificates,
    confused_identities,
    wrong_flags,
    wrong_kernel_settings,
    wrong_proxy_mode,
)
from tests.unit.shipped_timeouts import TIMEOUTS
from tests.unit.validate import guests
from tests.unit.validate.changes import (
    Change,
    Json,
    Judge,
    finds,
    passes_a_well_guest_only,
    put,
    replace_flag,
    without_process,
)

KUBELET_CLIENT = "/var/lib/kubelet/pki/kubelet-client-current.pem"
API_SERVER = "/etc/kubernetes/pki/apiserver.crt"
RECORDED_AT = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)


def certificates(seen: Mapping[str, NodeFacts], wanted: ExpectedGuest) -> list[Mismatch]:
    return bad_certificates(seen, wanted, RECORDED_AT)


def identities(seen: Mapping[str, NodeFacts], wanted: ExpectedGuest) -> list[Mismatch]:
    return confused_identities(seen, wanted, TIMEOUTS.clock_margin)


def certificates_a_year_on(seen: Mapping[str, NodeFacts], wanted: ExpectedGuest) -> list[Mismatch]:
    return bad_certificates(seen, wanted, datetime(2027, 11, 1, tzinfo=UTC))


def without_kubelet_client(raw: Json) -> None:
    del raw["certificates"]["/var/lib/kubelet/pki/kubelet-client-current.pem"]


def clock(ahead: float) -> Change:
    """Return a machine whose clock is ahead of the harness's by so many seconds."""
    return lambda raw: raw.update(began=raw["began"] + ahead, ended=raw["ended"] + ahead)


JUDGES: tuple[Judge, ...] = (
    wrong_flags,
    wrong_kernel_settings,
    certificates,
    identities,
    wrong_proxy_mode,
)
FAULTS: list[tuple[Judge, Change]] = [
    (
        wrong_flags,
        replace_flag("kube-apiserver", "--authorization-mode=Node,RBAC", "--authorization-mode=AlwaysAllow"),
    ),
    (
        wrong_flags,
        replace_flag("kube-controller-manager", "--cluster-cidr=10.243.0.0/16", "--cluster-cidr=10.0.0.0/8"),
    ),
    (wrong_flags, replace_flag("etcd", "--client-cert-auth=true", "--client-cert-auth=false")),
    (wrong_flags, without_process("kube-apiserver")),
    (wrong_kernel_settings, put("swaps", ["/dev/sda2 partition 1 0 -2"])),
    (wrong_kernel_settings, lambda raw: raw["sysctls"].update({"net.ipv4.ip_forward": "0"})),
    (
        wrong_kernel_settings,
        lambda raw: raw["sysctls"].update({"net.bridge.bridge-nf-call-iptables": ""}),
    ),
    (certificates_a_year_on, lambda _: None),
    (certificates, without_kubelet_client),
    (
        certificates,
        lambda raw: raw["certificates"].update({API_SERVER: raw["certificates"][KUBELET_CLIENT]}),
    ),
    (identities, put("hostname", "localhost")),
    (identities, put("machine_id", "")),
    (identities, lambda raw: raw.update(machine_id=guests.raw_facts("w-0")["machine_id"])),
    (identities, clock(+3600)),
    (identities, clock(-3600)),
    (identities, clock(TIMEOUTS.clock_margin + 2)),
    (
        wrong_proxy_mode,
        lambda raw: raw["endpoints"].update({"kube-proxy mode": {"status": 200, "body": "iptables"}}),
    ),
    (wrong_proxy_mode, put("nft_tables", ["table ip filter"])),
]


@pytest.mark.parametrize("judge", JUDGES)
def test_only_a_well_guest_passes(judge: Judge) -> None:
    assert passes_a_well_guest_only(judge)


@pytest.mark.parametrize(("judge", "fault"), FAULTS)
def test_a_fault_is_found(judge: Judge, fault: Change) -> None:
    assert finds(judge, fault)


def test_machines_that_answer_late_have_right_clocks() -> None:
    """As on a host at load 80: a minute until the program runs on one machine, and one until its answer is here."""

    def late(raw: Json) -> None:
        raw.update(began=raw["began"] + 60, ended=raw["ended"] + 60, answered=raw["answered"] + 120)

    assert identities(guests.facts(late), guests.expected()) == []


def test_clocks_that_are_all_wrong_alike_are_found() -> None:
    seen = {**guests.facts(clock(-90)), "w-0": guests.facts(clock(-90), of="w-0")["w-0"]}
    found = identities(seen, guests.expected())
    assert [one.where for one in found] == ["cp-0", "w-0"]
    assert found[0].seen == "at least 89 s behind"
