"""The status of an EtcdBackup, from its cluster's and from its claim."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from harness.kube.objects import condition
from harness.operator.controllers.backup_claim import ClaimTrouble
from harness.operator.controllers.backup_status import backup_status, kept_status
from harness.operator.controllers.cluster_view import DeclaredView
from tests.unit.operator.controllers.backed_up import backup, view
from tests.unit.operator.controllers.looks import UID

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TAKEN = {"backup": "a", "uid": "uid-a", "claim": "claim", "file": "guest/a.db", "revision": 7, "sizeBytes": 20}
WAITING = {"phase": "Waiting", "location": "claim:guest/a.db"}


def said(found: dict[str, Any], seen: DeclaredView | None, trouble: ClaimTrouble | None = None) -> tuple[str, str, str]:
    """Return the phase, and reason and message of the condition Verified."""
    status = backup_status(found, seen, trouble, NOW)
    words = condition({"status": status}, "Verified")
    assert words is not None
    return status["phase"], words["reason"], words["message"]


def failed(one: dict[str, Any], **entry: Any) -> DeclaredView:
    """Return the cluster after a backup of this EtcdBackup failed."""
    meta = one["metadata"]
    past = {"sequence": 2, "operation": "backup", "backup": meta["name"], "backupUid": meta["uid"], "outcome": "failed"}
    return view(one, sequence=2, history=[{**past, **entry}])


def test_backup_that_can_be_taken_waits_and_knows_where_it_will_lie() -> None:
    status = backup_status(backup(), view(), None, NOW)
    assert (status["phase"], status["location"]) == ("Waiting", "claim:guest/a.db")


def test_claim_of_the_cluster_is_the_default() -> None:
    policy = {"destination": {"claim": "default"}}
    status = backup_status(backup(claim=None), view(policy=policy), None, NOW)
    assert status["location"] == "default:guest/a.db"
    assert said(backup(claim=None), view())[:2] == ("Pending", "NoDestination")


def test_what_it_lacks_is_said_with_a_remedy() -> None:
    trouble = ClaimTrouble("ClaimNotFound", "there is no PersistentVolumeClaim claim: create it")
    assert said(backup(**WAITING), view(), trouble) == ("Pending", trouble.reason, trouble.message)
    assert "location" not in backup_status(backup(**WAITING), view(), trouble, NOW)
    assert said(backup(), None)[:2] == ("Pending", "ClusterNotFound")
    assert said(backup(), view(applied=None))[:2] == ("Pending", "NotDeployed")


def test_backup_that_an_executor_takes_is_running() -> None:
    place = {name: TAKEN[name] for name in ("backup", "uid", "claim", "file")}
    running = {"sequence": 2, "operation": "backup", "job": "guest-2-backup", "snapshot": place}
    found = said(backup(**WAITING), view(backup(**WAITING), operation=running))
    assert found == ("Running", "Running", "Job guest-2-backup takes it")


def test_backup_that_was_taken_is_verified_and_stays_so() -> None:
    one = backup(**WAITING)
    status = backup_status(one, view(one, snapshots=[TAKEN]), None, NOW)
    facts = (status["phase"], status["revision"], status["sizeBytes"], status["clusterUid"], status["verified"])
    assert facts == ("Verified", 7, 20, UID, "2026-01-01T00:00:00Z")
    assert backup_status({**one, "status": status}, None, None, datetime(2027, 1, 1, tzinfo=UTC)) == status


def test_failure_of_the_infrastructure_is_tried_again() -> None:
    one = backup(**WAITING)
    seen = failed(one, blame="infra", summary="no answer")
    assert said(one, seen) == ("Waiting", "RetryLater", "backup failed: no answer; it is tried again")
    assert said(one, failed(one, blame="infra", attempt=3))[0] == "Failed"


def test_failure_of_the_playbook_is_final_and_says_how_to_go_on() -> None:
    one = backup(**WAITING)
    seen = failed(one, blame="product", task="Save", host="m-0", summary="no space", hint="make room")
    status = backup_status(one, seen, None, NOW)
    assert status["phase"] == "Failed"
    words = condition({"status": status}, "Failed")
    assert words is not None
    assert words["status"] == "True"
    assert words["message"] == (
        "backup failed at task 'Save' on m-0: no space; make room; make another EtcdBackup to try again"
    )
    assert said({**one, "status": status}, view())[0] == "Failed"


def test_outcome_of_another_backup_is_not_its_own() -> None:
    seen = failed(backup("b", phase="Waiting", location="claim:guest/b.db"), blame="product")
    assert said(backup(**WAITING), seen)[0] == "Waiting"


LIES = {"location": "claim:guest/a.db", "phase": "Verified"}


def claim(volume: str | None = "pv-1") -> dict[str, Any]:
    return {"metadata": {"name": "claim"}, "spec": {"volumeName": volume} if volume else {}}


def test_a_snapshot_is_there_as_long_as_its_claim_has_its_volume() -> None:
    there = kept_status(backup(**LIES), claim(), NOW)
    assert (there["phase"], there["volume"]) == ("Verified", "pv-1")
    assert kept_status(backup(**there), claim(), NOW) == there
    for now, words in (
        (None, "PersistentVolumeClaim claim, in which the snapshot lies, is gone: "),
        (claim("pv-2"), "PersistentVolumeClaim claim has volume pv-2, and the snapshot lies in pv-1: "),
        (claim(None), "PersistentVolumeClaim claim has no volume, and the snapshot lies in pv-1: "),
    ):
        gone = kept_status(backup(**there), now, NOW)
        said_of_it = condition({"status": gone}, "Verified") or {}
        assert (gone["phase"], said_of_it["status"], said_of_it["reason"]) == ("Missing", "False", "Missing")
        assert said_of_it["message"] == f"{words}bind the claim to that volume again, or make another EtcdBackup"
        assert kept_status(backup(**gone), now, NOW) == gone
        back = kept_status(backup(**gone), claim(), NOW)
        assert (back["phase"], (condition({"status": back}, "Verified") or {})["status"]) == ("Verified", "True")
