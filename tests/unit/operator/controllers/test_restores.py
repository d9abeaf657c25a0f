"""What an EtcdRestore waits for, and what became of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.kube.objects import condition
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, ETCD_RESTORE, UID_LABEL
from harness.operator.context import OperatorContext, OperatorOptions
from harness.operator.controllers.cluster_view import DeclaredView
from harness.operator.controllers.restores import Restores, restore_status
from tests.unit.fake_cluster import FakeCluster
from tests.unit.operator.controllers import looks
from tests.unit.operator.controllers.backed_up import APPLIED, TAKEN, backup, restore
from tests.unit.operator.controllers.looks import IMAGE, UID, declared, given

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
Json = dict[str, Any]


def view(*restores: Json, deleted: bool = False, spec: Json | None = None, **status: Any) -> DeclaredView:
    """Return what is seen of cluster guest, which has a verified backup."""
    made = looks.looks()
    made.machines._store("ADDED", given("m-0"))
    made.backups._store("ADDED", backup(phase="Verified", taken=TAKEN, location="claim:guest/a.db"))
    for one in restores:
        made.restores._store("ADDED", one)
    found = looks.cluster(**{"applied": APPLIED, "sequence": 1, **status})
    found["metadata"]["labels"] = {UID_LABEL: UID}
    deployment = declared(**(spec or {}))
    if deleted:
        deployment["metadata"]["deletionTimestamp"] = "2026"
    return made.seen(deployment, found)


def past(outcome: str, **more: Any) -> Json:
    """Return the operation that an EtcdRestore asked for."""
    times = {"started": "2026-11-23T11:00:00Z", "ended": "2026-11-23T11:05:00Z"}
    return {"sequence": 2, "operation": "restore", "outcome": outcome, "restoreUid": "uid-undo", **times, **more}


PLACE = {"backup": "a", "claim": "claim", "file": "guest/a.db", "restore": "uid-undo"}
RUNNING = {"sequence": 2, "operation": "restore", "job": "guest-2-restore", "snapshot": PLACE, "started": TAKEN}
FAILED = {"blame": "product", "summary": "no quorum", "hint": "look at etcd"}
# By phase and reason: the EtcdRestore, and what is seen of its cluster.
ROWS: dict[tuple[str, str], tuple[Json, DeclaredView | None]] = {
    ("Pending", "ClusterNotFound"): (restore(), None),
    ("Pending", "ClusterNotFound "): (restore(), view(restore(), deleted=True)),
    ("Pending", "NotDeployed"): (restore(), view(restore(), applied=None)),
    ("Pending", "NotConfirmed"): (restore(confirm=None), view(restore(confirm=None))),
    ("Waiting", "Waiting"): (restore(), view(restore())),
    ("Waiting", "Waiting "): (restore(made="2"), view(restore("first"), restore(made="2"))),
    ("Running", "Running"): (restore(), view(restore(), operation=RUNNING)),
    ("Succeeded", "Restored"): (restore(), view(restore(), history=[past("succeeded")])),
    ("Failed", "RestoreFailed"): (restore(), view(restore(), history=[past("failed", **FAILED)])),
    ("Waiting", "Waiting  "): (restore(), view(restore(), history=[past("failed", blame="infra")])),
    ("Pending", "ConfirmsAnother"): (restore(confirm="x"), view(restore(confirm="x"))),
    ("Waiting", "OperationRunning"): (restore(), view(restore(), operation={"sequence": 2, "operation": "scale"})),
    ("Pending", "ClusterNotFound  "): (restore(source="prod"), None),
    ("Pending", "BackupNotVerified"): (restore(source="prod"), view(restore(source="prod"), applied=None)),
    ("Failed", "TargetBegun"): (restore(source="prod"), view(restore(source="prod"))),
    ("Failed", "SituationChanged"): (restore(way="MajorityLost"), view(restore(way="MajorityLost"))),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_restore_says_where_it_is(row: tuple[str, str]) -> None:
    one, seen = ROWS[row]
    status = restore_status(one, seen, NOW)
    said = condition({"status": status}, "Restored") or {}
    assert (status["phase"], said["reason"]) == (row[0], row[1].strip())
    assert said["status"] == str(row[0] == "Succeeded")
    assert said["message"]
    failed = condition({"status": status}, "Failed")
    assert (failed is not None and failed["message"] == said["message"]) == (row[0] == "Failed")


def test_a_status_says_the_way_the_loss_and_what_is_replaced() -> None:
    status = restore_status(restore(), view(restore()), NOW)
    assert (status["way"], status["lostSince"], status["machines"]) == ("Rollback", TAKEN, ["m-0"])
    begun = restore_status(restore(), view(restore(), operation=RUNNING), NOW)  # before anybody looked
    assert (begun["phase"], begun["way"]) == ("Running", "Rollback")
    assert (begun["lostSince"], begun["machines"]) == (TAKEN, ["m-0"])
    over = restore_status(restore(**status), view(restore(**status), history=[past("succeeded")]), NOW)
    assert f"as EtcdBackup a has it, and what was written since {TAKEN} is lost" in over["conditions"][0]["message"]
    lost = {**status, "way": "MajorityLost", "machines": ["m-1", "m-2"]}
    recovered = past("succeeded", operation="recover")
    over = restore_status(restore(**lost), view(restore(**lost), history=[recovered]), NOW)
    assert over["conditions"][0]["message"].endswith("is lost; without m-1, m-2")
    assert restore_status(restore(), view(restore(), history=[recovered]), NOW)["way"] == "MajorityLost"
    lost |= {"way": "AllLost"}
    rebuilt = past("succeeded", operation="rebuild")
    over = restore_status(restore(**lost), view(restore(**lost), history=[rebuilt]), NOW)
    assert over["conditions"][0]["message"].endswith("is lost; without m-1, m-2")
    assert restore_status(restore(), view(restore(), history=[rebuilt]), NOW)["way"] == "AllLost"


def test_one_that_waits_for_its_cluster_says_for_what() -> None:
    found = view(restore(), spec={"paused": True})
    assert condition({"status": restore_status(restore(), found, NOW)}, "Restored") is not None
    assert "it waits: spec.paused is true" in restore_status(restore(), found, NOW)["conditions"][0]["message"]


def test_one_that_waits_for_another_names_it() -> None:
    first, one = restore("first"), restore(made="2")
    status = restore_status(one, view(first, one), NOW)
    assert f"EtcdRestore {first['metadata']['name']} comes first: delete it" in status["conditions"][0]["message"]


def test_one_that_ended_says_by_which_operation_and_stays_so() -> None:
    ended = restore_status(restore(), view(restore(), history=[past("succeeded")]), NOW)
    assert (ended["operation"], ended["ended"]) == (2, "2026-11-23T11:05:00Z")
    assert restore_status(restore(**ended), None, NOW) == ended
    assert restore_status(restore(**{**ended, "phase": "Failed"}), view(restore()), NOW)["phase"] == "Failed"
    failed = restore_status(restore(), view(restore(), history=[past("failed", **FAILED)]), NOW)
    assert "restore failed: no quorum; look at etcd; make another EtcdRestore" in failed["conditions"][0]["message"]


def test_the_status_is_written_once_and_the_end_is_an_event() -> None:
    deployment, state = declared(), looks.cluster(applied=APPLIED, sequence=2, history=[past("succeeded")])
    state["metadata"]["labels"] = {UID_LABEL: UID}
    fake = FakeCluster({ETCD_RESTORE: [restore()]})
    context = OperatorContext.of(fake, Path("none"), options=OperatorOptions(IMAGE))
    controller = Restores(context)
    for kind, obj in ((CLUSTER_DEPLOYMENT, deployment), (CLUSTER, state), (ETCD_RESTORE, restore())):
        context.informers.of(kind)._store("ADDED", obj)
    key = ("default", "guest")
    assert controller.reconcile(key) is None
    written = fake.get(ETCD_RESTORE, "undo", "default") or {}
    assert written["status"]["phase"] == "Succeeded"
    context.informers.of(ETCD_RESTORE)._store("MODIFIED", written)
    assert controller.reconcile(key) is None
    assert (fake.get(ETCD_RESTORE, "undo", "default") or {})["metadata"] == written["metadata"]
