"""Which EtcdBackup is taken next, and what waits for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.operator.decide.backups import SeenBackup
from harness.operator.decide.desired import Desired
from harness.operator.decide.observed import Observed, begun, ended
from harness.operator.decide.operations import Nothing, next_operation, plan
from tests.unit.operator.decide.seen import seen
from tests.unit.operator.decide.wishes import deployed, operation, wait, wish

POLICY: dict[str, Any] = {"backup": {"beforeDisruption": True, "destination": {"claim": "claim"}}}


def world(*backups: SeenBackup) -> Observed:
    return deployed(wish(), backups=backups)


def upgrading() -> Desired:
    return wish(version="1.36.1", etcd=POLICY, applied=world().applied)


def test_backup_that_is_asked_for_is_taken_when_nothing_else_is_to_do() -> None:
    found = operation(next_operation(wish(), world(seen())))
    assert (found.operation, found.why, found.machines) == ("backup", "EtcdBackup a", ())
    assert found.snapshot is not None
    assert (found.snapshot.backup, found.snapshot.claim, found.snapshot.file) == ("a", "claim", "guest/a.db")


def test_backup_applies_what_is_applied_and_is_taken_once() -> None:
    before = world(seen())
    after = ended(begun(before, operation(next_operation(wish(), before))))
    assert after.applied == before.applied
    assert isinstance(next_operation(wish(), after), Nothing)


def test_backup_waits_for_an_operation_that_runs() -> None:
    first = operation(next_operation(wish(), Observed(world().now)))
    running = begun(replace(world(seen()), applied=None), first)
    assert wait(next_operation(wish(), running)).reason == "OperationRunning"


def test_edit_during_a_backup_is_said_and_none_is_not() -> None:
    running = begun(world(seen()), operation(next_operation(wish(), world(seen()))))
    assert "changed since" not in wait(next_operation(wish(), running)).message
    assert "changed since" in wait(next_operation(wish(variables={"a": 1}), running)).message


def test_failure_of_one_backup_holds_back_only_itself() -> None:
    one = wish()
    both = world(seen("a"), seen("b"))
    both = ended(begun(both, operation(next_operation(one, both))), "failed", "product")
    assert wait(next_operation(one, both)).reason == "Failed"
    other = operation(next_operation(one, replace(both, backups=(seen("b"),))))
    assert other.snapshot is not None
    assert other.snapshot.backup == "b"


def test_upgrade_waits_for_the_backup_before_it_to_be_made() -> None:
    found = wait(next_operation(upgrading(), world()))
    assert (found.reason, found.message) == (
        "BackupFirst",
        "a backup comes before the upgrade; an EtcdBackup of it is made",
    )
    assert [step.operation for step in plan(upgrading(), world())][:2] == ["backup", "upgrade"]


def test_backup_before_an_upgrade_comes_before_one_that_a_person_asked_for() -> None:
    found = operation(next_operation(upgrading(), world(seen("asked"), seen("own", before=upgrading().digest))))
    assert found.snapshot is not None
    assert found.snapshot.backup == "own"


def test_upgrade_follows_once_its_backup_is_verified() -> None:
    taken = seen("own", "verified", before=upgrading().digest)
    assert [step.operation for step in plan(upgrading(), world(taken))] == ["upgrade"]


def test_backup_before_an_earlier_wish_does_not_count() -> None:
    taken = seen("own", "verified", before=wish(version="1.36.1", retry="1").digest)
    assert wait(next_operation(upgrading(), world(taken))).reason == "BackupFirst"


def test_upgrade_does_not_follow_a_backup_that_failed() -> None:
    broken = seen("own", "failed", said="no member is healthy", before=upgrading().digest)
    found = wait(next_operation(upgrading(), world(broken)))
    assert found.reason == "Failed"
    assert "no member is healthy" in found.message
    assert "cluster.vmatrix.dev/retry" in found.message


def test_upgrade_says_what_its_backup_lacks() -> None:
    lacking = seen("own", "blocked", said="there is no claim x", before=upgrading().digest)
    assert "EtcdBackup own: there is no claim x" in wait(next_operation(upgrading(), world(lacking))).message


def test_no_backup_comes_before_an_upgrade_that_does_not_want_one() -> None:
    assert [step.operation for step in plan(wish(version="1.36.1", applied=world().applied), world())] == ["upgrade"]
