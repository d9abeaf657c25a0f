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
