"""etcd as its members tell it: what is wrong, and when a defragmentation is worth it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.operator.api.machine import MachineEtcd
from harness.operator.decide.etcd import MEBIBYTES, health
from harness.operator.decide.observed import Observed, begun, ended
from harness.operator.decide.operations import Nothing, next_operation, plan
from tests.unit.operator.api.objects import wanted_set
from tests.unit.operator.decide.wishes import claimed, deployed, operation, wait, wish

PLANES = tuple(claimed(f"p-{number}", "cp") for number in range(3))
STACKED = wish(wanted_set("cp", "control-plane", "worker", replicas=3), machines=PLANES)
WELL: dict[str, Any] = {"size_mib": 200, "free_mib": 16, "quota_mib": 2048, "fsync_milliseconds": 8}


def world(*, down: str = "", **of_last: Any) -> Observed:
    """Return a world whose last member says something else than the others; `down`: of that member."""
    members = {name: MachineEtcd(**WELL) for name in ("p-0", "p-1")} | {"p-2": MachineEtcd(**{**WELL, **of_last})}
    return replace(deployed(STACKED), etcd=members, ill={"p-2": down} if down else {})


REASONS: dict[str, dict[str, Any]] = {
    "Corrupt": {"alarm": "CORRUPT"},
    "NoSpace": {"alarm": "NOSPACE"},
    "OtherAlarm": {"alarm": "MELTED"},
    "NoLeader": {"has_leader": False},
    "QuotaAlmostUsed": {"size_mib": 1640},
    "SlowDisk": {"fsync_milliseconds": 128},
    "SlowPeers": {"round_trip_milliseconds": 205},
}


@pytest.mark.parametrize("reason", REASONS)
def test_what_is_wrong_names_the_member(reason: str) -> None:
    found = health(world(**REASONS[reason]))
    assert (found.healthy, found.reason) == (False, reason)
    assert "p-2" in found.message
    assert "p-1" not in found.message


def test_all_is_well_or_nobody_knows() -> None:
    assert health(world()).healthy is True
    assert health(deployed(STACKED)).healthy is None


# By what the last member says: whether etcd is defragmented, and why.
WORTH: dict[str, tuple[dict[str, Any], str]] = {
    "well": ({}, ""),
    "few bytes": ({"size_mib": 96, "free_mib": 80}, ""),
    "few percent": ({"size_mib": 1000, "free_mib": 200}, ""),
    "loose": ({"size_mib": 400, "free_mib": 120}, "120 MiB of 400 MiB of p-2's etcd are free"),
    "full": ({"alarm": "NOSPACE"}, "etcd takes no writes: alarm NOSPACE of p-2"),
    "corrupt": ({"alarm": "CORRUPT", "size_mib": 400, "free_mib": 300}, ""),
    "no leader": ({"has_leader": False, "size_mib": 400, "free_mib": 300}, ""),
    "down": ({"down": "it answers no login", "size_mib": 400, "free_mib": 300}, ""),
}


@pytest.mark.parametrize("row", WORTH)
def test_etcd_is_defragmented_where_it_is_worth_it(row: str) -> None:
    given, why = WORTH[row]
    found = next_operation(STACKED, world(**given))
    if not why:
        assert isinstance(found, Nothing), found
        return
    assert (operation(found).operation, operation(found).why) == ("defragment", why)
    assert operation(found).machines == ("p-0", "p-1", "p-2")
    assert [step.why for step in plan(STACKED, world(**given))] == [why]


@pytest.mark.parametrize("given", [{"down": "it answers no login"}, {"has_leader": False}])
def test_a_full_etcd_waits_for_every_member(given: dict[str, Any]) -> None:
    found = wait(next_operation(STACKED, world(alarm="NOSPACE", **given)))
    assert found.reason == "MajorityAtRisk"
    assert "etcd is defragmented only while every member is well (p-2: " in found.message


def test_a_member_that_was_not_looked_into_is_a_reason_to_wait() -> None:
    seen = world(alarm="NOSPACE")
    unseen = replace(seen, etcd={name: one for name, one in seen.etcd.items() if name != "p-1"})
    assert "p-1: nothing was seen" in wait(next_operation(STACKED, unseen)).message


def test_variables_say_what_is_worth_it() -> None:
    one = wish(wanted_set("cp", "control-plane", "worker", replicas=3), machines=PLANES, variables={MEBIBYTES[0]: 1000})
    loose = replace(deployed(one), etcd=world(size_mib=400, free_mib=300).etcd)
    assert isinstance(next_operation(one, loose), Nothing)


def test_what_was_seen_before_the_end_counts_no_more_and_does_not_repeat_it() -> None:
    before = world(size_mib=400, free_mib=300)
    after = ended(begun(before, operation(next_operation(STACKED, before))))
    assert after.etcd == {}
    assert isinstance(next_operation(STACKED, replace(after, etcd=before.etcd)), Nothing)
