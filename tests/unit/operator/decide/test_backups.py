"""EtcdBackups as decisions see them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.kube.objects import stamp
from harness.operator.api.etcd import BackupScheduleState, EtcdBackupPolicy
from harness.operator.decide.backups import (
    SeenBackup,
    backup_trouble,
    freshness,
    newest_verified,
    scheduled,
    seen_backups,
    to_restore,
)
from tests.unit.operator.decide.seen import etcd_backup, seeing, seen


@pytest.mark.parametrize(
    ("phase", "state"),
    [(None, "blocked"), ("Pending", "blocked"), ("Waiting", "due"), ("Verified", "verified"), ("Failed", "failed")],
)
def test_state_follows_from_the_phase(phase: str | None, state: str) -> None:
    (found,) = seen_backups(seeing(), [etcd_backup(phase=phase, before="d1")])
    assert (found.name, found.uid, found.state, found.before) == ("a", "uid-a", state, "d1")
    assert (found.claim, found.file) == ("claim", "guest/a.db")


def test_the_newest_comes_first_and_wishes_come_after_it() -> None:
    old, new = (etcd_backup(n, "Verified", taken=f"2026-01-0{d}T00:00:00Z") for n, d in (("old", 1), ("new", 2)))
    found = seen_backups(seeing(), [etcd_backup("wish"), old, new])
    assert [one.name for one in found] == ["new", "old", "wish"]
    newest = newest_verified(found)
    assert newest is not None
    assert newest.name == "new"


def test_one_that_was_taken_is_not_taken_again_before_its_own_status_says_so() -> None:
    (found,) = seen_backups(seeing("a"), [etcd_backup("a", "Running")])
    assert found.state == "verified"


def test_one_that_is_being_deleted_is_not_seen() -> None:
    assert seen_backups(seeing(), [etcd_backup(deleted="2026-01-01T00:00:00Z")]) == ()


def test_files_whose_backups_are_gone_are_forgotten_with_the_next_one_on_their_claim() -> None:
    (found,) = seen_backups(seeing("gone", "a"), [etcd_backup("a")])
    assert found.forget == ("guest/gone.db",)
    elsewhere = etcd_backup("b", location="other:guest/b.db")
    assert seen_backups(seeing("gone"), [elsewhere])[0].forget == ()


def test_a_file_that_another_backup_has_written_since_is_not_forgotten() -> None:
    cluster = seeing("a")
    again = cluster.status.snapshots[0].model_copy(update={"uid": "uid-earlier"})
    both = cluster.status.model_copy(update={"snapshots": (again, *cluster.status.snapshots)})
    (found,) = seen_backups(cluster.model_copy(update={"status": both}), [etcd_backup("a")])
    assert found.forget == ()


REMEDY = "delete this EtcdRestore, and make another one"


@pytest.mark.parametrize(
    ("backups", "words"),
    [
        ([], f"there is no EtcdBackup a: {REMEDY} once a backup is Verified"),
        ([etcd_backup("b", "Verified")], f"there is no EtcdBackup a: {REMEDY} of another backup, such as b"),
        ([etcd_backup()], f"EtcdBackup a is not verified: it is not taken yet: wait until it is verified, or {REMEDY}"),
        ([etcd_backup(phase="Failed", said="no member")], f"EtcdBackup a is not verified: no member: {REMEDY}"),
        ([etcd_backup(phase="Missing", said="its claim is gone")], "EtcdBackup a is not verified: its claim is gone: "),
        ([etcd_backup(phase="Verified", cluster="x")], "EtcdBackup a is of another cluster: it was taken of x"),
        (
            [etcd_backup(phase="Verified", clusterUid="earlier")],
            "EtcdBackup a is of another cluster: it was taken of an earlier cluster guest, which had other cert",
        ),
    ],
)
def test_what_cannot_be_restored_is_refused_with_a_remedy(backups: list[object], words: str) -> None:
    known = seen_backups(seeing(), backups)  # type: ignore[arg-type] # they are
    assert backup_trouble("a", known).startswith(words)
    assert to_restore("a", known) is None


def test_a_verified_backup_of_this_cluster_can_be_restored() -> None:
    known = seen_backups(seeing(uid="u"), [etcd_backup(phase="Verified", clusterUid="u")])
    assert backup_trouble("a", known) == ""
    found = to_restore("a", known)
    assert found is not None
    assert found.snapshot().file == "guest/a.db"


def test_a_snapshot_that_was_taken_and_is_missing_cannot_be_restored() -> None:
    (known,) = seen_backups(seeing("a"), [etcd_backup(phase="Missing", said="its claim is gone")])
    assert (known.state, known.said) == ("failed", "its claim is gone")


def test_a_snapshot_whose_file_was_not_there_cannot_be_restored() -> None:
    cluster = seeing("a")
    absent = cluster.status.snapshots[0].model_copy(update={"absent": True})
    status = cluster.status.model_copy(update={"snapshots": (absent,)})
    (known,) = seen_backups(cluster.model_copy(update={"status": status}), [etcd_backup("a", "Verified")])
    assert (known.state, known.said) == ("failed", "file guest/a.db is gone from claim")


def test_an_operation_looks_for_the_other_files_of_its_claim() -> None:
    known = seen_backups(seeing("a", "b", "gone"), [etcd_backup(name, "Verified") for name in ("a", "b")])
    assert {one.name: one.expected for one in known} == {"a": ("guest/b.db",), "b": ("guest/a.db",)}
    assert known[0].snapshot().expected == known[0].expected


NOON = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def policy(schedule: str | None = "@hourly", **more: Any) -> EtcdBackupPolicy:
    return EtcdBackupPolicy.model_validate({"schedule": schedule, "destination": {"claim": "c"}, **more})


def state(since: datetime, last: datetime | None = None, schedule: str = "@hourly") -> BackupScheduleState:
    words = {"schedule": schedule, "timeZone": "Etc/UTC", "since": stamp(since)}
    return BackupScheduleState.model_validate({**words, **({"last": stamp(last)} if last else {})})


@pytest.mark.parametrize(
    ("known", "now", "due"),
    [
        (None, NOON, None),  # a schedule that nobody knew yet: its times count from now on
        (state(NOON - MINUTE), NOON, NOON),
        (state(NOON - MINUTE), NOON + 59 * MINUTE, NOON),
        (state(NOON), NOON, None),
        (state(NOON - DAY, NOON), NOON + MINUTE, None),
        (state(NOON - DAY, NOON), NOON + HOUR, NOON + HOUR),
        (state(NOON - DAY, NOON), NOON + DAY + MINUTE, NOON + DAY),  # 24 were missed: one is made
        (state(NOON - DAY, NOON), NOON - MINUTE, None),  # the clock went back
        (state(NOON - DAY, NOON, "@daily"), NOON + HOUR, None),  # another schedule than the one that is known
    ],
)
def test_a_time_is_due_once(known: BackupScheduleState | None, now: datetime, due: datetime | None) -> None:
    assert scheduled(policy(), known, now).due == due


def test_nothing_is_due_without_a_schedule_or_while_it_is_suspended() -> None:
    known = state(NOON - DAY)
    assert scheduled(policy(None), known, NOON).state is None
    assert scheduled(policy(suspend=True), known, NOON).due is None
    assert scheduled(policy(suspend=True), known, NOON).state == known
    assert scheduled(policy(), known, NOON).due == NOON, "what was missed is made once"


@pytest.mark.parametrize(
    ("moves", "made"),
    [
        ([MINUTE] * 180, 3),
        ([HOUR, -HOUR, HOUR, -HOUR, HOUR], 1),  # a clock that swings
        ([HOUR, -30 * MINUTE, *[MINUTE] * 90], 2),
        ([DAY, -DAY, *[HOUR] * 3], 4),  # a clock that was wrong by a day stops no schedule
        ([90 * MINUTE, DAY, HOUR], 3),
    ],
)
def test_a_schedule_has_one_backup_for_a_time_whatever_the_clock_does(moves: list[timedelta], made: int) -> None:
    known, now = scheduled(policy(), None, NOON).state, NOON
    names: list[datetime] = []
    for move in moves:
        now += move
        found = scheduled(policy(), known, now)
        known = found.state
        if found.due is not None and known is not None:
            assert found.due <= now
            names += [found.due] if found.due not in names else []  # else an object of the name is there
            known = known.model_copy(update={"last": stamp(found.due)})
    assert len(names) == made


def test_the_next_look_is_at_the_next_time() -> None:
    assert scheduled(policy(), None, NOON).following == NOON + HOUR


FRESHNESS: dict[str, tuple[EtcdBackupPolicy, BackupScheduleState | None, list[SeenBackup], bool | None, str, str]] = {
    "no schedule": (policy(None), None, [], None, "NoSchedule", "set spec.etcd.backup.schedule"),
    "not looked at yet": (policy(), None, [], None, "NoBackupYet", "no backup is verified yet"),
    "before the first": (policy(), state(NOON - HOUR), [], None, "NoBackupYet", "no backup is verified yet"),
    "none came": (
        policy(),
        state(NOON - 2 * HOUR),
        [],
        False,
        "TooOld",
        "none is verified, and it should not be older than 2 h; the schedule has made none: see the condition",
    ),
    "young": (
        policy(),
        state(NOON - DAY),
        [seen("a", "verified", taken=stamp(NOON - HOUR))],
        True,
        "Fresh",
        "a was taken at 2026-11-23T11:00:00Z",
    ),
    "old, and the last waits": (
        policy(),
        state(NOON - DAY),
        [
            seen("a", "verified", taken=stamp(NOON - 2 * HOUR)),
            seen("b", "blocked", scheduled="20261123-1100", said="there is no PersistentVolumeClaim c: create it"),
        ],
        False,
        "TooOld",
        "EtcdBackup b is not taken yet: there is no PersistentVolumeClaim c: create it; see `kubectl describe",
    ),
    "old, and the last failed": (
        policy(),
        state(NOON - DAY),
        [seen("b", "failed", scheduled="20261123-1100", said="disk full")],
        False,
        "TooOld",
        "EtcdBackup b failed: disk full",
    ),
    "old and suspended": (
        policy(suspend=True),
        state(NOON - DAY),
        [seen("a", "verified", taken=stamp(NOON - DAY))],
        False,
        "TooOld",
        "the schedule is suspended: set spec.etcd.backup.suspend to false",
    ),
    "one that a person made counts": (
        policy(),
        state(NOON - DAY),
        [seen("hers", "verified", taken=stamp(NOON - MINUTE))],
        True,
        "Fresh",
        "hers",
    ),
    "of a clock that went back": (
        policy(),
        state(NOON - DAY),
        [seen("a", "verified", taken=stamp(NOON + DAY))],
        True,
        "Fresh",
        "a was taken",
    ),
}


@pytest.mark.parametrize("case", FRESHNESS)
def test_freshness_is_told_with_what_to_do(case: str) -> None:
    wanted, known, backups, fresh, reason, words = FRESHNESS[case]
    found = freshness(wanted, known, backups, NOON)
    assert (found.fresh, found.reason) == (fresh, reason)
    assert words in found.message
    turns = fresh is not False and reason != "NoSchedule"
    assert (found.turns is not None and found.turns > NOON) == turns, "somebody has to look when it turns"
