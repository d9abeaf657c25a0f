"""Drills: what is restored, when, what keeps it from that, and what its end says of backups."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from harness.kube.objects import stamp
from harness.operator.api.cluster import CurrentOperation, DrillResult, DrillState
from harness.operator.api.etcd import BackupScheduleState, EtcdBackupPolicy
from harness.operator.decide.backups import SeenBackup
from harness.operator.decide.desired import Desired
from harness.operator.decide.drills import asked, proof, to_drill
from harness.operator.decide.due import Wait, WaitReason
from harness.operator.decide.observed import Observed, begun, ended
from harness.operator.decide.operations import Nothing, next_operation, plan
from harness.paths import packaged_dir
from tests.unit.operator.decide.seen import seen
from tests.unit.operator.decide.wishes import NOW, deployed, operation, wait, wish

HOUR, DAY, WEEK = timedelta(hours=1), timedelta(days=1), timedelta(days=7)
TIME = "2026-11-22T00:00:00Z"  # a Sunday: the last time of weekly before NOW
POLICY = {"schedule": "@daily", "drill": "weekly", "destination": {"claim": "claim"}}


def wished(**more: Any) -> Desired:
    return wish(etcd={"backup": {**POLICY, **more}})


def known(time: str | None = TIME, **results: DrillResult) -> DrillState:
    """Return what is remembered once a time of the schedule has come."""
    schedule = BackupScheduleState(schedule="weekly", time_zone="Etc/UTC", since=stamp(NOW - 9 * WEEK), last=time)
    return DrillState(schedule=schedule, **results)


def result(outcome: str = "succeeded", **more: Any) -> DrillResult:
    given: dict[str, Any] = {"sequence": 5, "operation": "drill", "backup": "a", "backup_uid": "uid-a", "time": TIME}
    given |= {"ended": stamp(NOW - HOUR), "blame": None if outcome == "succeeded" else "user", **more}
    return DrillResult(outcome=outcome, **given)


def verified(name: str = "a", objects: int | None = 2000, **more: Any) -> SeenBackup:
    return seen(name, "verified", taken=stamp(NOW - DAY), objects=objects, **more)


def world(desired: Desired, *backups: SeenBackup, state: DrillState | None = None, **more: Any) -> Observed:
    return deployed(desired, backups=backups, drill=state, **more)


def test_a_time_is_asked_for_once_it_has_come_and_the_next_one_is_known() -> None:
    policy = EtcdBackupPolicy.model_validate(POLICY)
    first, following = asked(policy, None, NOW)
    assert first is not None
    assert first.schedule is not None
    assert (first.schedule.last, following) == (None, NOW.replace(day=29, hour=0))
    again, _ = asked(policy, first, NOW)
    assert again == first, "nothing is written twice"
    later, _ = asked(policy, first, NOW + WEEK)
    assert later is not None
    assert later.schedule is not None
    assert later.schedule.last == "2026-11-29T00:00:00Z"
    assert asked(policy.model_copy(update={"drill": None}), first, NOW) == (None, None)


def test_results_outlive_another_schedule() -> None:
    policy = EtcdBackupPolicy.model_validate({**POLICY, "drill": "daily"})
    state, _ = asked(policy, known(last=result(), proven=result()), NOW)
    assert state is not None
    assert state.schedule is not None
    assert (state.proven, state.schedule.last) == (result(), None)


@pytest.mark.parametrize(
    ("backups", "name"),
    [
        ((), None),
        ((verified(objects=None),), None),
        ((seen("b", "due", objects=5), verified()), "a"),
        ((seen("b", "failed", objects=5), seen("c", "foreign", objects=5), verified()), "a"),
        ((verified("new"), verified("old")), "new"),
        ((verified("new", objects=None), verified("old")), "old"),
    ],
)
def test_the_newest_backup_whose_keys_were_counted_is_drilled(
    backups: tuple[SeenBackup, ...], name: str | None
) -> None:
    found = to_drill(backups)
    assert (found.name if found is not None else None) == name


def test_a_drill_restores_the_backup_beside_nothing_else_and_deletes_nothing() -> None:
    desired = wished()
    backup = verified(forget=("guest/gone.db",), expected=("guest/b.db",))
    found = operation(next_operation(desired, world(desired, backup, state=known())))
    assert (found.operation, found.why, found.machines) == ("drill", "EtcdBackup a is to be proven", ())
    assert found.snapshot is not None
    assert (found.snapshot.backup, found.snapshot.drill) == ("a", TIME)
    assert (found.snapshot.forget, found.snapshot.expected) == ((), ())
    assert [step.operation for step in plan(desired, world(desired, backup, state=known()))] == ["drill"]


NOT_DUE: dict[str, tuple[Desired, DrillState | None, tuple[SeenBackup, ...]]] = {
    "no drill is asked for": (wished(drill=None), known(), (verified(),)),
    "nothing is remembered yet": (wished(), None, (verified(),)),
    "no time has come": (wished(), known(None), (verified(),)),
    "there is no backup": (wished(), known(), ()),
    "no key was counted": (wished(), known(), (verified(objects=None),)),
    "it was done": (wished(), known(last=result(), proven=result()), (verified(), verified("b"))),
}


@pytest.mark.parametrize("case", NOT_DUE)
def test_nothing_is_drilled(case: str) -> None:
    desired, state, backups = NOT_DUE[case]
    assert next_operation(desired, world(desired, *backups, state=state)) == Nothing()


def drilling(desired: Desired, before: Observed) -> Observed:
    return begun(before, operation(next_operation(desired, before)))


@pytest.mark.parametrize(
    ("outcome", "blame", "verdict"),
    [
        ("succeeded", None, Nothing),
        ("failed", "user", Nothing),
        ("failed", "product", Nothing),
        ("cancelled", "user", Nothing),
        ("failed", "infra", Wait),
        ("interrupted", "infra", Wait),
    ],
)
def test_what_a_drill_has_shown_is_final_and_what_kept_it_from_that_is_tried_again(
    outcome: str, blame: str | None, verdict: type
) -> None:
    desired = wished()
    over = ended(drilling(desired, world(desired, verified(), state=known())), outcome, blame)
    assert isinstance(next_operation(desired, over), verdict)
    later = replace(over, now=NOW + HOUR)
    again = next_operation(desired, later)
    assert isinstance(again, CurrentOperation) == (verdict is Wait)
    newer = replace(later, backups=(verified("b"), *later.backups))
    following = next_operation(desired, newer)
    assert isinstance(following, CurrentOperation) == (outcome != "succeeded"), (
        "a newer backup is drilled after a failure"
    )


def test_a_claim_that_another_cluster_uses_is_waited_for() -> None:
    desired = wished()
    there = world(desired, verified(), state=known(), claims_in_use={"claim": "backup of cluster other"})
    found = wait(next_operation(desired, there))
    assert found.reason == WaitReason.WAITING_FOR_CLAIM
    assert "PersistentVolumeClaim claim is free: backup of cluster other uses it" in found.message
    assert found.again_seconds is not None
    elsewhere = replace(there, claims_in_use={"another": "backup of cluster other"})
    assert operation(next_operation(desired, elsewhere)).operation == "drill"


def test_a_backup_that_is_asked_for_comes_first() -> None:
    desired = wished()
    found = operation(next_operation(desired, world(desired, verified(), seen("b"), state=known())))
    assert found.operation == "backup"


PROOFS: dict[str, tuple[Desired, DrillState | None, tuple[SeenBackup, ...], bool | None, str, str]] = {
    "no drill": (wished(drill=None), None, (), None, "NoDrill", "set spec.etcd.backup.drill, such as to weekly"),
    "no backup": (wished(), known(), (), None, "NoBackup", "no verified backup whose keys were counted"),
    "uncounted": (wished(), known(), (verified(objects=None),), None, "NoBackup", "a drill follows the next one"),
    "never": (wished(), known(None), (verified(),), None, "NeverDrilled", "a is drilled at 2026-11-29T00:00:00Z"),
    "proven": (
        wished(),
        known(last=result(objects=2000, revision=7), proven=result(objects=2000, revision=7)),
        (verified(),),
        True,
        "Proven",
        "a was restored at 2026-11-23T11:00:00Z with all 2000 keys of revision 7, read and counted",
    ),
    "failed": (
        wished(),
        known(last=result("failed", summary="/registry/pods/: 1 read, 2 counted"), proven=result()),
        (verified(),),
        False,
        "DrillFailed",
        "/registry/pods/: 1 read, 2 counted; the next verified backup is drilled at once",
    ),
    "failed by the infrastructure, and tried again": (
        wished(),
        known(last=result("failed", blame="infra"), proven=result()),
        (verified(),),
        True,
        "Proven",
        "a was restored",
    ),
    "failed by the infrastructure too often": (
        wished(),
        known(last=result("failed", blame="infra", attempt=9, summary="no node"), proven=result()),
        (verified(),),
        False,
        "DrillFailed",
        "no node",
    ),
    "old": (
        wished(),
        known(last=result(ended=stamp(NOW - 2 * WEEK)), proven=result(ended=stamp(NOW - 2 * WEEK))),
        (verified(),),
        False,
        "Old",
        "was at 2026-11-09T12:00:00Z, and it should not be longer ago than 336 h",
    ),
    "old without a backup": (
        wished(),
        known(proven=result(ended=stamp(NOW - 3 * WEEK))),
        (),
        False,
        "Old",
        "there is no verified backup whose keys were counted",
    ),
    "of a clock that went back": (
        wished(),
        known(last=result(ended=stamp(NOW + WEEK)), proven=result(ended=stamp(NOW + WEEK))),
        (verified(),),
        True,
        "Proven",
        "a was restored",
    ),
}


@pytest.mark.parametrize("case", PROOFS)
def test_what_drills_have_proven_is_told_with_what_to_do(case: str) -> None:
    desired, state, backups, proven, reason, words = PROOFS[case]
    found = proof(desired, state, backups, NOW)
    assert (found.proven, found.reason) == (proven, reason)
    assert words in found.message
    turns = reason in ("Proven", "NeverDrilled")
    assert (found.turns is not None and found.turns > NOW) == turns, "somebody has to look when it turns"


def test_every_reason_is_explained() -> None:
    text = (packaged_dir() / "docs" / "operator" / "backups.md").read_text(encoding="utf-8")
    part = text.partition("\n## Drills\n")[2].partition("\n## ")[0]
    told = {line.split("|")[1].strip().strip("`") for line in part.splitlines() if line.startswith("| `")}
    assert told == {reason for *_, reason, _ in PROOFS.values()} | {"NotDeployed"}
