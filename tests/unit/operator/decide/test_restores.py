"""A restore begins only by a confirmation of the loss that there is; what was written for another one does nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.operator.api.cluster import DeclaredCluster
from harness.operator.api.etcd import EtcdRestore
from harness.operator.api.resources import RESTORE_ANNOTATION
from harness.operator.decide.accepted import against
from harness.operator.decide.backups import SeenBackup
from harness.operator.decide.desired import Desired
from harness.operator.decide.due import Situation, Wait
from harness.operator.decide.observed import Observed, SeenRestore, begun, ended, observed
from harness.operator.decide.operations import Nothing, next_operation, plan
from harness.operator.decide.restores import restore_trouble
from tests.unit.operator.api.objects import wanted_set
from tests.unit.operator.decide.seen import seen
from tests.unit.operator.decide.test_properties import many
from tests.unit.operator.decide.wishes import NOW, claimed, deployed, operation, wait, wish

GONE = "its VirtualMachine is gone"
PLANES = tuple(claimed(f"p-{number}", "cp") for number in range(3))
SUNDAY, MONDAY = seen("sunday", "verified", taken="2026-11-22"), seen("monday", "verified", taken="2026-11-23")


def planes(backup: str | None = None, wanted: int = 3, uid: str = "", **annotations: str) -> Desired:
    """Return a wish for control planes p-0, p-1, p-2 that names a backup, with annotations by the ends of their names.

    Args:
        uid: of another object of the same name.
    """
    spec: dict[str, Any] = {"etcd": {"restoreFrom": backup}} if backup is not None else {}
    sets = wanted_set("cp", "control-plane", "worker", replicas=wanted)
    one = wish(sets, machines=PLANES, retry=annotations.get("retry"), **spec)
    said = {f"cluster.vmatrix.dev/{name}": value for name, value in annotations.items()}
    metadata = one.wish.metadata.model_copy(update={"annotations": said, **({"uid": uid} if uid else {})})
    return replace(one, wish=one.wish.model_copy(update={"metadata": metadata}))


def world(*lost: str, since: datetime = NOW, backups: tuple[SeenBackup, ...] = (SUNDAY,), **more: Any) -> Observed:
    """Return the world in which three control planes were deployed and some are lost."""
    gone = {"lost": dict.fromkeys(lost, GONE), "lost_at": dict.fromkeys(lost, since), "ill": dict.fromkeys(lost, GONE)}
    return replace(deployed(planes()), **{**gone, "backups": backups, **more})


def confirmation(one: Desired, there: Observed) -> str:
    """Return the confirmation that is asked for."""
    found = wait(next_operation(one, there))
    assert found.reason == "RestoreNotConfirmed", found
    assert found.confirmation is not None
    assert f"{RESTORE_ANNOTATION}={found.confirmation}" in found.message
    return found.confirmation


def judged(one: Desired, there: Observed) -> list[str]:
    """Return what is wrong with a wish in a world."""
    return [mistake.text for mistake in against(one.wish, PLANES, there)]


LOSS = world("p-1", "p-2")
TOKEN = confirmation(planes("sunday"), LOSS)
HOUR = timedelta(hours=1)


def half_restored(outcome: str) -> Observed:
    """Return the world after a confirmed restore that did not succeed."""
    begins = operation(next_operation(planes("sunday", restore=TOKEN), LOSS))
    return ended(begun(LOSS, begins), outcome, "product")


@pytest.mark.parametrize("wanted", [1, 3])
def test_a_confirmed_restore_begins_and_is_over_once(wanted: int) -> None:
    one = planes("sunday", wanted, restore=TOKEN)
    assert judged(one, LOSS) == []
    found = operation(next_operation(one, LOSS))
    assert (found.operation, found.machines) == ("recover", ("p-1", "p-2"))
    assert found.snapshot is not None
    assert (found.snapshot.backup, found.snapshot.uid) == ("sunday", "uid-sunday")
    after = ended(begun(LOSS, found))
    assert after.applied is not None
    assert (after.applied.machines, after.applied.restored) == (("p-0",), "sunday")
    assert judged(planes("sunday", 1), replace(after, lost={}, ill={})) == [], "the field may stay"
    follows = next_operation(one, after)
    assert follows == Nothing() if wanted == 1 else wait(follows).reason == "WaitingForMachines"


def test_a_restore_that_is_confirmed_needs_no_approval_by_number() -> None:
    one = planes("sunday", restore=TOKEN)
    manual = one.wish.model_copy(update={"spec": one.spec.model_copy(update={"approval": "Manual"})})
    assert operation(next_operation(replace(one, wish=manual), LOSS)).operation == "recover"


def test_machines_that_leave_and_do_not_answer_are_lost_as_well() -> None:
    silent: dict[str, Any] = {"silent": frozenset({"p-1", "p-2"}), "silent_at": {"p-1": NOW, "p-2": NOW + HOUR}}
    there = replace(world(), ill=dict.fromkeys(("p-1", "p-2"), "no answer"), **silent)
    assert judged(planes("sunday", 1), there) == []
    there = replace(there, deleted=frozenset({"p-1", "p-2"}))
    token = confirmation(planes("sunday"), there)
    assert operation(next_operation(planes("sunday", restore=token), there)).machines == ("p-1", "p-2")
    later = replace(there, silent_at={"p-1": NOW, "p-2": NOW})
    assert confirmation(planes("sunday", restore=token), later) != token


# By what was written for another state of the cluster: the wish, and the world in which it must do nothing.
INERT: dict[str, tuple[Desired, Observed]] = {
    "named before the loss": (planes("sunday"), LOSS),
    "approved by a number": (planes("sunday", approve="2"), LOSS),
    "confirmed at random": (planes("sunday", restore="true"), LOSS),
    "the same machines are lost at another time": (
        planes("sunday", restore=TOKEN),
        world("p-1", "p-2", since=NOW + HOUR),
    ),
    "other machines are lost": (planes("sunday", restore=TOKEN), world("p-0", "p-1")),
    "one of them came back and was lost": (
        planes("sunday", restore=TOKEN),
        replace(LOSS, lost_at={"p-1": NOW, "p-2": NOW + HOUR}),
    ),
    "another backup is named by now": (planes("monday", restore=TOKEN), replace(LOSS, backups=(MONDAY, SUNDAY))),
    "another backup has the name": (
        planes("sunday", restore=TOKEN),
        replace(LOSS, backups=(replace(SUNDAY, uid="another"),)),
    ),
    "the backup is gone": (planes("sunday", restore=TOKEN), replace(LOSS, backups=())),
    "the backup is not whole any more": (
        planes("sunday", restore=TOKEN),
        replace(LOSS, backups=(replace(SUNDAY, state="failed"),)),
    ),
    "no backup is named any more": (planes(restore=TOKEN), LOSS),
    "nothing is lost": (planes("sunday", restore=TOKEN), world()),
    "a minority is lost": (planes("sunday", restore=TOKEN), world("p-2")),
    "all control planes are lost": (planes("sunday", restore=TOKEN), world("p-0", "p-1", "p-2")),
    "nothing is lost, and the backup was restored before": (
        planes("sunday", 1, restore=TOKEN),
        replace(world(), applied=deployed(planes()).applied.model_copy(update={"restored": "sunday"})),  # type: ignore[union-attr] # there is
    ),
    "a restore was cancelled half-way": (planes("sunday", restore=TOKEN), half_restored("cancelled")),
    "a restore failed half-way, and a machine is back": (
        planes("sunday", restore=TOKEN),
        replace(half_restored("failed"), lost={"p-1": GONE}, ill={"p-1": GONE}),
    ),
}


@pytest.mark.parametrize("state", INERT)
def test_nothing_is_restored_by_what_was_written_for_another_state(state: str) -> None:
    one, there = INERT[state]
    refused = tuple(judged(one, there))
    for wanted in (one, replace(one, refused=refused)):
        found = next_operation(wanted, there)
        assert not (hasattr(found, "operation") and found.operation == "recover"), state


@pytest.mark.parametrize(
    ("name", "there", "said"),
    [
        (
            "sunday",
            world(),
            "spec.etcd.restoreFrom: nothing is lost: etcd has its majority, and a control plane is left: ",
        ),
        (
            "sunday",
            world("p-2"),
            "spec.etcd.restoreFrom: nothing is lost: etcd has its majority, and a control plane is ",
        ),
        (
            "sunday",
            Observed(NOW),
            "spec.etcd.restoreFrom: nothing is deployed yet, so nothing can be restored: remove ",
        ),
        ("friday", world(), "spec.etcd.restoreFrom: there is no EtcdBackup friday: name another one, such as sunday"),
        ("sunday", LOSS, None),
        (None, world(), None),
    ],
)
def test_a_backup_is_named_only_where_something_is_lost(name: str | None, there: Observed, said: str | None) -> None:
    found = judged(planes(name), there)
    assert (len(found) == 1 and found[0].startswith(said)) if said is not None else found == []


def test_a_deletion_needs_no_correction_of_the_field() -> None:
    one = planes("sunday").wish
    deleted = one.model_copy(update={"metadata": one.metadata.model_copy(update={"deletion_timestamp": "2026"})})
    assert against(deleted, PLANES, world()) == []


@pytest.mark.parametrize(
    ("one", "there", "reason", "words"),
    [
        (planes(), LOSS, "RestoreNotNamed", "(p-1, p-2): name the EtcdBackup to restore in spec.etcd.restoreFrom; the"),
        (planes(), replace(LOSS, backups=()), "RestoreNotNamed", "; there is no verified one"),
        (planes("friday"), LOSS, "RestoreNotNamed", "there is no EtcdBackup friday: name another one, such as sunday"),
        (
            planes("sunday"),
            LOSS,
            "RestoreNotConfirmed",
            "EtcdBackup sunday of 2026-11-22 would be restored, and what was",
        ),
        (planes("sunday"), replace(LOSS, backups=(MONDAY, SUNDAY)), "RestoreNotConfirmed", "; monday is newer; "),
        (planes("sunday", restore="x"), LOSS, "RestoreNotConfirmed", "; x confirms another restore"),
        (planes(), world("p-0", "p-1", "p-2"), "NotRecoverable", "all control planes are lost, and the cluster's CA"),
    ],
)
def test_a_loss_says_what_to_do_next(one: Desired, there: Observed, reason: str, words: str) -> None:
    found = wait(next_operation(one, there))
    assert found.reason == reason
    assert words in found.message


def test_a_cluster_without_any_etcd_member_cannot_be_recovered() -> None:
    sets = (wanted_set("cp", "control-plane"), wanted_set("db", "etcd", replicas=3))
    machines = (claimed("p-9", "cp"), *(claimed(f"p-{number}", "db") for number in range(3)))
    one = wish(*sets, machines=machines, etcd={"restoreFrom": "sunday"})
    there = replace(deployed(wish(*sets, machines=machines)), lost=dict.fromkeys(("p-0", "p-1", "p-2"), GONE))
    found = wait(next_operation(one, there))
    assert (found.reason, found.message[:25]) == ("NotRecoverable", "all etcd members are lost")


@pytest.mark.parametrize("outcome", ["failed", "interrupted", "cancelled"])
def test_what_is_restored_half_is_recovered_and_never_removed_member_by_member(outcome: str) -> None:
    back = replace(half_restored(outcome), lost={}, lost_at={}, ill={})
    assert back.unsettled is not None
    assert back.unsettled.lost == ("p-1", "p-2")
    assert judged(planes("sunday"), back) == [], "the restore is still to be named"
    again = planes("sunday", retry="1")
    token = confirmation(again, back)
    assert token != TOKEN
    found = operation(next_operation(planes("sunday", retry="1", restore=token), back))
    assert (found.operation, found.machines) == ("recover", ("p-1", "p-2"))
    assert ended(begun(back, found)).unsettled is None


def test_the_same_backup_is_restored_after_another_loss_once_that_is_confirmed() -> None:
    one = planes("sunday", restore=TOKEN)
    first = ended(begun(LOSS, operation(next_operation(one, LOSS))))
    assert first.applied is not None
    all_hosts = deployed(planes()).applied
    assert all_hosts is not None
    grown = replace(first, applied=all_hosts.model_copy(update={"restored": "sunday"}), lost_at={})
    second = replace(grown, lost_at=dict.fromkeys(("p-1", "p-2"), NOW + HOUR))
    token = confirmation(one, second)
    assert operation(next_operation(planes("sunday", restore=token), second)).operation == "recover"


def test_an_object_of_the_same_name_has_other_confirmations() -> None:
    machines = tuple(claimed(f"p-{number}", "cp", uid="other") for number in range(3))
    sets = wanted_set("cp", "control-plane", "worker", replicas=3)
    other = wish(sets, machines=machines, etcd={"restoreFrom": "sunday"})
    metadata = other.wish.metadata.model_copy(update={"uid": "other"})
    other = replace(other, wish=other.wish.model_copy(update={"metadata": metadata}))
    assert confirmation(other, LOSS) != TOKEN


texts = st.sampled_from(["", "true", "1", "2", "sunday", "monday", TOKEN])
instants = st.integers(0, 3).map(lambda hours: NOW + hours * HOUR)


@many
@given(
    backup=st.sampled_from([None, "sunday", "monday", "friday"]),
    wanted=st.integers(1, 3),
    annotations=st.dictionaries(st.sampled_from(["restore", "approve", "cancel", "retry"]), texts),
    lost=st.dictionaries(st.sampled_from(["p-0", "p-1", "p-2"]), instants),
    ill=st.sets(st.sampled_from(["p-0", "p-1", "p-2"])),
    restored=st.sampled_from([None, "sunday", "monday"]),
    backups=st.sampled_from([(), (SUNDAY,), (MONDAY, SUNDAY), (replace(SUNDAY, uid="another"),)]),
)
def test_only_the_word_that_is_asked_for_begins_a_restore(
    backup: str | None,
    wanted: int,
    annotations: dict[str, str],
    lost: dict[str, datetime],
    ill: set[str],
    restored: str | None,
    backups: tuple[SeenBackup, ...],
) -> None:
    base = deployed(planes())
    assert base.applied is not None
    there = replace(
        world(*lost, backups=backups),
        lost_at=lost,
        silent=frozenset(ill),
        ill=dict.fromkeys({*lost, *ill}, GONE),
        applied=base.applied.model_copy(update={"restored": restored}),
    )
    one = planes(backup, wanted, **annotations)
    one = replace(one, refused=tuple(judged(one, there)))
    found = next_operation(one, there)
    unasked = next_operation(replace(planes(backup, wanted), refused=one.refused), there)
    assert not (hasattr(unasked, "operation") and unasked.operation == "recover"), "nobody has confirmed anything"
    if hasattr(found, "operation") and found.operation == "recover":
        assert isinstance(unasked, Wait)
        assert unasked.confirmation == annotations.get("restore")


def asked(backup: str = "sunday", confirm: str = "2026-11-22", **more: Any) -> Observed:
    """Return the world in which an EtcdRestore asks for a backup; `more`: of the world besides."""
    return world(**{"restore": SeenRestore("undo", "uid-undo", backup, confirm), **more})


# By the reason why nothing is restored: the world, and words of what is said.
HELD: dict[str, tuple[Observed, str]] = {
    "NotConfirmed": (
        asked(confirm=""),
        "since 2026-11-22 would be lost: set spec.confirm to 2026-11-22",
    ),
    "NotConfirmed ": (asked(confirm="2026-11-23"), "set spec.confirm to 2026-11-22"),
    "BackupNotVerified": (asked("friday"), "there is no EtcdBackup friday: make another EtcdRestore"),
    "BackupNotVerified ": (asked(backups=(replace(SUNDAY, state="foreign"),)), "is of another cluster"),
    "BackupNotVerified  ": (asked(backups=(replace(SUNDAY, state="failed"),)), "is not verified"),
    "MachinesDown": (asked(ill={"p-1": "it answers no login"}), "p-1: it answers no login"),
}


@pytest.mark.parametrize("row", HELD)
def test_a_cluster_that_is_well_goes_back_only_with_everything_that_it_takes(row: str) -> None:
    there, words = HELD[row]
    assert next_operation(planes(), there) == Nothing(), "and nothing else waits for it"
    trouble = restore_trouble(Situation.of(planes(), there))
    assert trouble is not None
    assert (trouble[0], words in trouble[1]) == (row.strip(), True), trouble


def test_a_cluster_goes_back_once_and_its_settings_follow() -> None:
    found = operation(next_operation(planes(), asked()))
    assert (found.operation, found.why) == ("restore", "EtcdRestore undo: back to 2026-11-22")
    assert found.snapshot is not None
    assert (found.snapshot.backup, found.snapshot.restore) == ("sunday", "uid-undo")
    assert [step.operation for step in plan(planes(), asked())] == ["restore", "reconfigure"]
    after = ended(begun(asked(), found))
    assert after.applied is not None
    assert (after.applied.restored, after.restore) == ("sunday", None)
    assert operation(next_operation(planes(), after)).operation == "reconfigure"
    assert operation(next_operation(planes(), replace(after, restore=asked().restore))).operation == "reconfigure"


def test_going_back_needs_no_approval_by_number() -> None:
    one = planes()
    manual = one.wish.model_copy(update={"spec": one.spec.model_copy(update={"approval": "Manual"})})
    assert operation(next_operation(replace(one, wish=manual), asked())).operation == "restore"


def test_a_loss_is_never_answered_by_going_back() -> None:
    there = world("p-1", "p-2", restore=asked().restore)
    assert wait(next_operation(planes(), there)).reason == "RestoreNotNamed"


def etcd_restore(name: str, made: str, phase: str | None = None, cluster: str = "guest") -> EtcdRestore:
    """Return an EtcdRestore."""
    meta = {"name": name, "uid": f"uid-{name}", "creationTimestamp": made}
    spec = {"cluster": cluster, "backup": "sunday"}
    return EtcdRestore.model_validate({"metadata": meta, "spec": spec, "status": {"phase": phase}})


@pytest.mark.parametrize(
    ("restores", "history", "first"),
    [
        ((), (), None),
        ((etcd_restore("b", "2"), etcd_restore("a", "3")), (), "b"),
        ((etcd_restore("b", "2", "Succeeded"), etcd_restore("a", "3", "Failed")), (), "a"),
        ((etcd_restore("b", "2"),), ("uid-b",), None),
        ((etcd_restore("b", "2", cluster="other"),), (), None),
    ],
)
def test_each_restore_is_once_and_the_first_comes_first(
    restores: tuple[EtcdRestore, ...], history: tuple[str, ...], first: str | None
) -> None:
    past = [{"sequence": 1, "operation": "restore", "outcome": "succeeded", "restoreUid": uid} for uid in history]
    cluster = DeclaredCluster.model_validate({"metadata": {"name": "guest"}, "status": {"history": past}})
    found = observed(cluster, (), NOW, (), restores).restore
    assert (found.name if found is not None else None) == first
