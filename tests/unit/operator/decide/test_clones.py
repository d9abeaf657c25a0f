"""A cluster begins as a clone only before it has anything; whatever is lacking is said with its remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.operator.api.cluster import CurrentOperation
from harness.operator.api.etcd import CLONE
from harness.operator.decide.backups import SeenBackup
from harness.operator.decide.clones import CLONE_RULES, clone_answer
from harness.operator.decide.desired import Desired
from harness.operator.decide.due import Situation
from harness.operator.decide.observed import Observed, SeenRestore, begun, ended
from harness.operator.decide.operations import due_of, next_operation, plan
from harness.operator.decide.restores import RestoreAnswer
from harness.operator.decide.variables import key_name
from tests.unit.operator.decide.seen import seen
from tests.unit.operator.decide.wishes import (
    CP,
    NOW,
    WORKERS,
    deployed,
    etcd_wish,
    members,
    operation,
    past,
    wait,
    wish,
)
from tests.unit.pages import ROOT

TAKEN = "2026-11-22"
SUNDAY = seen("sunday", "foreign", taken=TAKEN, cluster="prod", whole=True, etcd="3.6.5", kubernetes="1.36.1")
ASKED = SeenRestore("copy", "uid-copy", "sunday", TAKEN, source="prod")
KEY = "c2VjcmV0"


def bare(*backups: SeenBackup, **more: Any) -> Observed:
    """Return the world before a cluster begins, in which somebody asks for a clone."""
    return replace(Observed(NOW, backups=backups or (SUNDAY,), restore=ASKED), **more)


def answered(one: Desired, there: Observed) -> RestoreAnswer:
    """Return what the EtcdRestore does."""
    found = clone_answer(Situation.of(one, there))
    assert found is not None
    return found


ONE = wish()
FAILED = past(ONE, "clone", outcome="failed", backup="sunday", backupUid="uid-sunday", summary="no quorum")
BY_DEPLOY = past(ONE, "deploy", outcome="failed")
RUNS = CurrentOperation(sequence=2, operation="reset")
# By what is there: the wish, the world, and what the EtcdRestore says: phase, reason, words.
ROWS: dict[str, tuple[Desired, Observed, str, str, str]] = {
    "a wish with mistakes": (wish(refused=("spec.version: no",)), bare(), "Waiting", "NotAccepted", "spec.version: no"),
    "an etcd": (etcd_wish(*members(0)), bare(), "Failed", "TargetIsEtcd", "is an EtcdCluster, which begins empty"),
    "an etcd of others": (
        wish(etcd={"clusterRef": {"name": "store"}}), bare(), "Failed", "EtcdElsewhere",
        "guest is to have its keys in EtcdCluster store, and a clone begins with an etcd of its own: delete this",
    ),
    "an adoption": (wish(adopt=True), bare(), "Failed", "TargetAdopts", "clone begins on machines without any"),
    "deployed": (
        ONE, replace(deployed(ONE), restore=ASKED, backups=(SUNDAY,)), "Failed", "TargetBegun",
        "is deployed, and nothing of it was changed: to have a clone, make the EtcdRestore before the",
    ),
    "a deployment that failed": (ONE, bare(history=(BY_DEPLOY,)), "Failed", "TargetBegun", "deploy 1 has begun on"),
    "a clone of another": (
        ONE, bare(history=(FAILED.model_copy(update={"backup_uid": "x"}),)), "Failed", "TargetBegun",
        "clone 1 of EtcdBackup sunday has begun on the machines of guest: delete the ClusterDeployment, and",
    ),
    "no backup": (ONE, bare(seen("monday")), "Pending", "BackupNotVerified", "there is no EtcdBackup sunday: del"),
    "of another cluster": (
        ONE, bare(replace(SUNDAY, cluster="test"), replace(SUNDAY, name="friday")), "Pending", "BackupNotVerified",
        "EtcdBackup sunday is of cluster test, and spec.from is prod: delete this EtcdRestore, and make another one of "
        "a backup of prod that is Verified, such as friday",
    ),
    "not verified": (ONE, bare(replace(SUNDAY, whole=False)), "Pending", "BackupNotVerified", "is not verified: wait"),
    "a later etcd": (ONE, bare(replace(SUNDAY, etcd="3.99.0")), "Pending", "LaterEtcd", "(spec.components.etcd)"),
    "an earlier Kubernetes": (
        wish(version="1.35.4"), bare(), "Pending", "OtherKubernetes",
        "was taken of Kubernetes 1.36.1, and the cluster is to have 1.35.4: set spec.version to 1.36.x or 1.37.x",
    ),
    "a later Kubernetes": (ONE, bare(replace(SUNDAY, kubernetes="1.34.1")), "Pending", "OtherKubernetes", "1.34.x or"),
    "no key": (ONE, bare(replace(SUNDAY, encryption=key_name(KEY))), "Pending", "OtherKey", "the cluster has no key"),
    "another key": (
        wish(variables={"cluster_encryption_key": "YQ=="}), bare(replace(SUNDAY, encryption=key_name(KEY))), "Pending",
        "OtherKey", "give it the key of prod (spec.variables.cluster_encryption_key)",
    ),
    "the key": (
        wish(variables={"cluster_encryption_key": KEY}), bare(replace(SUNDAY, encryption=key_name(KEY))), "Waiting",
        "Waiting", "it begins now",
    ),
    "not confirmed": (
        ONE, bare(restore=replace(ASKED, confirm="")), "Pending", "NotConfirmed",
        f"guest gets all that prod had at {TAKEN}, its Secrets included, and nothing that is newer: to confirm",
    ),
    "another time": (ONE, bare(restore=replace(ASKED, confirm="x")), "Pending", "ConfirmsAnother", "spec.confirm is x"),
    "a reset": (ONE, bare(running=RUNS), "Waiting", "OperationRunning", "reset 2 runs: it begins after its end"),
    "nothing": (ONE, bare(), "Waiting", "Waiting", "it begins now"),
    "an older backup": (ONE, bare(replace(SUNDAY, etcd="", kubernetes="")), "Waiting", "Waiting", "it begins now"),
    "a retry": (ONE, bare(history=(FAILED,)), "Waiting", "Waiting", "it begins now"),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_what_a_clone_waits_for_is_said_with_what_to_do(row: str) -> None:
    one, there, phase, reason, words = ROWS[row]
    found = answered(one, there)
    assert (found.phase, found.reason, found.way) == (phase, reason, CLONE), found.message
    assert words in found.message, found.message
    begins = next_operation(one, there)
    assert (isinstance(begins, CurrentOperation) and begins.operation == "clone") == found.begins


def test_every_rule_is_in_the_table_and_in_the_docs() -> None:
    reasons = {str(rule.reason) for rule in CLONE_RULES}
    assert reasons == {row[3] for row in ROWS.values()} - {"Waiting"}
    text = (ROOT / "docs/operator/backups.md").read_text(encoding="utf-8")
    assert [reason for reason in reasons if f"`{reason}`" not in text] == []


def test_a_clone_begins_with_the_snapshot_of_its_source_and_what_is_wished() -> None:
    there = bare()
    found = operation(next_operation(ONE, there))
    assert (found.operation, found.machines) == ("clone", ("cp-0", "w-1", "w-2"))
    assert found.snapshot is not None
    assert (found.snapshot.backup, found.snapshot.restore, found.snapshot.forget) == ("sunday", "uid-copy", ())
    due = due_of(found, ONE, begun(there, found))
    assert due is not None
    assert due.variables["cluster_etcd_restore_confirmation"] == TAKEN
    after = ended(begun(there, found))
    assert after.applied is not None
    assert (after.applied.version, after.restore, after.unsettled) == (ONE.spec.version, None, None)
    assert "cluster_etcd_restore_confirmation" not in after.applied.variables
    same = operation(next_operation(ONE, Observed(NOW))).applies
    assert same is not None
    assert after.applied.digests == same.digests, "it is what a deployment would have made"


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        (bare(restore=replace(ASKED, confirm="")), "RestoreNotConfirmed"),
        (bare(seen("monday")), "RestoreNotNamed"),
    ],
)
def test_nothing_is_deployed_while_somebody_asks_for_a_clone(there: Observed, reason: str) -> None:
    found = wait(next_operation(ONE, there))
    assert (found.reason, found.message[:18]) == (reason, "EtcdRestore copy: ")
    assert [step.operation for step in plan(ONE, there)] == ["clone"]


@pytest.mark.parametrize("untouched", [True, False])
def test_nothing_is_deployed_in_the_place_of_a_clone_that_failed(*, untouched: bool) -> None:
    failed = FAILED.model_copy(update={"untouched": untouched})
    found = wait(next_operation(ONE, bare(restore=None, history=(failed,))))
    assert found.reason == "Failed"
    assert "clone 1 failed: no quorum: make another EtcdRestore of EtcdBackup sunday, or delete the" in found.message
    assert [step.operation for step in plan(ONE, bare(restore=None, history=(failed,)))] == ["clone"]
    over = FAILED.model_copy(update={"outcome": "succeeded"})
    assert operation(next_operation(ONE, bare(restore=None, history=(over,)))).operation == "deploy"


def test_a_clone_waits_for_machines_as_a_deployment_does() -> None:
    assert wait(next_operation(wish(CP, WORKERS, machines=()), bare())).reason == "WaitingForMachines"


def test_a_restore_of_another_cluster_changes_nothing_of_one_that_is_deployed() -> None:
    there = replace(deployed(ONE), restore=ASKED, backups=(SUNDAY,))
    assert not isinstance(next_operation(ONE, there), CurrentOperation)
