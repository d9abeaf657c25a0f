from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from harness.operator.controllers.machineset import beyond_help, executions, status_of
from tests.unit.operator.api.objects import wanted_set
from tests.unit.operator.controllers.backed_up import restore
from tests.unit.operator.controllers.objects import CLAIM, UID, cluster, condition, idle, machine, past

Json = dict[str, Any]
OWNER = {"name": "one", "uid": UID, "controller": True}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def claimed(name: str, phase: str) -> Json:
    found = idle(name, claim=CLAIM)
    found["status"]["phase"] = phase
    return found


def test_a_set_counts_its_machines() -> None:
    phases = ("Claimed", "Deploying", "Deployed", "Ready", "NotReady", "Failed")
    machines = [claimed(f"m-{number}", phase) for number, phase in enumerate(phases)]
    meta = {"generation": 3, "ownerReferences": [OWNER]}
    body = {"metadata": meta, "spec": wanted_set("cp", "worker", replicas=7)}
    status = status_of(body, [*machines, idle("m-9")], cluster(), NOON)
    assert {name: status[name] for name in ("wanted", "claimed", "deployed", "ready", "observedGeneration")} == {
        "wanted": 7,
        "claimed": 6,
        "deployed": 3,
        "ready": 1,
        "observedGeneration": 3,
    }
    (said,) = status["conditions"]
    assert (said["status"], said["reason"]) == ("False", "TooFewMachines")
    assert said["message"] == "waiting for 1 more machine with labels rack=a: 1 exists, 1 is Idle (m-9)"


def in_zone(name: str, zone: str, **more: Any) -> Json:
    found = idle(name, **more)
    found["metadata"]["labels"] = {"rack": "a", "topology.kubernetes.io/zone": zone}
    return found


def test_a_set_that_is_to_be_spread_says_whether_it_is_and_forgets_it_when_it_is_not_asked_any_more() -> None:
    own = [in_zone(name, "a", claim=CLAIM) for name in ("m-0", "m-1")]
    spec = {**wanted_set("cp", "worker", replicas=2), "failureDomains": {"policy": "Preferred"}}
    body: Json = {"metadata": {"generation": 3, "ownerReferences": [OWNER]}, "spec": spec}
    status = status_of(body, [*own, in_zone("m-2", "b")], cluster(), NOON)
    said = {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}
    assert said == {"MachinesClaimed": ("True", "Claimed"), "Spread": ("False", "TooManyInOne")}
    after = {**body, "spec": wanted_set("cp", "worker", replicas=2), "status": status}
    assert [one["type"] for one in status_of(after, own, cluster(), NOON)["conditions"]] == ["MachinesClaimed"]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, None),
        (cluster(), None),
        (cluster(operation={"operation": "deploy", "job": "one-1-deploy"}), "one-1-deploy"),
        (cluster(history=(past("deploy", "failed"),)), "deploy 1: failed"),
    ],
)
def test_a_set_says_what_was_done_last(found: Json | None, said: str | None) -> None:
    assert executions(found) == said


STACKED = {"cp-0": ["control_plane", "etcd"], "w-0": ["node"]}
APART = {"cp-0": ["control_plane"], "db-0": ["etcd"], "db-1": ["etcd"], "db-2": ["etcd"]}
MADE, OWN = {"usable": True, "reason": "Valid", "message": ""}, None
GONE = {"usable": False, "reason": "SecretMissing", "message": "Secret one-ca is gone"}
OF_ONE, OF_ANOTHER = {"cluster": "one", "backup": "a"}, {"cluster": "two", "backup": "a"}
# By what was deployed, what is lost of it, the CAs, and the EtcdRestores: what the sets say instead of claiming.
HELP: dict[str, tuple[Json, tuple[str, ...], Json | None, tuple[Json, ...], str]] = {
    "nothing is lost": (STACKED, (), MADE, (), ""),
    "a worker is lost": (STACKED, ("w-0",), MADE, (), ""),
    "all are lost": (STACKED, ("cp-0",), MADE, (), "once an EtcdRestore asks for that: make one"),
    "somebody restores": (STACKED, ("cp-0",), MADE, (OF_ONE,), ""),
    "somebody restores another": (STACKED, ("cp-0",), MADE, (OF_ANOTHER,), "once an EtcdRestore asks for that"),
    "it was restored": (STACKED, ("cp-0",), MADE, ({**OF_ONE, "phase": "Succeeded"},), "once an EtcdRestore asks"),
    "the machines made the CAs": (STACKED, ("cp-0",), OWN, (OF_ONE,), "without the keys of the cluster's CAs"),
    "a Secret is gone": (STACKED, ("cp-0",), GONE, (OF_ONE,), "cannot be used: Secret one-ca is gone"),
    "etcd is left": (APART, ("cp-0", "db-0"), MADE, (), ""),
    "etcd is lost too": (APART, ("cp-0", "db-0", "db-1"), MADE, (), "once an EtcdRestore asks for that"),
    "etcd alone is lost": (APART, ("db-0", "db-1", "db-2"), MADE, (), ""),
}


@pytest.mark.parametrize("case", HELP)
def test_a_cluster_that_lost_all_control_planes_claims_others_once_they_are_of_use(case: str) -> None:
    groups, lost, authority, asked, words = HELP[case]
    found = cluster(*groups)
    found["status"]["applied"] |= {"digest": "d", "version": "1.36.3"}
    key = {"name": "keys", "key": "k"}
    place = {"set": "cp", "address": "192.0.2.1", "port": 22, "user": "root", "key": key}
    found["status"]["applied"]["hosts"] = [
        {"name": name, "machine": name, "groups": of, **place} for name, of in groups.items()
    ]
    found["status"]["authority"] = authority
    gone = condition("InfrastructureReady", "False", "Lost")
    machines = [machine(name, *([gone] if name in lost else [])) for name in groups]
    restores = [{**restore(), "spec": one, "status": {"phase": one.get("phase")}} for one in asked]
    said = beyond_help(found, machines, restores)
    assert (words in said, bool(said)) == (True, bool(words)), said
