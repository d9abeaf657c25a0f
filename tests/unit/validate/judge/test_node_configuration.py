"""Proxy modes that are wrong are found."""

from __future__ import annotations

import pytest

from harness.validate.judge.node_configuration import wrong_proxy_mode
from tests.unit.validate.changes import Judge, finds, passes_a_well_guest_only, put
from tests.unit.validate.guests import Change

JUDGES: tuple[Judge, ...] = (wrong_proxy_mode,)
FAULTS: list[tuple[Judge, Change]] = [
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
