"""Which claims a snapshot can be put into, and what is said of the others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.kube.objects import condition, stamp
from harness.kube.resources import EVENT
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, ETCD_BACKUP, MACHINE, SCHEDULED_LABEL, UID_LABEL
from harness.operator.context import OperatorContext, OperatorOptions
from harness.operator.controllers.backups import (
    Backups,
    ClaimTrouble,
    backup_status,
    class_of,
    is_under_way,
    kept_status,
    owners,
    surplus,
    to_make,
    trouble_of,
    with_proof,
)
from harness.operator.controllers.cluster_view import DeclaredView
from tests.unit.fake_cluster import FakeCluster
from tests.unit.operator.controllers import looks
from tests.unit.operator.controllers.backed_up import APPLIED, backup, view
from tests.unit.operator.controllers.looks import IMAGE, UID, declared, given


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


def own(name: str, number: int, phase: str, label: str = "before", **more: Any) -> dict[str, Any]:
    """Return the EtcdBackup of a number that the operator made; a day lies between two numbers."""
    day = stamp(TODAY - timedelta(days=9 - number))
    taken = {"taken": day} if phase in ("Verified", "Missing") else {}
    made = backup(f"{name}-{number}", before="d" * (label == "before"), made=day, phase=phase, **taken, **more)
    if label == "scheduled":
        made["metadata"]["labels"] = {SCHEDULED_LABEL: str(number)}
    return made


TODAY = datetime(2026, 1, 10, tzinfo=UTC)
HERS = [backup(f"h-{n}", made=stamp(TODAY - timedelta(days=99)), phase="Verified") for n in range(5)]
# The policy, the EtcdBackups, and which of them go.
SURPLUS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[str]]] = {
    "all but the latest of each end": (
        {"keep": 2},
        [own("o", n, "Verified") for n in range(4)] + [own("f", n, "Failed") for n in range(3)],
        ["o-1", "o-0", "f-0"],
    ),
    "upgrades and schedules each have their own": (
        {"keep": 2},
        [own("u", n, "Verified") for n in range(3)] + [own("s", n, "Verified", "scheduled") for n in range(3)],
        ["u-0", "s-0"],
    ),
    "what a person made stays": ({"keep": 1, "maxAgeHours": 1}, HERS, []),
    "what runs stays": ({"keep": 1}, [own("r", n, p) for n, p in enumerate(("Running", "Waiting", "Pending"))], []),
    "the old": (
        {"keep": 9, "maxAgeHours": 25},
        [own("s", n, "Verified", "scheduled") for n in (6, 7, 8, 9)] + [own("m", 7, "Missing", "scheduled")],
        ["s-7", "s-6", "m-7"],
    ),
    "the newest verified one stays however old": (
        {"keep": 1, "maxAgeHours": 1},
        [own("s", 1, "Verified", "scheduled"), own("f", 2, "Failed", "scheduled"), own("m", 3, "Missing")],
        ["m-3", "f-2"],
    ),
    "what is to be restored stays": (
        {"keep": 1},
        [own("restored", 0, "Verified"), *(own("s", n, "Verified") for n in (1, 2))],
        ["s-1"],
    ),
    "those of an earlier cluster outlive it": (
        {"keep": 1, "maxAgeHours": 1},
        [own("e", n, "Verified", "scheduled", clusterUid="earlier") for n in range(3)],
        [],
    ),
}


@pytest.mark.parametrize("case", SURPLUS)
def test_what_goes_of_the_operators_own(case: str) -> None:
    policy, backups, gone = SURPLUS[case]
    found = view(spec={"etcd": {"backup": policy}}).desired
    assert found is not None
    assert [one["metadata"]["name"] for one in surplus(backups, found, TODAY, "restored-0")] == gone


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


def test_a_snapshot_whose_file_an_executor_did_not_find_is_missing_until_it_is_back() -> None:
    gone = kept_status(backup(**LIES), bound_claim(), NOW, absent=True)
    assert gone["phase"] == "Missing"
    message = (condition({"status": gone}, "Verified") or {})["message"]
    assert message.startswith("guest/a.db is gone from PersistentVolumeClaim claim: put it back")
    assert kept_status(backup(**gone), bound_claim(), NOW)["phase"] == "Verified"


S3 = {"bucket": "backups", "prefix": "etcd", "endpoint": "https://s3.test", "secretRef": {"name": "keys"}}
URL = "https://s3.test/backups/etcd"


def in_bucket(**status: Any) -> dict[str, Any]:
    """Return an EtcdBackup whose snapshot goes into a bucket."""
    made = backup(claim=None, **status)
    return {**made, "spec": {**made["spec"], "destination": {"s3": S3}}}


def test_a_backup_into_a_bucket_knows_where_it_will_lie() -> None:
    status = backup_status(in_bucket(), view(), None, NOW)
    assert (status["phase"], status["location"]) == ("Waiting", f"{URL}:guest/a.db")
    assert (status["s3"]["bucket"], status["s3"]["secretRef"]) == ("backups", {"name": "keys"})
    one = in_bucket(**status)
    (due,) = view(one).observed.backups
    assert (due.state, due.claim, due.file, due.snapshot().store) == ("due", "", "guest/a.db", URL)
    defaulted = backup_status(backup(claim=None), view(policy={"destination": {"s3": S3}}), None, NOW)
    assert defaulted["location"] == f"{URL}:guest/a.db"


def test_a_backup_in_a_bucket_needs_no_claim_and_follows_its_object() -> None:
    waiting = in_bucket(**backup_status(in_bucket(), view(), None, NOW))
    entry = {"backup": "a", "uid": "uid-a", "s3": S3, "file": "guest/a.db", "revision": 7}
    status = backup_status(waiting, view(waiting, snapshots=[entry]), None, NOW)
    assert (status["phase"], status["location"], status["s3"]) == ("Verified", f"{URL}:guest/a.db", S3)
    assert kept_status(in_bucket(**status), None, NOW) == status
    gone = kept_status(in_bucket(**status), None, NOW, absent=True)
    message = (condition({"status": gone}, "Verified") or {})["message"]
    assert (gone["phase"], message) == ("Missing", f"guest/a.db is gone from {URL}: make another EtcdBackup")
    assert kept_status(in_bucket(**gone), None, NOW)["phase"] == "Verified"


def test_what_a_bucket_keeps_locked_is_said_and_not_tried_again_before_its_time() -> None:
    one = in_bucket(**backup_status(in_bucket(), view(), None, NOW))
    entry = {"backup": "a", "uid": "uid-a", "s3": S3, "file": "guest/a.db"}
    locked = {**entry, "backup": "old", "uid": "uid-old", "file": "guest/old.db", "lockedUntil": "2999-01-01T00:00:00Z"}
    seen = view(one, snapshots=[entry, locked])
    words = condition({"status": backup_status(one, seen, None, NOW)}, "Pruned") or {}
    assert (words["status"], words["reason"]) == ("False", "ObjectLocked")
    assert "guest/old.db until 2999-01-01T00:00:00Z" in words["message"]
    assert seen.observed.backups[0].forget == ()
    past = view(one, snapshots=[entry, {**locked, "lockedUntil": "2020-01-01T00:00:00Z"}])
    assert past.observed.backups[0].forget == ("guest/old.db",)


@pytest.mark.parametrize(
    ("blame", "attempt", "phase"), [("infra", 1, "Waiting"), ("infra", 3, "Failed"), ("user", 1, "Failed")]
)
def test_the_kind_of_a_failure_is_the_reason_and_its_blame_decides_whether_it_is_repeated(
    blame: str, attempt: int, phase: str
) -> None:
    one = backup(**WAITING)
    seen = failed(one, blame=blame, attempt=attempt, reason="StoreFull", summary="no room", hint="make room")
    found, reason, message = said(one, seen)
    assert (found, reason) == (phase, "StoreFull")
    assert "no room" in message
    assert "make room" in message


SINCE = "2026-01-01T00:00:00Z"


class ScheduledCluster:
    """A cluster with a schedule of every minute, as an API server has it, and managers that look at it."""

    def __init__(self, *backups: dict[str, Any], **state: Any) -> None:
        policy = {"schedule": "* * * * *", "destination": {"claim": "claim"}}
        words = {"schedule": "* * * * *", "timeZone": "Etc/UTC", "since": SINCE, **state}
        found = looks.cluster(applied=APPLIED, sequence=1, backupSchedule=words)
        found["metadata"] |= {"labels": {UID_LABEL: UID}, "uid": "u"}
        self.objects = {
            CLUSTER: [found],
            CLUSTER_DEPLOYMENT: [declared(etcd={"backup": policy})],
            MACHINE: [given("m-0")],
            ETCD_BACKUP: list(backups),
        }
        self.api = FakeCluster(self.objects)

    def manager(self) -> Backups:
        """Return a manager whose local copies are as old as the test."""
        context = OperatorContext.of(self.api, Path("none"), options=OperatorOptions(IMAGE))
        made = Backups(context)
        for kind, objects in self.objects.items():
            for one in objects:
                context.informers.of(kind)._store("ADDED", one)
        return made

    @property
    def made(self) -> list[dict[str, Any]]:
        return [one for one in self.api.all(ETCD_BACKUP) if SCHEDULED_LABEL in one["metadata"].get("labels", {})]


KEY = ("default", "guest")


def test_two_managers_make_one_backup_for_a_time_and_remember_it() -> None:
    there = ScheduledCluster()
    seconds = there.manager().reconcile(KEY)
    assert seconds is not None
    assert 0 <= seconds <= 60
    (made,) = there.made
    which = made["metadata"]["labels"][SCHEDULED_LABEL]
    assert made["metadata"]["name"] == f"guest-{which}"
    assert made["spec"] == {"cluster": "guest"}
    state = there.api.all(CLUSTER)[0]["status"]["backupSchedule"]
    assert state["last"].replace("-", "").replace(":", "").replace("T", "-")[:13] == which
    other = ScheduledCluster()
    other.api.put(ETCD_BACKUP, made)  # it died before it had remembered the time
    other.manager().reconcile(KEY)
    assert len(other.made) <= 2, "the minute may have turned meanwhile"
    assert "last" in other.api.all(CLUSTER)[0]["status"]["backupSchedule"]


@pytest.mark.parametrize(("phase", "more"), [("Running", 0), ("Pending", 0), (None, 0), ("Verified", 1), ("Failed", 1)])
def test_a_backup_that_has_not_ended_is_waited_for(phase: str | None, more: int) -> None:
    last = backup("guest-20260101-0000", **({"phase": phase} if phase else {}))
    last["metadata"]["labels"] = {SCHEDULED_LABEL: "20260101-0000"}
    assert is_under_way([last]) == (more == 0)
    there = ScheduledCluster(last)
    there.manager().reconcile(KEY)
    assert len(there.made) == 1 + more


ENDED = "2026-11-22T04:00:00Z"
DRILL_POLICY = {"schedule": "@daily", "drill": "weekly", "destination": {"claim": "claim"}}


def drilled(outcome: str, uid: str = "uid-a", blame: str = "user", attempt: int = 1) -> dict[str, Any]:
    """Return the end of a drill."""
    said = {"operation": "drill", "sequence": 5, "attempt": attempt, "summary": "keys differ", "blame": blame}
    return {**said, "outcome": outcome, "backup": uid[4:], "backupUid": uid, "ended": ENDED, "time": "t"}


# By what is known of drills: the status of Proven on EtcdBackup a, None where nothing is said of it.
SHOWN: dict[str, tuple[dict[str, Any], str | None]] = {
    "proven": ({"last": drilled("succeeded"), "proven": drilled("succeeded")}, "True"),
    "failed": ({"last": drilled("failed")}, "False"),
    "failed after it was proven": ({"last": drilled("failed"), "proven": drilled("succeeded")}, "False"),
    "proven before another failed": ({"last": drilled("failed", "uid-b"), "proven": drilled("succeeded")}, "True"),
    "of another": ({"last": drilled("failed", "uid-b")}, None),
    "tried again": ({"last": drilled("failed", blame="infra")}, None),
    "not tried again": ({"last": drilled("failed", blame="infra", attempt=9)}, "False"),
    "never": ({}, None),
}


@pytest.mark.parametrize("case", SHOWN)
def test_what_a_drill_has_shown_is_said_of_its_backup_which_stays_what_it_is(case: str) -> None:
    state, status = SHOWN[case]
    one = backup(phase="Verified", conditions=[])
    found = with_proof(one, one["status"], view(one, policy=DRILL_POLICY, drill=state), TODAY)
    said = condition({"status": found}, "Proven") or {}
    assert (found["phase"], said.get("status")) == ("Verified", status)
    assert ("proven" in found) is (status == "True")
    if status == "False":
        assert "keys differ" in said["message"]
    assert with_proof(one, one["status"], None, TODAY) == one["status"]


def test_times_of_drills_are_noted_beside_those_of_backups() -> None:
    there = ScheduledCluster()
    there.objects[CLUSTER_DEPLOYMENT][0]["spec"]["etcd"]["backup"]["drill"] = "* * * * *"
    there.api = FakeCluster(there.objects)
    seconds = there.manager().reconcile(KEY)
    assert seconds is not None
    state = there.api.all(CLUSTER)[0]["status"]
    assert state["drill"]["schedule"]["schedule"] == "* * * * *"
    assert "last" not in state["drill"]["schedule"], "its times count from now on"
    assert "last" in state["backupSchedule"]


def test_an_event_of_a_proven_backup_that_is_missing_says_why() -> None:
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": kind, "lastTransitionTime": SINCE}
        for kind in ("Verified", "Proven")
    ]
    there = ScheduledCluster(backup(**LIES, conditions=conditions))
    there.manager().reconcile(KEY)
    (told,) = [one for one in there.api.all(EVENT) if one["reason"] == "BackupMissing"]
    assert told["message"].startswith("PersistentVolumeClaim claim, in which the snapshot lies, is gone")
