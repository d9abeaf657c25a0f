"""Restores with a real API server: each EtcdRestore is confirmed, and carried out once."""

from __future__ import annotations

import pytest

from harness.kube.client import ApiFailure, Json
from harness.kube.objects import condition, dig
from harness.operator.api.resources import ETCD_BACKUP, ETCD_RESTORE, MACHINE
from harness.operator.context import OperatorContext
from harness.until import NotYet
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.world import ACTIVE, MINE, NAME, OPTIONS, World, failed

DEPLOY, RECOVER, REBUILD = f"{NAME}-1-deploy", f"{NAME}-2-recover", f"{NAME}-2-rebuild"
# Ahead, so that nobody waits for what else is lost to show before one of two is removed.
FIRST, SECOND = "2999-03-01T00:00:00Z", "2999-04-01T00:00:00Z"
LOST = ("m-1", "m-2")
TAKEN = "2026-02-01T00:00:00Z"
RESTORING = (*MINE, "restores")


def backup(world: World, name: str, made: Json) -> Json:
    """Have a verified backup of a cluster."""
    spec = {"cluster": NAME, "destination": {"claim": "snapshots"}}
    world.api.create(ETCD_BACKUP, ETCD_BACKUP.manifest(name, world.namespace, labels={}, spec=spec))
    place = {"location": f"snapshots:{NAME}/{name}.db", "taken": TAKEN}
    status = {"phase": "Verified", "clusterUid": made["metadata"]["uid"], **place}
    return world.api.merge(ETCD_BACKUP, name, {"status": status}, world.namespace, subresource="status")


def seen(world: World, *, lost: str | None, names: tuple[str, ...] = LOST) -> None:
    """Have two of the three control planes lost since a moment, or those named, or all of them well."""
    for name in names:
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


def ask(world: World, name: str = "undo", **spec: str) -> None:
    """Make an EtcdRestore of the backup."""
    asked = {"cluster": NAME, "backup": "old", **spec}
    world.api.create(ETCD_RESTORE, ETCD_RESTORE.manifest(name, world.namespace, labels={}, spec=asked))


def confirm(world: World, name: str = "undo", value: str = TAKEN) -> None:
    """Confirm an EtcdRestore."""
    world.api.merge(ETCD_RESTORE, name, {"spec": {"confirm": value}}, world.namespace)


def restored(world: World, status: str, reason: str, name: str = "undo") -> Json:
    """Return the condition of an EtcdRestore once it says this."""

    def said() -> Json | NotYet:
        found = condition(world.get(ETCD_RESTORE, name), "Restored") or {}
        return found if (found.get("status"), found.get("reason")) == (status, reason) else NotYet(str(found))

    return world.wait(said, f"Restored={status}, {reason}")


def test_a_lost_majority_is_recovered_by_an_etcd_restore_once(world: World, manager: StartManager) -> None:
    manager(*RESTORING, options=OPTIONS)
    three(world)
    seen(world, lost=FIRST)
    said = world.condition("Progressing", "False", "RestoreNotNamed")["message"]
    assert f'"kind": "EtcdRestore", "metadata": {{"generateName": "{NAME}-", "namespace": "{world.namespace}"}}' in said
    ask(world)
    assert (
        f"m-1, m-2 are given up: to confirm that, set spec.confirm to {TAKEN}"
        in (restored(world, "False", "NotConfirmed")["message"])
    )
    world.condition("Degraded", "True", "RestoreNotConfirmed")
    confirm(world, value="2026-01-31T00:00:00Z")
    assert (
        f"and the snapshot of EtcdBackup old was taken at {TAKEN}"
        in (restored(world, "False", "ConfirmsAnother")["message"])
    )
    assert world.kubelet.jobs() == [DEPLOY]

    manager(*RESTORING, options=OPTIONS)  # another manager, as after a restart or an upgrade, beside the first one
    confirm(world)
    world.kubelet.job(RECOVER)
    snapshot = dig(world.status(), "operation", "snapshot")
    assert (snapshot["backup"], snapshot["restore"]) == ("old", dig(world.get(ETCD_RESTORE, "undo"), "metadata", "uid"))
    world.succeed(RECOVER)
    assert "without m-1, m-2" in restored(world, "True", "Restored")["message"]
    status = dig(world.get(ETCD_RESTORE, "undo"), "status")
    assert (status["way"], status["machines"], status["lostSince"]) == ("MajorityLost", ["m-1", "m-2"], TAKEN)
    assert status["operation"] == 2
    assert [one["operation"] for one in world.history(2)] == ["recover", "deploy"]


def test_a_control_plane_is_made_again_on_another_machine_with_the_same_cas(
    world: World, manager: StartManager
) -> None:
    manager(*RESTORING, options=OPTIONS)
    made = three(world)
    seen(world, lost=FIRST, names=("m-0", *LOST))
    words = "all control planes are lost (m-0, m-1, m-2): make an EtcdRestore"

    def all_lost() -> bool | NotYet:  # two of them are a lost majority, which is said until the third is seen
        said = world.condition("Progressing", "False", "RestoreNotNamed")["message"]
        return said.startswith(words) or NotYet(said)

    world.wait(all_lost, words)
    ask(world, confirm=TAKEN)
    said = world.condition("Progressing", "True", "WaitingForMachines")["message"]
    assert "no other machine can be used as etcd and control-plane yet" in said
    assert world.kubelet.jobs() == [DEPLOY]

    world.give("m-3", made)
    job = world.succeed(REBUILD)
    sources = next(one for one in dig(job, "spec", "template", "spec", "volumes") if one["name"] == "inputs")
    secrets = {dig(one, "secret", "name") for one in sources["projected"]["sources"]} - {None}
    assert secrets >= {f"{NAME}-{name}" for name in ("ca", "etcd", "proxy", "sa")}
    assert "without m-0, m-1, m-2" in restored(world, "True", "Restored")["message"]
    assert dig(world.get(ETCD_RESTORE, "undo"), "status", "way") == "AllLost"
    assert [one["operation"] for one in world.history(2)] == ["rebuild", "deploy"]
    assert dig(world.status(), "applied", "machines") == ["m-3"]


CLONE = f"{NAME}-1-clone"


def of_source(world: World, source: str = "source") -> None:
    """Have a verified backup of another cluster."""
    spec = {"cluster": source, "destination": {"claim": "snapshots"}}
    world.api.create(ETCD_BACKUP, ETCD_BACKUP.manifest("old", world.namespace, labels={}, spec=spec))
    place = {"location": f"snapshots:{source}/old.db", "taken": TAKEN}
    status = {"phase": "Verified", "clusterUid": "another", **place}
    world.api.merge(ETCD_BACKUP, "old", {"status": status}, world.namespace, subresource="status")


def test_a_cluster_begins_as_a_clone_of_another_one(world: World, manager: StartManager) -> None:
    manager(*RESTORING, options=OPTIONS)
    of_source(world)
    ask(world, "copy", **{"from": "source"})
    assert "begins as a clone of source" in restored(world, "False", "ClusterNotFound", "copy")["message"]
    world.declare(machines=1)
    world.condition("Progressing", "False", "RestoreNotConfirmed")
    assert world.kubelet.jobs() == []
    confirm(world, "copy")
    job = world.succeed(CLONE)
    volumes = dig(job, "spec", "template", "spec", "volumes")
    claims = [dig(one, "persistentVolumeClaim", "claimName") for one in volumes]
    assert "snapshots" in claims
    sources = next(one for one in volumes if one["name"] == "inputs")["projected"]["sources"]
    secrets = {dig(one, "secret", "name") for one in sources} - {None}
    assert secrets >= {f"{NAME}-{name}" for name in ("ca", "etcd", "proxy", "sa")}, "CAs of its own"
    assert "is a clone of source as EtcdBackup old has it" in restored(world, "True", "Restored", "copy")["message"]
    assert dig(world.get(ETCD_RESTORE, "copy"), "status", "way") == "Clone"
    assert [one["operation"] for one in world.history(1)] == ["clone"]
    world.condition("Progressing", "False", "UpToDate")

    ask(world, "late", confirm=TAKEN, **{"from": "source"})
    assert "nothing of it was changed" in restored(world, "False", "TargetBegun", "late")["message"]
    assert dig(world.get(ETCD_RESTORE, "late"), "status", "phase") == "Failed"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"from": NAME}, "a cluster is not a clone of itself: remove from to go back to a backup, or name another"),
        ({"from": "No"}, "spec.from"),
    ],
)
def test_a_clone_of_nothing_is_refused(world: World, spec: dict[str, str], words: str) -> None:
    with pytest.raises(ApiFailure, match=words):
        ask(world, **spec)


@pytest.mark.parametrize("after", [None, "other"])
def test_what_a_clone_is_of_cannot_change(world: World, after: str | None) -> None:
    ask(world, **{"from": "source"})
    with pytest.raises(ApiFailure, match="from cannot change: make another EtcdRestore"):
        world.api.merge(ETCD_RESTORE, "undo", {"spec": {"from": after}}, world.namespace)


def test_what_was_meant_for_a_loss_does_nothing_once_that_is_over(world: World, manager: StartManager) -> None:
    manager(*RESTORING, options=OPTIONS)
    three(world)
    seen(world, lost=FIRST)
    ask(world)
    restored(world, "False", "NotConfirmed")
    seen(world, lost=None)
    said = restored(world, "False", "SituationChanged")["message"]
    assert said.startswith("when it was made, etcd had lost its majority, and has it again: nothing was restored")
    confirm(world)  # late
    seen(world, lost=SECOND)
    world.condition("Progressing", "False", "RestoreNotNamed")
    restored(world, "False", "SituationChanged")
    ask(world, "withdrawn")
    world.condition("Progressing", "False", "RestoreNotConfirmed")
    world.api.delete(ETCD_RESTORE, "withdrawn", world.namespace)
    world.condition("Progressing", "False", "RestoreNotNamed")
    assert world.kubelet.jobs() == [DEPLOY]


def test_machines_that_are_only_down_are_given_up_by_a_person(world: World, manager: StartManager) -> None:
    manager(*RESTORING, options=OPTIONS)
    three(world)
    silent = {"type": "Answering", "status": "False", "reason": "NoAnswer", "message": "no login"}
    for name in LOST:
        found = [{**ACTIVE, "lastTransitionTime": FIRST}, {**silent, "lastTransitionTime": FIRST}]
        world.api.merge(MACHINE, name, {"status": {"conditions": found}}, world.namespace, subresource="status")
    ask(world, confirm=TAKEN)
    said = restored(world, "False", "LossNotKnown")["message"]
    assert f"`kubectl annotate vma m-1 m-2 -n {world.namespace} cluster.vmatrix.dev/replace=lost`" in said
    assert world.kubelet.jobs() == [DEPLOY]
    for name in LOST:
        note = {"metadata": {"annotations": {"cluster.vmatrix.dev/replace": "lost"}}}
        world.api.merge(MACHINE, name, note, world.namespace)
    world.kubelet.job(RECOVER)


def test_an_old_object_that_names_a_backup_restores_nothing(world: World, manager: StartManager) -> None:
    manager(*RESTORING, options=OPTIONS)
    three(world)
    edited = world.edit(etcd={"restoreFrom": "old"})
    assert "restoreFrom" not in edited["spec"].get("etcd", {}), "it is pruned, as every field that there is none of"
    seen(world, lost=FIRST)
    world.condition("Progressing", "False", "RestoreNotNamed")
    assert world.kubelet.jobs() == [DEPLOY]


@pytest.mark.parametrize("case", ["none", "foreign"])
def test_what_cannot_be_restored_is_refused(world: World, manager: StartManager, case: str) -> None:
    manager(*RESTORING, options=OPTIONS)
    three(world)
    ask(world, backup="other", confirm=TAKEN)
    assert (
        "there is no EtcdBackup other: delete this EtcdRestore, and make another one of another backup, such as "
        in (restored(world, "False", "BackupNotVerified")["message"])
    )
    if case == "foreign":
        backup(world, "other", {"metadata": {"uid": "earlier"}})

        def foreign() -> bool | NotYet:
            said = restored(world, "False", "BackupNotVerified")["message"]
            return "EtcdBackup other is of another cluster: it was taken of an earlier cluster" in said or NotYet(said)

        world.wait(foreign, "the other refusal")
    assert world.kubelet.jobs() == [DEPLOY]


def test_two_restores_wait_for_each_other_and_for_what_runs(world: World, manager: StartManager) -> None:
    manager(*RESTORING, options=OPTIONS)
    three(world)
    world.edit(kubernetes={"kubelet": {"config": {"maxPods": 50}}})
    world.kubelet.job(f"{NAME}-2-reconfigure")
    ask(world, confirm=TAKEN)
    assert restored(world, "False", "OperationRunning")["message"] == "reconfigure 2 runs: it begins after its end"
    ask(world, "undo-later", confirm=TAKEN)  # made in the same second, perhaps: then names decide
    assert "EtcdRestore undo comes first" in restored(world, "False", "Waiting", "undo-later")["message"]
    world.succeed(f"{NAME}-2-reconfigure")
    world.kubelet.job(f"{NAME}-3-restore")
    world.kubelet.end(f"{NAME}-3-restore", message=failed("product"))
    assert "make another EtcdRestore to try again" in restored(world, "False", "RestoreFailed")["message"]
    world.kubelet.job(f"{NAME}-4-restore")  # the other one's
    assert condition(world.get(ETCD_RESTORE, "undo"), "Failed") is not None


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


def test_a_cluster_that_is_well_goes_back_once(world: World, manager: StartManager) -> None:
    manager(*RESTORING, options=OPTIONS)
    made = world.declare()
    world.succeed(DEPLOY)
    world.history(1)
    backup(world, "old", made)
    ask(world)
    assert "set spec.confirm to 2026-02-01T00:00:00Z" in restored(world, "False", "NotConfirmed")["message"]
    assert world.kubelet.jobs() == [DEPLOY]
    with pytest.raises(ApiFailure, match="cannot change: make another EtcdRestore"):
        world.api.merge(ETCD_RESTORE, "undo", {"spec": {"backup": "other"}}, world.namespace)

    confirm(world)
    world.kubelet.job(f"{NAME}-2-restore")
    restored(world, "False", "Running")
    world.succeed(f"{NAME}-2-restore")
    restored(world, "True", "Restored")
    assert dig(world.get(ETCD_RESTORE, "undo"), "status", "operation") == 2
    world.succeed(f"{NAME}-3-reconfigure")
    assert [one["operation"] for one in world.history(3)] == ["reconfigure", "restore", "deploy"]
    world.condition("Progressing", "False", "UpToDate")
