"""What an EtcdRestore does in every situation, as one table; and that what was meant for another one does nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import BadInput
from harness.operator.api.cluster import AuthorityState, CurrentOperation, DeclaredCluster
from harness.operator.api.etcd import ALL_LOST, MAJORITY_LOST, ROLLBACK, EtcdRestore, RestoreWay
from harness.operator.api.rules import read
from harness.operator.decide.accepted import against
from harness.operator.decide.backups import SeenBackup
from harness.operator.decide.desired import Desired
from harness.operator.decide.due import Situation
from harness.operator.decide.observed import (
    RECOVER,
    RESTORING,
    EtcdClient,
    Observed,
    SeenRestore,
    begun,
    ended,
    observed,
)
from harness.operator.decide.operations import Nothing, due_of, next_operation, plan
from harness.operator.decide.restores import OPERATIONS, RULES, RestoreAnswer, restore_answer
from harness.operator.decide.variables import load_releases
from harness.operator.execute.snapshots import SnapshotStore
from tests.unit.operator.api.objects import deployment, wanted_set
from tests.unit.operator.decide.products import known as known_product
from tests.unit.operator.decide.seen import seen
from tests.unit.operator.decide.test_properties import many
from tests.unit.operator.decide.wishes import NOW, claimed, deployed, etcd_wish, members, operation, wait, wish
from tests.unit.operator.execute import etcd_files, test_object_store
from tests.unit.operator.execute.test_snapshots import taken
from tests.unit.pages import ROOT

GONE, DOWN = "its VirtualMachine is gone", "it answers no login"
PLANES = tuple(claimed(f"p-{number}", "cp") for number in range(3))
SUNDAY, MONDAY = seen("sunday", "verified", taken="2026-11-22"), seen("monday", "verified", taken="2026-11-23")
THREE = wanted_set("cp", "control-plane", "worker", replicas=3)


def planes(wanted: int = 3, **more: Any) -> Desired:
    """Return a wish for some of the control planes p-0, p-1 and p-2."""
    return wish(wanted_set("cp", "control-plane", "worker", replicas=wanted), machines=PLANES, **more)


def with_others(*sets: dict[str, Any], **more: Any) -> Desired:
    """Return the wish for these control planes where other machines were claimed, p-7 and p-8."""
    return wish(*(sets or (THREE,)), machines=(*PLANES, claimed("p-7", "cp"), claimed("p-8", "cp")), **more)


def world(*lost: str, backups: tuple[SeenBackup, ...] = (SUNDAY,), **more: Any) -> Observed:
    """Return the world in which three control planes were deployed and some are lost."""
    gone = {"lost": dict.fromkeys(lost, GONE), "lost_at": dict.fromkeys(lost, NOW), "ill": dict.fromkeys(lost, GONE)}
    return replace(deployed(planes()), **{**gone, "backups": backups, **more})


def asks(confirm: str = SUNDAY.taken, way: RestoreWay | None = None, uid: str = "uid-undo") -> SeenRestore:
    """Return an EtcdRestore of Sunday's backup."""
    return SeenRestore("undo", uid, "sunday", confirm, way)


def answered(one: Desired, there: Observed) -> RestoreAnswer:
    """Return what the EtcdRestore of a world does."""
    found = restore_answer(Situation.of(one, there))
    assert found is not None
    return found


def begins(one: Desired, there: Observed) -> str | None:
    """Return the operation that restores, if one begins."""
    found = next_operation(one, there)
    restores = isinstance(found, CurrentOperation) and found.operation in RESTORING
    return found.operation if restores and isinstance(found, CurrentOperation) else None


LOSS = world("p-1", "p-2")
KEYS = AuthorityState(usable=True, reason="Valid", message="")
GONE_KEYS = AuthorityState(usable=False, reason="SecretMissing", message="Secret guest-ca is gone: put it back")
# Of each thing that an EtcdRestore goes by, what there can be.
HEALTH: dict[str, tuple[Observed, RestoreWay | None]] = {
    "every machine is well": (world(), ROLLBACK),
    "a minority is down": (world(ill={"p-1": DOWN}), ROLLBACK),
    "a majority is down": (world(ill={"p-1": DOWN, "p-2": DOWN}), None),
    "the majority is lost": (LOSS, MAJORITY_LOST),
    "all control planes are lost": (world("p-0", "p-1", "p-2", authority=KEYS), ALL_LOST),
    "the CAs are lost as well": (world("p-0", "p-1", "p-2"), ALL_LOST),
    "the CAs are unusable": (world("p-0", "p-1", "p-2", authority=GONE_KEYS), ALL_LOST),
}
CONFIRM = {"no": "", "another snapshot": MONDAY.taken, "this snapshot": SUNDAY.taken}
BACKUP: dict[str, tuple[SeenBackup, ...]] = {
    "verified": (SUNDAY,),
    "not taken yet": (replace(SUNDAY, state="due"),),
    "failed": (replace(SUNDAY, state="failed", said="no member"),),
    "of another cluster": (replace(SUNDAY, state="foreign", said="it was taken of other"),),
    "not there": (MONDAY,),
    "of a later etcd": (replace(SUNDAY, etcd="3.99.0"),),
    "of an earlier etcd": (replace(SUNDAY, etcd="3.4.3"),),
}
RUNS = {"nothing": None, "an operation": CurrentOperation(sequence=2, operation="reconfigure")}
BEFORE = ("not known", "the same", "another")  # the way that was known before
ANY = None
# What an EtcdRestore does: by health, confirm, backup, what runs and the way before; the first row that fits counts.
Row = tuple[str | None, str | None, str | None, str | None, str | None]
TABLE: tuple[tuple[Row, tuple[str, str]], ...] = (
    (("every machine is well", ANY, ANY, ANY, "another"), ("Failed", "SituationChanged")),
    (("a minority is down", ANY, ANY, ANY, "another"), ("Failed", "SituationChanged")),
    (("the majority is lost", ANY, ANY, ANY, "another"), ("Failed", "SituationChanged")),
    (("all control planes are lost", ANY, ANY, ANY, "another"), ("Failed", "SituationChanged")),
    (("the CAs are lost as well", ANY, ANY, ANY, "another"), ("Failed", "SituationChanged")),
    (("the CAs are unusable", ANY, ANY, ANY, "another"), ("Failed", "SituationChanged")),
    (("the CAs are lost as well", ANY, ANY, ANY, ANY), ("Pending", "NotRecoverable")),
    (("the CAs are unusable", ANY, ANY, ANY, ANY), ("Pending", "NotRecoverable")),
    ((ANY, ANY, "not taken yet", ANY, ANY), ("Pending", "BackupNotVerified")),
    ((ANY, ANY, "failed", ANY, ANY), ("Pending", "BackupNotVerified")),
    ((ANY, ANY, "of another cluster", ANY, ANY), ("Pending", "BackupNotVerified")),
    ((ANY, ANY, "not there", ANY, ANY), ("Pending", "BackupNotVerified")),
    ((ANY, ANY, "of a later etcd", ANY, ANY), ("Pending", "LaterEtcd")),
    ((ANY, "no", ANY, ANY, ANY), ("Pending", "NotConfirmed")),
    ((ANY, "another snapshot", ANY, ANY, ANY), ("Pending", "ConfirmsAnother")),
    (("a majority is down", ANY, ANY, ANY, ANY), ("Pending", "LossNotKnown")),
    (("a minority is down", ANY, ANY, ANY, ANY), ("Pending", "MachinesDown")),
    ((ANY, ANY, ANY, "an operation", ANY), ("Waiting", "OperationRunning")),
    (("every machine is well", ANY, ANY, ANY, ANY), ("Waiting", "Waiting")),  # restore begins
    (("the majority is lost", ANY, ANY, ANY, ANY), ("Waiting", "Waiting")),  # recover begins
    (("all control planes are lost", ANY, ANY, ANY, ANY), ("Waiting", "Waiting")),  # rebuild begins
)
OTHER: dict[RestoreWay | None, RestoreWay] = {
    ROLLBACK: MAJORITY_LOST,
    MAJORITY_LOST: ROLLBACK,
    ALL_LOST: MAJORITY_LOST,
    None: ROLLBACK,
}


def test_what_an_etcd_restore_does_is_one_table() -> None:
    met = set[int]()
    for given_row in product(HEALTH, CONFIRM, BACKUP, RUNS, BEFORE):
        health, confirm, backup, runs, before = given_row
        there, way = HEALTH[health]
        known = {"not known": None, "the same": way, "another": OTHER[way]}[before]
        asked = asks(CONFIRM[confirm], known)
        there = replace(there, backups=BACKUP[backup], running=RUNS[runs], restore=asked)
        fits = (all(cell in (ANY, given_row[at]) for at, cell in enumerate(row)) for row, _ in TABLE)
        number = next(number for number, fit in enumerate(fits) if fit)
        met.add(number)
        one = with_others() if way == ALL_LOST else planes()
        found = answered(one, there)
        assert (found.phase, found.reason) == TABLE[number][1], given_row
        assert found.message, given_row
        wanted = OPERATIONS[way] if found.begins and way is not None else None
        assert begins(one, there) == wanted, given_row
        assert found.way == (known or way), given_row
    assert met == set(range(len(TABLE))), "every row counts for something"


CLIENTS = (EtcdClient("a", "a.1", "/a"), EtcdClient("b", "b.1", "/b"))
GOING = EtcdClient("gone", "gone.1", "/g", leaving=True)
# Clusters that have their keys in an etcd, those that somebody has confirmed, and what is said.
SHARED: tuple[tuple[tuple[EtcdClient, ...], tuple[str, ...], str, str], ...] = (
    ((), (), "", ""),
    (CLIENTS, ("a", "b"), "", ""),
    (CLIENTS, ("b", "a"), "", ""),
    ((GOING, *CLIENTS), ("a", "b"), "", ""),
    (CLIENTS, (), "ConfirmsOtherClusters", "spec.confirmClusters is empty, and a, b would go back, by a, b; b is not"),
    (CLIENTS, ("a",), "ConfirmsOtherClusters", "spec.confirmClusters is a, and a, b would go back"),
    (CLIENTS, ("a", "b", "c"), "ConfirmsOtherClusters", "spec.confirmClusters is a, b, c, and a, b would go back"),
    (CLIENTS, ("c",), "ConfirmsOtherClusters", """: to confirm that: `kubectl patch ver undo -n default"""),
    ((), ("a",), "ConfirmsOtherClusters", "spec.confirmClusters is a, and etcd of store has no keys of other clusters"),
)


@pytest.mark.parametrize(("clients", "confirmed", "reason", "said"), SHARED, ids=lambda cell: str(cell)[:40])
def test_all_clusters_that_go_back_are_confirmed(
    clients: tuple[EtcdClient, ...], confirmed: tuple[str, ...], reason: str, said: str
) -> None:
    one = etcd_wish(*members(0))
    begun_with = next_operation(one, Observed(NOW))
    assert isinstance(begun_with, CurrentOperation)
    taken = replace(SUNDAY, clusters=("a",))
    asked = replace(asks(SUNDAY.taken), clusters=confirmed)
    there = Observed(NOW, sequence=1, applied=begun_with.applies, backups=(taken,), restore=asked, clients=clients)
    found = answered(one, there)
    assert found.reason == (reason or "Waiting")
    assert said in found.message
    assert (begins(one, there) == "restore") == (not reason)
    if reason:
        names = json.dumps([one.cluster for one in clients if not one.leaving])
        assert f'"confirmClusters": {names}' in found.message
    unconfirmed = answered(one, replace(there, restore=replace(asked, confirm="")))
    if clients:
        assert "b is not in the snapshot, and would lose everything" in unconfirmed.message


def test_a_cluster_in_an_etcd_of_others_is_not_restored_by_itself() -> None:
    found = answered(planes(etcd={"clusterRef": {"name": "store"}}), replace(world(), restore=asks(SUNDAY.taken)))
    assert (found.phase, found.reason) == ("Failed", "EtcdElsewhere")
    assert "guest has its keys in EtcdCluster store" in found.message


def test_every_rule_is_in_the_table_and_in_the_docs() -> None:
    reasons = {str(rule.reason) for rule in RULES}
    of_shared = {reason for _, _, reason, _ in SHARED} - {""}
    assert reasons - {reason for _, (_, reason) in TABLE} - of_shared == {"NotAccepted", "EtcdElsewhere"}
    text = (ROOT / "docs/operator/backups.md").read_text(encoding="utf-8")
    assert [reason for reason in reasons if f"`{reason}`" not in text] == []


WORDS: dict[str, tuple[Observed, str]] = {
    "NotConfirmed": (
        world(restore=asks("")),
        "what was written since 2026-11-22 would be lost: to confirm that, set spec.confirm to 2026-11-22: "
        """`kubectl patch ver undo -n default --type=merge -p '{"spec": {"confirm": "2026-11-22"}}'`""",
    ),
    "ConfirmsAnother": (world(restore=asks("x")), "spec.confirm is x, and the snapshot of EtcdBackup sunday was taken"),
    "BackupNotVerified": (
        world(restore=asks(), backups=BACKUP["of another cluster"]),
        "EtcdBackup sunday is of another cluster: it was taken of other: delete this EtcdRestore, and make another",
    ),
    "LaterEtcd": (
        world(restore=asks(), backups=BACKUP["of a later etcd"]),
        "EtcdBackup sunday was taken of etcd 3.99.0, and the cluster has 3.6.",
    ),
    "LossNotKnown": (
        replace(HEALTH["a majority is down"][0], restore=asks()),
        "start them, or give them up: `kubectl annotate vma p-1 p-2 -n default cluster.vmatrix.dev/replace=lost`",
    ),
    "LossNotKnown ": (
        replace(HEALTH["a majority is down"][0], restore=asks(), replace={"p-1": "lost", "p-2": "lost"}),
        "machines that are given up count as lost once they answer no login (p-1: it answers no login; p-2: ",
    ),
    "SituationChanged ": (world(restore=asks(way=MAJORITY_LOST)), "nothing was restored, and nothing has to be; to go"),
    "MachinesDown": (world(restore=asks(), ill={"p-1": DOWN}), f"while every machine is well (p-1: {DOWN})"),
    "NotRecoverable": (
        replace(HEALTH["the CAs are lost as well"][0], restore=asks()),
        "no operation restores a snapshot on machines without the keys of the cluster's CAs. Start a machine",
    ),
    "NotRecoverable ": (
        replace(HEALTH["the CAs are unusable"][0], restore=asks()),
        "the cluster's CAs, which other machines need, cannot be used: Secret guest-ca is gone: put it back",
    ),
    "SituationChanged": (
        replace(LOSS, restore=asks(way=ROLLBACK)),
        "when it was made, etcd had its majority, and has lost it since: nothing was restored; make an EtcdRestore",
    ),
    "OperationRunning": (
        world(restore=asks(), running=RUNS["an operation"]),
        "reconfigure 2 runs: it begins after its end",
    ),
}


@pytest.mark.parametrize("reason", WORDS)
def test_what_is_waited_for_is_said_with_what_to_do(reason: str) -> None:
    there, words = WORDS[reason]
    found = answered(planes(), there)
    assert (found.reason, words in found.message) == (reason.strip(), True), found.message


def test_a_wish_with_mistakes_settles_no_way() -> None:
    found = answered(planes(refused=("spec.version: no",)), world(restore=asks()))
    assert (found.phase, found.reason, found.way) == ("Waiting", "NotAccepted", None)


def test_a_loss_says_what_is_given_up_and_which_backup_is_newer() -> None:
    found = answered(planes(), replace(LOSS, restore=asks(""), backups=(MONDAY, SUNDAY)))
    assert "would be lost; p-1, p-2 are given up; monday of 2026-11-23 is newer: to confirm" in found.message
    assert (found.way, found.machines, found.taken) == (MAJORITY_LOST, ("p-1", "p-2"), "2026-11-22")


@pytest.mark.parametrize("wanted", [1, 3])
def test_a_confirmed_recovery_begins_and_is_over_once(wanted: int) -> None:
    there, one = replace(LOSS, restore=asks(way=MAJORITY_LOST)), planes(wanted)
    assert against(one.wish, PLANES, there) == []
    found = operation(next_operation(one, there))
    assert (found.operation, found.machines) == (RECOVER, ("p-1", "p-2"))
    assert found.snapshot is not None
    assert (found.snapshot.backup, found.snapshot.restore) == ("sunday", "uid-undo")
    after = ended(begun(there, found))
    assert after.applied is not None
    assert (after.applied.machines, after.restore) == (("p-0",), None)
    follows = next_operation(one, after)
    assert follows == Nothing() if wanted == 1 else wait(follows).reason == "WaitingForMachines"


@pytest.mark.parametrize("there", [LOSS, world()])
def test_a_restore_that_is_confirmed_needs_no_approval_by_number(there: Observed) -> None:
    assert begins(planes(approval="Manual"), replace(there, restore=asks())) is not None


def test_machines_that_leave_and_do_not_answer_are_lost_as_well() -> None:
    silent = frozenset({"p-1", "p-2"})
    there = world(silent=silent, ill=dict.fromkeys(silent, DOWN), restore=asks())
    assert against(planes(1).wish, PLANES, there) == [], "they may leave their set"
    for one, gone in ((planes(1), there), (planes(), replace(there, replace=dict.fromkeys(silent, "lost")))):
        assert operation(next_operation(one, gone)).machines == ("p-1", "p-2")
    assert "an EtcdRestore recovers it" in wait(next_operation(planes(1), replace(there, silent=frozenset()))).message


def test_those_that_answer_again_do_not_leave_by_an_edit_of_their_loss() -> None:
    (mistake,) = against(planes(1).wish, PLANES, world(ill={"p-2": DOWN}))
    assert mistake.text.endswith("2 would leave, and the others are no majority: remove 1 at a time")


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (LOSS, '"metadata": {"generateName": "guest-", "namespace": "default"}, "spec": {"cluster": "guest", "backup": '
         '"sunday", "confirm": "2026-11-22"}}\' | kubectl create -f -`'),
        (replace(LOSS, backups=()), "there is no EtcdBackup that is Verified, so nothing can be restored"),
        (replace(LOSS, restore=asks(), backups=(MONDAY,)), "EtcdRestore undo: there is no EtcdBackup sunday"),
    ],
)  # fmt: skip
def test_a_loss_asks_for_an_etcd_restore(there: Observed, words: str) -> None:
    found = wait(next_operation(planes(), there))
    assert found.reason == "RestoreNotNamed"
    assert found.message.startswith("etcd has lost its majority (p-1, p-2): ")
    assert words in found.message


@pytest.mark.parametrize("confirm", ["", "2026-11-23"])
def test_a_loss_waits_for_the_confirmation(confirm: str) -> None:
    found = wait(next_operation(planes(), replace(LOSS, restore=asks(confirm))))
    assert (found.reason, "kubectl patch ver undo" in found.message) == ("RestoreNotConfirmed", True)


ALL_GONE = HEALTH["all control planes are lost"][0]


def test_a_control_plane_is_made_anew_with_one_other_machine_and_the_rest_joins() -> None:
    one, there = with_others(), replace(ALL_GONE, restore=asks(way=ALL_LOST))
    found = operation(next_operation(one, there))
    assert (found.operation, found.machines) == ("rebuild", ("p-0", "p-1", "p-2"))
    assert found.snapshot is not None
    assert found.snapshot.restore == "uid-undo"
    due = due_of(found, one, begun(there, found))
    assert due is not None
    assert [host.machine for host in due.hosts] == ["p-7"], "no play speaks to a machine that is lost"
    assert [host["name"] for host in due.variables["cluster_hosts"]] == ["p-7"]
    assert due.variables["cluster_etcd_restore_confirmation"] == SUNDAY.taken
    after = ended(begun(there, found))
    assert after.applied is not None
    assert (after.applied.machines, after.restore, after.unsettled) == (("p-7",), None, None)
    gone = with_others(wanted_set("cp", "control-plane", "worker", replicas=2))
    follows = operation(next_operation(gone, after))
    assert (follows.operation, follows.machines) == ("scale", ("p-8",))


@pytest.mark.parametrize("made", [True, False])
def test_a_made_machine_is_lost_with_its_object(made: bool) -> None:
    there = world(restore=asks(), authority=KEYS)
    assert there.applied is not None
    hosts = tuple(host.model_copy(update={"made": made}) for host in there.applied.hosts)
    there = replace(there, applied=there.applied.model_copy(update={"hosts": hosts}))
    one = wish(THREE, machines=(claimed("p-7", "cp"), claimed("p-8", "cp"), claimed("p-9", "cp")))
    assert (answered(one, there).way, begins(one, there)) == ((ALL_LOST, "rebuild") if made else (ROLLBACK, "restore"))


def test_workers_that_are_left_stay_and_a_new_one_joins_later() -> None:
    cp, workers = wanted_set("cp", "control-plane"), wanted_set("w", "worker", replicas=2)
    before = wish(cp, workers, machines=(PLANES[0], claimed("w-1", "w"), claimed("w-2", "w")))
    there = replace(deployed(before), lost={"p-0": GONE}, ill={"p-0": GONE}, backups=(SUNDAY,), authority=KEYS)
    one = wish(cp, workers, machines=(PLANES[0], claimed("p-7", "cp"), claimed("w-1", "w"), claimed("w-2", "w")))
    found = operation(next_operation(one, replace(there, restore=asks())))
    assert found.applies is not None
    assert (found.operation, found.applies.machines) == ("rebuild", ("p-7", "w-1", "w-2"))
    down = replace(there, restore=asks(), ill={"p-0": GONE, "w-2": DOWN})
    said = answered(one, down)
    assert (said.reason, "w-2: it answers no login" in said.message) == ("MachinesDown", True)
    assert "kubectl annotate vma w-2 -n default cluster.vmatrix.dev/replace=lost" in said.message


@pytest.mark.parametrize(
    ("one", "trouble", "words"),
    [
        (planes(), {}, "no other machine can be used as etcd and control-plane yet: give their sets other machines"),
        (with_others(), {"p-7": "no login", "p-8": "no disk"}, "yet; p-7: no login; p-8: no disk: give their sets"),
    ],
)
def test_a_loss_of_all_waits_for_a_machine_that_can_be_used(one: Desired, trouble: dict[str, str], words: str) -> None:
    found = wait(next_operation(one, replace(ALL_GONE, restore=asks(), trouble=trouble)))
    assert (found.reason, words in found.message) == ("WaitingForMachines", True), found.message


def test_a_loss_of_all_of_other_playbooks_is_no_matter_of_a_phase() -> None:
    there = replace(HEALTH["the CAs are lost as well"][0], restore=asks())
    one = with_others(product=known_product(), playbooks={"product": {"configMap": "theirs"}})
    assert wait(next_operation(one, there)).reason == "NotRecoverable"


def test_a_loss_of_all_asks_for_an_etcd_restore() -> None:
    found = wait(next_operation(with_others(), ALL_GONE))
    assert found.reason == "RestoreNotNamed"
    assert found.message.startswith("all control planes are lost (p-0, p-1, p-2): make an EtcdRestore")


@pytest.mark.parametrize("outcome", ["failed", "interrupted", "cancelled"])
def test_what_is_made_anew_half_goes_on_with_the_same_machine(outcome: str) -> None:
    one, there = with_others(), replace(ALL_GONE, restore=asks())
    half = ended(begun(there, operation(next_operation(one, there))), outcome, "product")
    assert half.unsettled is not None
    assert [host.machine for host in half.unsettled.hosts] == ["p-7"]
    back = replace(half, lost={}, lost_at={}, ill={}, restore=asks(uid="uid-another"))  # the lost ones are back
    again = operation(next_operation(one, back))
    assert (again.operation, again.machines) == ("rebuild", ("p-0", "p-1", "p-2"))
    assert again.applies is not None
    assert again.applies.machines == ("p-7",)


def test_no_second_control_plane_is_begun_while_the_first_one_is_in_trouble() -> None:
    two = wanted_set("cp", "control-plane", "worker"), wanted_set("more", "control-plane", "worker", replicas=2)
    before, there = with_others(), replace(ALL_GONE, restore=asks())
    half = ended(begun(there, operation(next_operation(before, there))), "failed", "product")
    half = replace(half, trouble={"p-7": "no login"}, restore=asks(uid="uid-another"))
    for one in (before, wish(*two, machines=(claimed("p-9", "cp"), claimed("p-7", "more")))):
        found = wait(next_operation(one, half))
        words = "p-7: no login: repair p-7, where an attempt has begun; or, once it is shut down, give it up: `kubectl"
        assert (found.reason, words in found.message) == ("WaitingForMachines", True), found.message
    given_up = replace(half, replace={"p-7": "it is given up"})
    after = operation(next_operation(before, given_up)).applies
    assert after is not None
    assert after.machines == ("p-8",)


EXTERNAL = (wanted_set("cp", "control-plane"), wanted_set("db", "etcd", replicas=3))
DATABASES = (claimed("p-9", "cp"), *(claimed(f"p-{number}", "db") for number in range(3)))
# By what is lost where etcd has machines of its own: the operation, on which machines, and whether it restores.
APART: dict[tuple[str, ...], tuple[str, tuple[str, ...], bool]] = {
    ("p-9",): ("rebuild", ("p-7", "p-0", "p-1", "p-2"), False),
    ("p-9", "p-0"): ("rebuild", ("p-7", "p-0", "p-1", "p-2"), False),
    ("p-9", "p-0", "p-1"): ("rebuild", ("p-7", "p-2"), True),
    ("p-9", "p-0", "p-1", "p-2"): ("rebuild", ("p-7", "p-8"), True),
    ("p-0", "p-1"): ("recover", ("p-9", "p-2"), True),
}


@pytest.mark.parametrize("lost", APART)
def test_etcd_of_its_own_is_restored_only_if_it_is_lost_too(lost: tuple[str, ...]) -> None:
    name, members, restores = APART[lost]
    one = wish(*EXTERNAL, machines=(*DATABASES, claimed("p-7", "cp"), claimed("p-8", "db")))
    gone = dict.fromkeys(lost, GONE)
    there = replace(deployed(wish(*EXTERNAL, machines=DATABASES)), lost=gone, ill=gone, authority=KEYS)
    there = replace(there, backups=(SUNDAY,), restore=asks())
    found = operation(next_operation(one, there))
    assert found.applies is not None
    assert (found.operation, found.applies.machines) == (name, members)
    assert (found.snapshot is not None) == restores
    unasked = next_operation(one, replace(there, restore=None))
    assert isinstance(unasked, CurrentOperation) != restores, "nothing is lost that a person has to confirm"
    if not restores:
        said = answered(one, there)
        assert (said.way, said.reason) == (ROLLBACK, "MachinesDown")
        held = wish(*EXTERNAL, machines=(*DATABASES, claimed("p-7", "cp")), approval="Manual")
        assert wait(next_operation(held, there)).reason == "WaitingForApproval"


def test_a_lost_member_of_etcd_that_goes_on_is_removed_from_it_later() -> None:
    one = wish(*EXTERNAL, machines=(*DATABASES, claimed("p-7", "cp"), claimed("p-8", "db")))
    gone = dict.fromkeys(("p-9", "p-0"), GONE)
    there = replace(deployed(wish(*EXTERNAL, machines=DATABASES)), lost=gone, ill=gone, authority=KEYS)
    found = operation(next_operation(one, there))
    due = due_of(found, one, begun(there, found))
    assert due is not None
    assert [host.machine for host in due.hosts] == ["p-7", "p-1", "p-2"], "no play speaks to a machine that is lost"
    after = ended(begun(there, found))
    follows = operation(next_operation(one, after))
    assert (follows.operation, follows.machines) == ("remove-node", ("p-0",))


def test_a_cluster_without_any_etcd_member_says_how_both_are_made_anew() -> None:
    one = wish(*EXTERNAL, machines=DATABASES)
    lost = dict.fromkeys(("p-0", "p-1", "p-2"), GONE)
    found = wait(next_operation(one, replace(deployed(one), lost=lost, authority=KEYS)))
    assert (found.reason, found.message[:25]) == ("NotRecoverable", "all etcd members are lost")
    assert "`kubectl annotate vma p-9 -n default cluster.vmatrix.dev/replace=lost`" in found.message


@pytest.mark.parametrize("outcome", ["failed", "interrupted", "cancelled"])
def test_what_is_recovered_half_is_recovered_again_and_never_removed_member_by_member(outcome: str) -> None:
    there = replace(LOSS, restore=asks())
    half = ended(begun(there, operation(next_operation(planes(), there))), outcome, "product")
    back = replace(half, lost={}, lost_at={}, ill={}, restore=None)  # the EtcdRestore has failed, machines are back
    assert back.unsettled is not None
    assert back.unsettled.lost == ("p-1", "p-2")
    found = wait(next_operation(planes(), back))
    assert (found.reason, f"recover 2 {outcome}" in found.message) == ("RestoreNotNamed", True)
    another = operation(next_operation(planes(), replace(back, restore=asks(uid="uid-another"))))
    assert (another.operation, another.machines) == (RECOVER, ("p-1", "p-2"))
    assert ended(begun(back, another)).unsettled is None


def test_a_rollback_that_failed_holds_everything_until_another_restore() -> None:
    there = world(restore=asks())
    failed = replace(ended(begun(there, operation(next_operation(planes(), there))), "failed", "product"), restore=None)
    other = planes(version="1.36.1")
    found = wait(next_operation(other, failed))
    assert found.reason == "Failed"
    assert "restore 2 failed, and members of etcd may be of different times: make an EtcdRestore" in found.message
    said = wait(next_operation(other, replace(failed, restore=asks("", uid="uid-another"))))
    assert "EtcdRestore NotConfirmed: what was written since" in said.message
    again = operation(next_operation(other, replace(failed, restore=asks(uid="uid-another"))))
    assert again.operation == "restore"
    after = ended(begun(failed, again))
    assert after.unsettled is not None
    assert after.unsettled.parts == ("settings", "addons")


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (ROLLBACK, LOSS, "has lost it since: restore 2 failed, and members of etcd may be of different times; make an"),
        (MAJORITY_LOST, world(), "has it again: restore 2 failed, and members of etcd may be of different times; make"),
    ],
)
def test_what_is_restored_half_is_said_where_the_situation_changes(
    before: RestoreWay, now: Observed, words: str
) -> None:
    there = world(restore=asks())
    failed = ended(begun(there, operation(next_operation(planes(), there))), "failed", "infra")
    found = answered(planes(), replace(now, unsettled=failed.unsettled, restore=asks(way=before)))
    assert (found.phase, found.reason) == ("Failed", "SituationChanged")
    assert words in found.message
    assert "nothing was restored" not in found.message


def test_one_that_failed_passing_is_tried_again_by_itself() -> None:
    there = world(restore=asks())
    failed = ended(begun(there, operation(next_operation(planes(), there))), "failed", "infra")
    assert wait(next_operation(planes(), failed)).reason == "RetryLater"


def test_a_cluster_goes_back_once_and_its_settings_follow() -> None:
    there = world(restore=asks())
    found = operation(next_operation(planes(), there))
    assert (found.operation, found.why) == ("restore", "EtcdRestore undo: back to 2026-11-22")
    assert found.snapshot is not None
    assert (found.snapshot.backup, found.snapshot.restore) == ("sunday", "uid-undo")
    assert [step.operation for step in plan(planes(), there)] == ["restore", "reconfigure"]
    after = ended(begun(there, found))
    assert (after.applied is not None, after.restore) == (True, None)
    assert operation(next_operation(planes(), after)).operation == "reconfigure"
    assert operation(next_operation(planes(), replace(after, restore=asks()))).operation == "reconfigure"


@many
@given(
    confirm=st.sampled_from(["", "true", "2026-11-22", "2026-11-23"]),
    way=st.sampled_from([None, ROLLBACK, MAJORITY_LOST]),
    wanted=st.integers(1, 3),
    lost=st.sets(st.sampled_from(["p-0", "p-1", "p-2"])),
    ill=st.sets(st.sampled_from(["p-0", "p-1", "p-2"])),
    backups=st.sampled_from([(), (SUNDAY,), (MONDAY, SUNDAY), (MONDAY,)]),
)
def test_only_a_confirmed_restore_of_this_situation_begins(
    confirm: str,
    way: RestoreWay | None,
    wanted: int,
    lost: set[str],
    ill: set[str],
    backups: tuple[SeenBackup, ...],
) -> None:
    there = world(*lost, backups=backups, silent=frozenset(ill), ill=dict.fromkeys({*lost, *ill}, GONE))
    one = planes(wanted)
    one = replace(one, refused=tuple(mistake.text for mistake in against(one.wish, PLANES, there)))
    assert begins(one, there) is None, "nobody asks for anything"
    found = begins(one, replace(there, restore=asks(confirm, way)))
    ways = {operation: known for known, operation in OPERATIONS.items()}
    assert found is None or (confirm == SUNDAY.taken and way in (None, ways[found]))


def etcd_restore(name: str, made: str, phase: str | None = None, cluster: str = "guest", **meta: Any) -> EtcdRestore:
    """Return an EtcdRestore."""
    meta = {"name": name, "uid": f"uid-{name}", "creationTimestamp": made, **meta}
    spec = {"cluster": cluster, "backup": "sunday"}
    return EtcdRestore.model_validate({"metadata": meta, "spec": spec, "status": {"phase": phase}})


@pytest.mark.parametrize(
    ("restores", "history", "first"),
    [
        ((), (), None),
        ((etcd_restore("b", "2"), etcd_restore("a", "3")), (), "b"),
        ((etcd_restore("c", "1", "Succeeded"), etcd_restore("b", "2", "Failed"), etcd_restore("a", "3")), (), "a"),
        ((etcd_restore("b", "2", "Failed"),), (), None),
        ((etcd_restore("b", "2"),), ("uid-b",), None),
        ((etcd_restore("b", "2", cluster="other"),), (), None),
        ((etcd_restore("b", "2", deletionTimestamp="3"),), (), None),
    ],
)
def test_each_restore_is_once_and_the_first_comes_first(
    restores: tuple[EtcdRestore, ...], history: tuple[str, ...], first: str | None
) -> None:
    past = [{"sequence": 1, "operation": "restore", "outcome": "succeeded", "restoreUid": uid} for uid in history]
    cluster = DeclaredCluster.model_validate({"metadata": {"name": "guest"}, "status": {"history": past}})
    found = observed(cluster, (), NOW, (), restores).restore
    assert (found.name if found is not None else None) == first


def of_object(**spec: Any) -> str:
    """Return what is wrong with a new ClusterDeployment."""
    _, found = read(deployment(**spec), load_releases().kubernetes)
    return "; ".join(one.text for one in found)


def of_edit(one: Desired) -> str:
    """Return what is wrong with an edit of a cluster of three control planes."""
    return "; ".join(mistake.text for mistake in against(one.wish, PLANES, world()))


def of_snapshot(place: Path, content: bytes) -> str:
    """Return how a snapshot is refused that an operation is to restore."""
    store = SnapshotStore(place, "prod", etcd_files.place())
    taken(store)
    etcd_files.write(store.path, content)
    with pytest.raises(BadInput) as refused:
        store.begin("rebuild")
    return f"{refused.value.summary}; {refused.value.hint}"


def of_bucket() -> str:
    """Return how an object store's answer that there is no bucket is told."""
    error = test_object_store.failed(test_object_store.refused("NoSuchBucket"))
    return f"{error.summary}; {error.hint}"


# What a person may ask for wrongly: how it is refused, and words of what is named and of the remedy.
INPUTS: dict[str, tuple[Callable[[Path], str], str, str]] = {
    "a snapshot of another cluster": (
        lambda _: answered(planes(), world(restore=asks(), backups=BACKUP["of another cluster"])).message,
        "EtcdBackup sunday is of another cluster",
        "make another one once a backup is Verified",
    ),
    "a snapshot of a later etcd": (
        lambda _: answered(planes(), world(restore=asks(), backups=BACKUP["of a later etcd"])).message,
        "EtcdBackup sunday was taken of etcd 3.99.0",
        "upgrade etcd first (spec.components.etcd), or name an earlier backup",
    ),
    "a snapshot with another hash": (
        lambda place: of_snapshot(place, etcd_files.snapshot_of(b"another")),
        "prod/a.db",
        "an EtcdRestore of another EtcdBackup",
    ),
    "a bucket that is missing": (lambda _: of_bucket(), "bucket", "create"),
    "a schedule that never fires": (
        lambda _: of_object(etcd={"backup": {"schedule": "0 0 31 2 *", "destination": {"claim": "c"}}}),
        "spec.etcd.backup.schedule: '0 0 31 2 *'",
        "write minute, hour, day of the month",
    ),
    "a restore while an operation runs": (
        lambda _: answered(planes(), world(restore=asks(), running=RUNS["an operation"])).message,
        "reconfigure 2 runs",
        "it begins after its end",
    ),
    "a restore without confirm": (
        lambda _: answered(planes(), world(restore=asks(""))).message,
        "to confirm that, set spec.confirm to 2026-11-22",
        "kubectl patch ver undo",
    ),
    "a restore of everything without the CAs": (
        lambda _: answered(planes(), replace(HEALTH["the CAs are lost as well"][0], restore=asks())).message,
        "without the keys of the cluster's CAs",
        "Start a machine from a disk that is left",
    ),
    "two members": (
        lambda _: of_object(machineSets=[wanted_set("cp", "control-plane", replicas=2)]),
        "spec.machineSets: two control planes would be two etcd members",
        "use one or three control planes",
    ),
    "fewer members than a majority": (
        lambda _: of_edit(planes(1)),
        "spec.machineSets: of 3 etcd members 2 would leave",
        "remove 1 at a time",
    ),
    "an older Kubernetes": (lambda _: of_edit(planes(version="1.35.4")), "spec.version: ", "use 1.36.3 or newer"),
    "an older etcd": (
        lambda _: of_edit(planes(components={"etcd": "3.4.3"})),
        "spec.components.etcd: etcd 3.4.3 is older than",
        "or remove the field",
    ),
}


@pytest.mark.parametrize("case", INPUTS)
def test_bad_input_is_refused_by_name_with_a_remedy(case: str, tmp_path: Path) -> None:
    refused, named, remedy = INPUTS[case]
    said = refused(tmp_path)
    assert (named in said, remedy in said) == (True, True), said
