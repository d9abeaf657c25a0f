"""EtcdBackups with a real API server: taken one at a time, told in their status, kept and pruned; executors are played.

The claims are real, and the control plane binds them once a test makes their volume, which nothing mounts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from harness.kube.client import Json
from harness.kube.failures import ApiFailure
from harness.kube.objects import condition, dig, is_condition
from harness.kube.resources import JOB, PV, PVC
from harness.operator.api.resources import CLUSTER, ETCD_BACKUP
from harness.operator.context import OperatorContext
from harness.operator.execute.termination import Termination
from harness.until import NotYet
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.world import MINE, NAME, OPTIONS, World, failed

CLAIM = "snapshots"
FACTS: dict[str, str | int] = {"member": "m-0", "etcdVersion": "3.6.11", "revision": 7, "hash": 5, "keys": 3}
FOUND = {**FACTS, "sizeBytes": 20, "sha256": "0" * 64, "taken": "2999-01-01T00:00:00Z"}
TAKEN = Termination("succeeded", snapshot=FOUND).to_text()
POLICY = {"beforeDisruption": True, "destination": {"claim": CLAIM}, "keep": 1}


@pytest.fixture
def backing_up(manager: StartManager) -> OperatorContext:
    """Return a running manager with the controller of backups, too."""
    return manager(*MINE, "backups", options=OPTIONS)


@dataclass
class Storage:
    """The claim of a test's namespace, and the volume that the control plane binds to it."""

    world: World

    @property
    def volume(self) -> str:
        """Return the name of the volume."""
        return f"{self.world.namespace}-{CLAIM}"

    def claim(self, *, bound: bool = True) -> None:
        """Make the claim."""
        resources = {"requests": {"storage": "1Gi"}}
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": resources}
        self.world.api.create(PVC, PVC.manifest(CLAIM, self.world.namespace, labels={}, spec=spec))
        if bound:
            self.bind()

    def bind(self) -> None:
        """Make the volume."""
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": self.world.namespace, "name": CLAIM},
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/nonexistent"},
        }
        body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": self.volume}, "spec": spec}
        self.world.api.create(PV, body)


@pytest.fixture
def storage(world: World) -> Iterator[Storage]:
    """Return the storage of the test's namespace; its volume is deleted after the test."""
    made = Storage(world)
    yield made
    world.api.delete(PV, made.volume)


def ask(world: World, name: str = "before", cluster: str = NAME) -> Json:
    """Make an EtcdBackup."""
    spec = {"cluster": cluster, "destination": {"claim": CLAIM}}
    return world.api.create(ETCD_BACKUP, ETCD_BACKUP.manifest(name, world.namespace, labels={}, spec=spec))


def reaches(world: World, phase: str, reason: str | None = None, name: str = "before") -> Json:
    """Return an EtcdBackup once it is in a phase, for a reason."""

    def probe() -> Json | NotYet:
        found = world.get(ETCD_BACKUP, name)
        words = condition(found, "Verified") or {}
        same = dig(found, "status", "phase") == phase and reason in (None, words.get("reason"))
        return found if found is not None and same else NotYet(f"it is {found}")

    return world.wait(probe, f"EtcdBackup {name} to be {phase} ({reason or 'any reason'})")


def take(world: World, job: str, message: str = TAKEN, exit_code: int = 0) -> Json:
    """Let the executor of a backup end; return its Job."""
    world.kubelet.job(job)
    return world.kubelet.end(job, message=message, exit_code=exit_code)


def test_backup_is_taken_into_its_claim_and_told_in_its_status(
    world: World, storage: Storage, backing_up: OperatorContext
) -> None:
    made = world.deployed()
    storage.claim()
    ask(world)
    job = take(world, f"{NAME}-2-backup")
    found = reaches(world, "Verified")["status"]
    assert {name: found[name] for name in FOUND} == FOUND
    assert (found["location"], found["clusterUid"]) == (f"{CLAIM}:{NAME}/before.db", made["metadata"]["uid"])
    (volume,) = (one for one in dig(job, "spec", "template", "spec", "volumes") if one["name"] == "snapshots")
    assert volume["persistentVolumeClaim"]["claimName"] == CLAIM
    status = world.status()
    assert (status["applied"]["machines"], status["history"][0]["backup"]) == (["m-0"], "before")
    world.condition("Ready", "True")
    assert f"{NAME}-3-backup" not in world.kubelet.jobs()


def test_backup_waits_for_its_claim_and_says_what_to_do(
    world: World, storage: Storage, backing_up: OperatorContext
) -> None:
    world.deployed()
    ask(world)
    said = condition(reaches(world, "Pending", "ClaimNotFound"), "Verified") or {}
    assert said["message"] == f"there is no PersistentVolumeClaim {CLAIM}: create it in this namespace"
    storage.claim(bound=False)
    reaches(world, "Pending", "ClaimNotBound")
    assert world.kubelet.jobs() == [f"{NAME}-1-deploy"]
    storage.bind()
    world.kubelet.job(f"{NAME}-2-backup")
    reaches(world, "Running")


def test_backup_waits_for_the_end_of_another_operation(
    world: World, storage: Storage, backing_up: OperatorContext
) -> None:
    storage.claim()
    world.declare()
    ask(world)
    reaches(world, "Pending", "NotDeployed")
    world.succeed(f"{NAME}-1-deploy")
    world.kubelet.job(f"{NAME}-2-backup")
    ask(world, "second")
    reaches(world, "Waiting", name="second")
    assert f"{NAME}-3-backup" not in world.kubelet.jobs()
    take(world, f"{NAME}-2-backup")
    take(world, f"{NAME}-3-backup")
    reaches(world, "Verified", name="second")


def test_backup_that_failed_says_so_and_leaves_the_cluster_ready(
    world: World, storage: Storage, backing_up: OperatorContext
) -> None:
    world.deployed()
    storage.claim()
    ask(world)
    take(world, f"{NAME}-2-backup", failed("product", task="Save", host="m-0"), exit_code=1)
    found = reaches(world, "Failed")
    assert is_condition(found, "Failed", "True")
    assert "at task 'Save' on m-0: it broke" in (condition(found, "Failed") or {})["message"]
    world.condition("Ready", "True")
    ask(world, "again")
    take(world, f"{NAME}-3-backup")
    reaches(world, "Verified", name="again")


def test_backup_of_no_cluster_says_so(world: World, backing_up: OperatorContext) -> None:
    ask(world, cluster="none")
    reaches(world, "Pending", "ClusterNotFound")


def test_upgrade_makes_its_backup_first(world: World, storage: Storage, backing_up: OperatorContext) -> None:
    world.declare(version="1.36.1", etcd={"backup": POLICY})
    world.succeed(f"{NAME}-1-deploy")
    storage.claim()
    world.history(1)
    world.edit(version="1.36.3")
    take(world, f"{NAME}-2-backup")
    (made,) = world.api.list(ETCD_BACKUP, world.namespace).items
    name = made["metadata"]["name"]
    assert name.startswith(f"{NAME}-before-2-")
    reaches(world, "Verified", name=name)

    def goes_on() -> bool | NotYet:
        plan = [step["operation"] for step in world.status().get("plan") or []]
        running = dig(world.status(), "operation", "operation")
        return "upgrade" in (running, *plan[:1]) or NotYet(f"{running} runs, then {plan}")

    world.wait(goes_on, "the upgrade to be next")
    assert len(world.api.list(ETCD_BACKUP, world.namespace).items) == 1


@pytest.mark.parametrize("policy", ["Keep", "Delete"])
def test_backups_of_a_deleted_cluster_are_kept_unless_it_says_otherwise(
    world: World, storage: Storage, backing_up: OperatorContext, policy: str
) -> None:
    world.declare(deletion={"machines": "Leave", "backups": policy})
    storage.claim()
    ask(world)
    world.succeed(f"{NAME}-1-deploy")
    take(world, f"{NAME}-2-backup")
    found = reaches(world, "Verified")
    assert not dig(found, "metadata", "finalizers")

    def owned() -> bool | NotYet:
        owners = dig(world.get(ETCD_BACKUP, "before"), "metadata", "ownerReferences") or []
        return len(owners) == (policy == "Delete") or NotYet(f"its owners are {owners}")

    world.wait(owned, "its owners")
    world.delete()
    if policy == "Delete":
        world.gone(ETCD_BACKUP, "before")
    else:
        world.wait(lambda: world.get(JOB, f"{NAME}-2-backup") is None or NotYet("its Job is there"), "the end")
        assert dig(world.get(ETCD_BACKUP, "before"), "status", "phase") == "Verified"


@pytest.mark.parametrize("spec", [{"cluster": "other"}, {"destination": {"claim": "other"}}, {"destination": None}])
def test_an_etcd_backup_is_not_edited(world: World, spec: Json) -> None:
    ask(world)
    with pytest.raises(ApiFailure, match="cannot change: make another EtcdBackup"):
        world.api.merge(ETCD_BACKUP, "before", {"spec": spec}, world.namespace)


def test_a_backup_whose_claim_is_gone_is_missing(world: World, storage: Storage, backing_up: OperatorContext) -> None:
    world.deployed()
    storage.claim()
    ask(world)
    take(world, f"{NAME}-2-backup")
    reaches(world, "Verified")
    world.api.delete(PVC, CLAIM, world.namespace)
    found = reaches(world, "Missing", "Missing")
    assert f"PersistentVolumeClaim {CLAIM}, in which the snapshot lies, is gone" in str(condition(found, "Verified"))


DRILLED = {"schedule": "@yearly", "drill": "@yearly", "destination": {"claim": CLAIM}}
COUNTED = Termination("succeeded", snapshot={**FOUND, "objects": 2000}).to_text()
PROVEN = Termination("succeeded", snapshot={"objects": 2000, "revision": 7}).to_text()
DIFFERS = failed("user", summary="/registry/pods/: 1 read, 2 counted in the cluster", task="Restore", host="m-0")


def comes(world: World) -> None:
    """Have the last time of the yearly drill be one that nobody has asked for yet."""
    schedule = {"schedule": "@yearly", "timeZone": "Etc/UTC", "since": "2020-01-01T00:00:00Z", "last": None}
    patch = {"status": {"drill": {"schedule": schedule, "last": None, "proven": None}}}
    world.api.merge(CLUSTER, NAME, patch, world.namespace, subresource="status")


def test_the_newest_backup_is_drilled_and_what_that_shows_is_said(
    world: World, storage: Storage, backing_up: OperatorContext
) -> None:
    storage.claim()
    world.declare(etcd={"backup": DRILLED})
    world.succeed(f"{NAME}-1-deploy")
    world.history(1)
    world.condition("BackupProven", "Unknown", "NoBackup")
    ask(world)
    take(world, f"{NAME}-2-backup", COUNTED)
    reaches(world, "Verified")
    world.condition("BackupProven", "Unknown", "NeverDrilled")
    assert f"{NAME}-3-drill" not in world.kubelet.jobs()

    comes(world)
    job = take(world, f"{NAME}-3-drill", PROVEN)
    pod = dig(job, "spec", "template", "spec")
    (volume,) = (one for one in pod["volumes"] if one["name"] == "snapshots")
    assert volume["persistentVolumeClaim"]["claimName"] == CLAIM
    said = world.condition("BackupProven", "True", "Proven")["message"]
    assert "before was restored at " in said
    assert "with all 2000 keys of revision 7" in said
    world.wait(
        lambda: is_condition(world.get(ETCD_BACKUP, "before") or {}, "Proven", "True") or NotYet("it is not said"), "it"
    )
    assert dig(world.get(ETCD_BACKUP, "before"), "status", "proven")


def test_a_drill_that_failed_hides_no_backup_and_a_newer_one_is_drilled_at_once(
    world: World, storage: Storage, backing_up: OperatorContext
) -> None:
    storage.claim()
    world.declare(etcd={"backup": DRILLED})
    world.succeed(f"{NAME}-1-deploy")
    world.history(1)
    ask(world)
    take(world, f"{NAME}-2-backup", COUNTED)
    reaches(world, "Verified")
    comes(world)
    take(world, f"{NAME}-3-drill", DIFFERS, exit_code=1)
    said = world.condition("BackupProven", "False", "DrillFailed")["message"]
    assert "/registry/pods/: 1 read, 2 counted in the cluster" in said

    def told() -> bool | NotYet:
        found = world.get(ETCD_BACKUP, "before")
        return is_condition(found or {}, "Proven", "False") or NotYet(f"it is {found}")

    world.wait(told, "the EtcdBackup to say so")
    assert dig(world.get(ETCD_BACKUP, "before"), "status", "phase") == "Verified"
    events = world.api.events_of(world.namespace, "before")
    assert any(event.startswith("Warning DrillFailed") for event in events), events
    assert world.condition("Degraded", "False")
    assert f"{NAME}-4-drill" not in world.kubelet.jobs(), "nothing is repeated with the same backup"
    later = Termination("succeeded", snapshot={**FOUND, "objects": 2000, "taken": "2999-01-02T00:00:00Z"}).to_text()
    ask(world, "newer")
    take(world, f"{NAME}-4-backup", later)
    take(world, f"{NAME}-5-drill", PROVEN)
    assert "newer was restored at " in world.condition("BackupProven", "True", "Proven")["message"]
