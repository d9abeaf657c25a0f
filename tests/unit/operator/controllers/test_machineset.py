from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from harness.operator.controllers.machineset import executions, status_of
from tests.unit.operator.api.objects import wanted_set
from tests.unit.operator.controllers.objects import CLAIM, UID, cluster, idle, past

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
