"""Restores with a real API server: nothing is restored before somebody confirms that, and an EtcdRestore is once."""

from __future__ import annotations

import pytest

from harness.kube.client import ApiFailure, Json
from harness.kube.objects import condition, dig
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, ETCD_BACKUP, ETCD_RESTORE, MACHINE
from harness.operator.context import OperatorContext
from harness.until import NotYet
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.world import ACTIVE, MINE, NAME, OPTIONS, World

DEPLOY, RECOVER = f"{NAME}-1-deploy", f"{NAME}-2-recover"
# Ahead, so that nobody waits for what else is lost to show before one of two is removed.
FIRST, SECOND = "2999-03-01T00:00:00Z", "2999-04-01T00:00:00Z"
LOST = ("m-1", "m-2")


def backup(world: World, name: str, made: Json) -> Json:
    """Have a verified backup of a cluster."""
    spec = {"cluster": NAME, "destination": {"claim": "snapshots"}}
    world.api.create(ETCD_BACKUP, ETCD_BACKUP.manifest(name, world.namespace, labels={}, spec=spec))
    place = {"location": f"snapshots:{NAME}/{name}.db", "taken": "2026-02-01T00:00:00Z"}
    status = {"phase": "Verified", "clusterUid": made["metadata"]["uid"], **place}
    return world.api.merge(ETCD_BACKUP, name, {"status": status}, world.namespace, subresource="status")


def seen(world: World, *, lost: str | None) -> None:
    """Have two of the three control planes lost since a moment, or all of them well."""
    for name in LOST:
        made = {"type": "InfrastructureReady", "status": "True", "reason": "Running", "message": ""}
        if lost is not None:
            made |= {"status": "False", "reason": "Lost", "message": "its VirtualMachine is gone"}
        reachable = {**ACTIVE, "lastTransitionTime": FIRST}
        conditions = [reachable, {**made, "lastTransitionTime": lost or FIRST}]
        world.api.merge(MACHINE, name, {"status": {"conditions": conditions}}, world.namespace, subresource="status")


def three(world: World) -> Json:
    """Have three control planes deployed, and a backup of them."""
    made = world.declare(machines=3)
    world.succeed(DEPLOY)
    world.history(1)
    backup(world, "old", made)
    return made


def asked(world: World) -> str:
    """Return the confirmation that the status asks for, while nothing was begun."""
    said = world.condition("Progressing", "False", "RestoreNotConfirmed")["message"]
    found = str(dig(world.get(CLUSTER_DEPLOYMENT), "status", "confirmation"))
    assert f"cluster.vmatrix.dev/restore={found}" in said
    assert world.kubelet.jobs() == [DEPLOY]
    world.condition("Degraded", "True", "RestoreNotConfirmed")
    return found


def not_confirmed(world: World, by: str, wanted: str) -> None:
    """Wait until an annotation is said to confirm something else, and nothing began."""

    def said() -> bool | NotYet:
        message = world.condition("Progressing", "False", "RestoreNotConfirmed")["message"]
        return (f"; {by} confirms another restore" in message and wanted in message) or NotYet(message)

    world.wait(said, f"{by} to be refused")
    assert world.kubelet.jobs() == [DEPLOY]


def test_a_backup_that_was_named_before_the_loss_restores_nothing(world: World, manager: StartManager) -> None:
    manager(*MINE, options=OPTIONS)
    three(world)
    world.edit(etcd={"restoreFrom": "old"})
    said = world.condition("Accepted", "False", "InvalidSpec")["message"]
    assert said.startswith("spec.etcd.restoreFrom: nothing is lost: etcd has its majority")
    world.condition("Progressing", "False", "NotAccepted")

    seen(world, lost=FIRST)  # weeks later
    world.condition("Accepted", "True")
    first = asked(world)
    world.edit(etcd={"restoreFrom": "old"})  # as a tool writes it every few minutes
    manager(*MINE, options=OPTIONS)  # another manager, as after a restart or an upgrade, beside the first one
    world.annotate(restore="true")
    not_confirmed(world, "true", first)

    world.annotate(restore=first)
    world.kubelet.job(RECOVER)
    assert dig(world.status(), "operation", "snapshot", "backup") == "old"


def test_a_confirmation_is_of_one_loss_alone(world: World, operator: OperatorContext) -> None:
    three(world)
    seen(world, lost=FIRST)
    world.condition("Progressing", "False", "RestoreNotNamed")
    world.edit(etcd={"restoreFrom": "old"})
    first = asked(world)

    seen(world, lost=None)
    world.condition("Progressing", "False", "NotAccepted")
    assert dig(world.get(CLUSTER_DEPLOYMENT), "status", "confirmation") is None
    world.annotate(restore=first)  # late: what it was given for is over
    seen(world, lost=SECOND)
    second = asked(world)
    assert second != first
    not_confirmed(world, first, second)
    world.edit(etcd={"restoreFrom": None})
    world.condition("Progressing", "False", "RestoreNotNamed")
    assert world.kubelet.jobs() == [DEPLOY]


def test_another_backup_of_the_name_is_confirmed_anew(world: World, operator: OperatorContext) -> None:
    made = three(world)
    seen(world, lost=FIRST)
    world.edit(etcd={"restoreFrom": "old"})
    first = asked(world)
    world.edit(paused=True)
    world.annotate(restore=first)
    world.condition("Progressing", "False", "Paused")
    world.api.delete(ETCD_BACKUP, "old", world.namespace)
    world.gone(ETCD_BACKUP, "old")
    backup(world, "old", made)
    world.edit(paused=False)
    not_confirmed(world, first, "EtcdBackup old")


def test_an_approval_that_was_given_before_it_was_asked_for_approves_nothing(
    world: World, operator: OperatorContext
) -> None:
    world.declare(version="1.36.1", approval="Manual")
    world.annotate(approve="2")
    world.succeed(DEPLOY)
    world.history(1)
    world.edit(version="1.36.3")
    said = world.condition("Progressing", "False", "WaitingForApproval")["message"]
    assert "cluster.vmatrix.dev/approve=3; 2 was approved, which is another operation" in said
    world.edit(version="1.36.1")
    world.condition("Progressing", "False", "UpToDate")
    world.wait(lambda: "approval" not in world.status() or NotYet(f"{world.status()}"), "the number to be withdrawn")
    world.annotate(approve="3")
    world.edit(version="1.36.3")
    said = world.condition("Progressing", "False", "WaitingForApproval")["message"]
    assert "cluster.vmatrix.dev/approve=4; 3 was approved, which is another operation" in said


def restored(world: World, status: str, reason: str) -> Json:
    """Wait until an EtcdRestore says this."""

    def said() -> Json | NotYet:
        found = condition(world.get(ETCD_RESTORE, "undo"), "Restored") or {}
        return found if (found.get("status"), found.get("reason")) == (status, reason) else NotYet(str(found))

    return world.wait(said, f"Restored={status}, {reason}")


def test_a_cluster_that_is_well_goes_back_once(world: World, manager: StartManager) -> None:
    manager(*MINE, "restores", options=OPTIONS)
    made = world.declare()
    world.succeed(DEPLOY)
    world.history(1)
    backup(world, "old", made)
    spec = {"cluster": NAME, "backup": "old"}
    world.api.create(ETCD_RESTORE, ETCD_RESTORE.manifest("undo", world.namespace, labels={}, spec=spec))
    assert "set spec.confirm to 2026-02-01T00:00:00Z" in restored(world, "False", "NotConfirmed")["message"]
    assert world.kubelet.jobs() == [DEPLOY]
    with pytest.raises(ApiFailure, match="cannot change: make another EtcdRestore"):
        world.api.merge(ETCD_RESTORE, "undo", {"spec": {"backup": "other"}}, world.namespace)

    world.api.merge(ETCD_RESTORE, "undo", {"spec": {"confirm": "2026-02-01T00:00:00Z"}}, world.namespace)
    world.kubelet.job(f"{NAME}-2-restore")
    restored(world, "False", "Running")
    world.succeed(f"{NAME}-2-restore")
    restored(world, "True", "Restored")
    assert dig(world.get(ETCD_RESTORE, "undo"), "status", "operation") == 2
    world.succeed(f"{NAME}-3-reconfigure")
    assert [one["operation"] for one in world.history(3)] == ["reconfigure", "restore", "deploy"]
    world.condition("Progressing", "False", "UpToDate")
