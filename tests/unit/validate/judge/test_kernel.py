"""Kernel settings and identities that are wrong are found."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch
from harness.validate.judge.kernel import confused_identities, wrong_kernel_settings
from tests.unit.shipped_timeouts import TIMEOUTS
from tests.unit.validate import guests
from tests.unit.validate.changes import Judge, finds, passes_a_well_guest_only, put
from tests.unit.validate.guests import Change, Json


def identities(seen: Mapping[str, NodeFacts], wanted: ExpectedGuest) -> list[Mismatch]:
    return confused_identities(seen, wanted, TIMEOUTS.clock_margin)


def clock(ahead: float) -> Change:
    """Return a machine whose clock is ahead of the harness's by so many seconds."""
    return lambda raw: raw.update(began=raw["began"] + ahead, ended=raw["ended"] + ahead)


JUDGES: tuple[Judge, ...] = (
    wrong_kernel_settings,
    identities,
)
FAULTS: list[tuple[Judge, Change]] = [
    (wrong_kernel_settings, put("swaps", ["/dev/sda2 partition 1 0 -2"])),
    (wrong_kernel_settings, lambda raw: raw["sysctls"].update({"net.ipv4.ip_forward": "0"})),
    (
        wrong_kernel_settings,
        lambda raw: raw["sysctls"].update({"net.bridge.bridge-nf-call-iptables": ""}),
    ),
    (identities, put("hostname", "localhost")),
    (identities, put("machine_id", "")),
    (identities, lambda raw: raw.update(machine_id=guests.raw_facts("w-0")["machine_id"])),
    (identities, clock(+3600)),
    (identities, clock(-3600)),
    (identities, clock(TIMEOUTS.clock_margin + 2)),
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
