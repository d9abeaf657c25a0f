"""EtcdPeers: what a look into a member's machine says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from harness.kube.objects import condition
from harness.machines.programs import Inspected
from harness.operator.api.resources import KIND_LABEL
from harness.operator.controllers.declarations import of_etcd
from harness.operator.controllers.etcdpeers import peer_object, peer_status, raft_of
from harness.operator.controllers.ssh import ProbeTrouble, TroubleReason

NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
SAID = """\
etcd_server_is_leader 0
etcd_server_is_learner 1
etcd_server_id{server_id="8e9e05c52164694d"} 1
etcd_server_proposals_applied_total 1.2e+06"""
FOUND = Inspected({}, {}, "", "", SAID)
CLUSTER = {"metadata": {"name": "store", "namespace": "default", "labels": {KIND_LABEL: "EtcdCluster"}}}


def machine(**etcd: Any) -> dict[str, Any]:
    """Return a Machine whose member says this of itself."""
    return {"metadata": {"name": "m-0", "namespace": "default", "uid": "u"}, "status": {"etcd": etcd or None}}


def said(status: dict[str, Any]) -> tuple[str, str]:
    found = condition({"status": status}, "Ready") or {}
    return found["status"], found["reason"]


def test_a_peer_goes_with_its_machine() -> None:
    made = peer_object(machine(), CLUSTER)
    assert made["spec"] == {"cluster": "store", "machine": "m-0"}
    assert [(one["kind"], one["uid"]) for one in made["metadata"]["ownerReferences"]] == [("Machine", "u")]
    assert of_etcd(CLUSTER)
    assert not of_etcd({"metadata": {"name": "guest"}})


def test_metrics_say_who_a_member_is() -> None:
    assert raft_of(FOUND) == {
        "memberID": "8e9e05c52164694d",
        "role": "Learner",
        "leader": False,
        "raftIndex": 1200000,
    }
    assert raft_of(Inspected()) == {}


@pytest.mark.parametrize(
    ("etcd", "found", "status", "reason"),
    [
        ({"hasLeader": True, "alarm": ""}, Inspected(), "True", "Serving"),
        ({"hasLeader": True, "alarm": ""}, FOUND, "False", "Learner"),
        ({"hasLeader": False, "alarm": ""}, FOUND, "False", "NoLeader"),
        ({"hasLeader": True, "alarm": "NOSPACE"}, FOUND, "False", "Alarm"),
        ({}, Inspected(), "False", "NotRunning"),
    ],
)
def test_it_is_ready_while_it_serves(etcd: dict[str, Any], found: Inspected, status: str, reason: str) -> None:
    assert said(peer_status({}, machine(**etcd), found, 0, NOW)) == (status, reason)


def test_what_was_seen_stays_while_its_machine_is_silent() -> None:
    before = peer_status({}, machine(hasLeader=True, sizeMiB=8), Inspected(), 0, NOW)
    silent = ProbeTrouble(TroubleReason.UNREACHABLE, "no route to host")
    assert peer_status(before, machine(), silent, 1, NOW) == before, "one login may have met a moment of trouble"
    after = peer_status(before, machine(), silent, 2, NOW)
    assert after["sizeMiB"] == 8
    assert said(after) == ("Unknown", "MachineSilent")
