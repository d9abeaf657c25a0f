"""Which claims a snapshot can be put into, and what is said of the others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from harness.kube.objects import condition
from harness.operator.controllers.backups import (
    ClaimTrouble,
    backup_status,
    class_of,
    kept_status,
    owners,
    surplus,
    to_make,
    trouble_of,
)
from harness.operator.controllers.cluster_view import DeclaredView
from tests.unit.operator.controllers.backed_up import APPLIED, backup, view
from tests.unit.operator.controllers.looks import UID


def claim(phase: str | None = "Pending", deleted: str | None = None) -> dict[str, Any]:
    """Return a PersistentVolumeClaim."""
    meta = {"name": "c", **({"deletionTimestamp": deleted} if deleted else {})}
    return {"metadata": meta, "spec": {"storageClassName": "pods"}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("found", "binding"),
    [
        (claim("Bound"), "Immediate"),
        (claim(), "WaitForFirstConsumer"),
        (claim(None), "WaitForFirstConsumer"),
        (claim(), None),
    ],
)
def test_claim_that_a_pod_can_use(found: dict[str, Any], binding: str | None) -> None:
    assert trouble_of("c", found, binding) is None


@pytest.mark.parametrize(
    ("found", "binding", "reason", "words"),
    [
        (None, None, "ClaimNotFound", "there is no PersistentVolumeClaim c: create it in this namespace"),
        (claim(), "Immediate", "ClaimNotBound", "c is Pending, and no pod can use it: `kubectl describe pvc c`"),
        (claim("Lost"), "WaitForFirstConsumer", "ClaimNotBound", "c is Lost"),
        (claim("Bound", deleted="2026"), None, "ClaimNotBound", "is being deleted: make another EtcdBackup"),
    ],
)
def test_claim_that_no_pod_can_use(found: Any, binding: str | None, reason: str, words: str) -> None:
    trouble = trouble_of("c", found, binding)
    assert trouble is not None
    assert trouble.reason == reason
    assert words in trouble.message


def test_only_a_claim_without_a_volume_waits_for_its_class() -> None:
    assert [class_of(one) for one in (None, claim("Bound"), claim())] == [None, None, "pods"]


POLICY = {"beforeDisruption": True, "destination": {"claim": "claim"}}
OLDER = {**APPLIED, "version": "1.36.1", "digests": {"version": "old"}}
EARLIER = {"sequence": 1, "operation": "upgrade", "outcome": "succeeded", "ended": "2026-01-02T00:00:00Z"}


def upgrading(*backups: dict[str, Any], **status: Any) -> DeclaredView:
    """Return a cluster that is to be upgraded after a backup."""
    return view(*backups, policy=POLICY, **{"applied": OLDER, **status})


def wished() -> str:
    """Return the digest of its wish."""
    desired = upgrading().desired
    assert desired is not None
    return desired.digest


def test_backup_is_made_for_an_upgrade_that_waits_for_it() -> None:
    made = to_make(upgrading(), [])
    assert made is not None
    assert made["metadata"]["name"].startswith("guest-before-2-")
    assert made["metadata"]["labels"]["cluster.vmatrix.dev/before"] == wished()
    assert made["spec"] == {"cluster": "guest"}
    assert to_make(upgrading(), [made]) is None


def test_no_backup_is_made_where_nothing_waits_for_it() -> None:
    assert to_make(view(policy=POLICY, applied=None), []) is None
    assert to_make(view(applied=OLDER), []) is None
    assert to_make(upgrading(backup(before=wished(), phase="Verified", taken="2026-01-03T00:00:00Z")), []) is None


def test_backup_before_an_earlier_upgrade_to_the_same_does_not_count() -> None:
    old = backup(before=wished(), phase="Verified", taken="2026-01-01T00:00:00Z")
    assert to_make(upgrading(old, history=[EARLIER]), [old]) is not None


def test_latest_of_its_own_are_kept_and_all_of_a_persons() -> None:
    own = [backup(f"o-{n}", before="d", made=str(n), phase="Verified") for n in range(4)]
    bad = [backup(f"f-{n}", before="d", made=str(n), phase="Failed") for n in range(3)]
    running = backup("r", before="d", made="0", phase="Running")
    hers = [backup(f"h-{n}", made="0", phase="Verified") for n in range(5)]
    desired = view(policy={**POLICY, "keep": 2}).desired
    assert desired is not None
    gone = [one["metadata"]["name"] for one in surplus([*own, *bad, running, *hers], desired)]
    assert gone == ["o-1", "o-0", "f-0"]


def test_backup_goes_with_its_cluster_only_where_the_object_says_so() -> None:
    one, kept = backup(), view()
    bound = view(spec={"deletion": {"backups": "Delete"}})
    (owner,) = owners(one, bound)
    assert (owner["kind"], owner["uid"]) == ("ClusterDeployment", UID)
    assert owners({**one, "metadata": {**one["metadata"], "ownerReferences": [owner]}}, kept) == []
    assert owners(backup(clusterUid="of-an-earlier-cluster"), bound) == []


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


def bound_claim(volume: str | None = "pv-1") -> dict[str, Any]:
    return {"metadata": {"name": "claim"}, "spec": {"volumeName": volume} if volume else {}}


def test_a_snapshot_is_there_as_long_as_its_claim_has_its_volume() -> None:
    there = kept_status(backup(**LIES), bound_claim(), NOW)
    assert (there["phase"], there["volume"]) == ("Verified", "pv-1")
    assert kept_status(backup(**there), bound_claim(), NOW) == there
    for now, words in (
        (None, "PersistentVolumeClaim claim, in which the snapshot lies, is gone: "),
        (bound_claim("pv-2"), "PersistentVolumeClaim claim has volume pv-2, and the snapshot lies in pv-1: "),
        (bound_claim(None), "PersistentVolumeClaim claim has no volume, and the snapshot lies in pv-1: "),
    ):
        gone = kept_status(backup(**there), now, NOW)
        said_of_it = condition({"status": gone}, "Verified") or {}
        assert (gone["phase"], said_of_it["status"], said_of_it["reason"]) == ("Missing", "False", "Missing")
        assert said_of_it["message"] == f"{words}bind the claim to that volume again, or make another EtcdBackup"
        assert kept_status(backup(**gone), now, NOW) == gone
        back = kept_status(backup(**gone), bound_claim(), NOW)
        assert (back["phase"], (condition({"status": back}, "Verified") or {})["status"]) == ("Verified", "True")
