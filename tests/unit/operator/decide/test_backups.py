"""EtcdBackups as decisions see them."""

from __future__ import annotations

import pytest

from harness.operator.decide.backups import backup_mistake, newest_verified, seen_backups, to_restore
from tests.unit.operator.decide.seen import etcd_backup, seeing


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


@pytest.mark.parametrize(
    ("backups", "words"),
    [
        ([], "there is no EtcdBackup a: remove the field"),
        ([etcd_backup("b", "Verified")], "there is no EtcdBackup a: name another one, such as b"),
        ([etcd_backup()], "EtcdBackup a is not verified: it is not taken yet: wait until it is verified, or remove"),
        ([etcd_backup(phase="Failed", said="no member")], "EtcdBackup a is not verified: no member: remove the field"),
        (
            [etcd_backup(phase="Missing", said="its claim is gone")],
            "EtcdBackup a is not verified: its claim is gone: ",
        ),
        ([etcd_backup(phase="Verified", cluster="x")], "EtcdBackup a is of another cluster: it was taken of x"),
        (
            [etcd_backup(phase="Verified", clusterUid="earlier")],
            "EtcdBackup a is of another cluster: it was taken of an earlier cluster guest, which had other cert",
        ),
    ],
)
def test_what_cannot_be_restored_is_refused_with_a_remedy(backups: list[object], words: str) -> None:
    known = seen_backups(seeing(), backups)  # type: ignore[arg-type] # they are
    mistake = backup_mistake("a", known)
    assert mistake is not None
    assert mistake.field == "spec.etcd.restoreFrom"
    assert words in mistake.text
    assert to_restore("a", known) is None


def test_a_verified_backup_of_this_cluster_can_be_restored() -> None:
    known = seen_backups(seeing(uid="u"), [etcd_backup(phase="Verified", clusterUid="u")])
    assert backup_mistake("a", known) is None
    found = to_restore("a", known)
    assert found is not None
    assert found.snapshot().file == "guest/a.db"


def test_a_snapshot_that_was_taken_and_is_missing_cannot_be_restored() -> None:
    (known,) = seen_backups(seeing("a"), [etcd_backup(phase="Missing", said="its claim is gone")])
    assert (known.state, known.said) == ("failed", "its claim is gone")
