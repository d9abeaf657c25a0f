"""What people do while operations wait or run: approve, cancel, edit, revert and delete; on a real API server."""

from __future__ import annotations

from harness.kube.client import Json
from harness.kube.objects import dig
from harness.kube.resources import CONFIG_MAP, JOB
from harness.operator.api.resources import CLUSTER_DEPLOYMENT
from harness.operator.context import OperatorContext
from harness.until import NotYet
from tests.embedded.operator.test_changes import done
from tests.embedded.operator.world import NAME, SUCCEEDED, World


def pending(world: World, number: int) -> Json:
    """Return what waits for an approval once it has a number."""

    def named() -> Json | NotYet:
        found = world.status().get("approval") or {}
        return found if found.get("sequence") == number else NotYet(f"it is {found}")

    return world.wait(named, f"number {number} to be approved")


def running(world: World, job: str) -> None:
    """Let an executor run, and wait until the status says so."""
    world.kubelet.run(job)
    world.wait(lambda: dig(world.status(), "operation", "started") or NotYet(f"{world.status()}"), "its start")


def test_disruptive_operation_waits_for_the_approval_of_its_own_number(world: World, operator: OperatorContext) -> None:
    world.declare(version="1.36.1", approval="Manual")
    done(world, f"{NAME}-1-deploy")  # disrupts nothing
    world.edit(version="1.36.3")
    assert pending(world, 2)["operation"] == "upgrade"
    said = world.condition("Progressing", "False", "WaitingForApproval")["message"]
    assert "cluster.vmatrix.dev/approve=2" in said

    world.edit(etcd={"extraArgs": {"quota-backend-bytes": "1"}})  # something else is to be done: another number
    pending(world, 3)
    world.annotate(approve="2")
    said = world.wait(lambda: approved_other(world) or NotYet(said), "the older approval to be told")
    assert world.kubelet.jobs() == [f"{NAME}-1-deploy"]

    world.annotate(approve="3")
    status = done(world, f"{NAME}-3-upgrade")
    assert "approval" not in status
    assert status["applied"]["variables"]["cluster_etcd_extra_args"] == {"quota-backend-bytes": "1"}
    world.condition("Progressing", "False", "UpToDate")


def approved_other(world: World) -> str:
    """Return the message of Progressing if it says that another operation was approved."""
    conditions = dig(world.get(CLUSTER_DEPLOYMENT), "status", "conditions") or []
    message = next((str(one["message"]) for one in conditions if one["type"] == "Progressing"), "")
    return message if "2 was approved, which is another operation" in message else ""


def test_deletion_needs_no_approval(world: World, operator: OperatorContext) -> None:
    world.declare(approval="Manual")
    done(world, f"{NAME}-1-deploy")
    world.delete()
    world.kubelet.end(f"{NAME}-2-reset", message=SUCCEEDED)
    world.gone(CLUSTER_DEPLOYMENT)


def test_operation_that_is_cancelled_ends_and_is_not_tried_again(world: World, operator: OperatorContext) -> None:
    world.declare(version="1.36.1")
    done(world, f"{NAME}-1-deploy")
    world.edit(version="1.36.3")
    running(world, f"{NAME}-2-upgrade")
    world.annotate(cancel="1")  # of an operation that ended long ago
    world.annotate(cancel="2")
    latest = world.history(2)[0]
    assert (latest["outcome"], latest["blame"]) == ("cancelled", "user")
    assert world.status()["unsettled"]["why"] == "upgrade 2 cancelled"
    world.condition("Degraded", "True", "Cancelled")
    assert world.get(JOB, f"{NAME}-2-upgrade") is None
    world.annotate(retry="1")
    assert done(world, f"{NAME}-3-upgrade")["applied"]["version"] == "1.36.3"
    world.condition("Degraded", "False")


def test_two_edits_during_an_operation_count_as_one_afterwards(world: World, operator: OperatorContext) -> None:
    world.declare()
    done(world, f"{NAME}-1-deploy")
    world.edit(etcd={"extraArgs": {"quota-backend-bytes": "1"}})
    running(world, f"{NAME}-2-reconfigure")
    world.edit(etcd={"extraArgs": {"quota-backend-bytes": "2"}})
    world.edit(kubernetes={"scheduler": {"extraArgs": {"v": "4"}}})
    status = done(world, f"{NAME}-2-reconfigure")
    assert status["applied"]["variables"]["cluster_etcd_extra_args"] == {"quota-backend-bytes": "1"}
    world.kubelet.job(f"{NAME}-3-reconfigure")
    inputs = (world.get(CONFIG_MAP, f"{NAME}-3-reconfigure") or {})["data"]["extra-vars.yml"]
    assert "quota-backend-bytes: '2'" in inputs
    assert "v: '4'" in inputs
    done(world, f"{NAME}-3-reconfigure")
    world.condition("Progressing", "False", "UpToDate")


def test_edit_that_is_taken_back_during_its_operation_is_undone_after_it(
    world: World, operator: OperatorContext
) -> None:
    world.declare()
    before = done(world, f"{NAME}-1-deploy")["applied"]
    world.edit(etcd={"extraArgs": {"quota-backend-bytes": "1"}})
    running(world, f"{NAME}-2-reconfigure")
    world.edit(etcd={"extraArgs": {"quota-backend-bytes": None}})
    done(world, f"{NAME}-2-reconfigure")
    after = done(world, f"{NAME}-3-reconfigure")["applied"]
    assert after["variables"] == before["variables"]
    world.condition("Progressing", "False", "UpToDate")


def test_deletion_during_an_operation_resets_after_it(world: World, operator: OperatorContext) -> None:
    world.declare(version="1.36.1")
    done(world, f"{NAME}-1-deploy")
    world.edit(version="1.36.3")
    running(world, f"{NAME}-2-upgrade")
    world.delete()
    world.succeed(f"{NAME}-2-upgrade")
    world.kubelet.end(f"{NAME}-3-reset", message=SUCCEEDED)
    world.gone(CLUSTER_DEPLOYMENT)


def test_pause_holds_every_operation_and_lets_the_running_one_end(world: World, operator: OperatorContext) -> None:
    world.declare(version="1.36.1")
    done(world, f"{NAME}-1-deploy")
    world.edit(version="1.36.3")
    running(world, f"{NAME}-2-upgrade")
    world.edit(paused=True, etcd={"extraArgs": {"quota-backend-bytes": "1"}})
    done(world, f"{NAME}-2-upgrade")
    world.condition("Progressing", "False", "Paused")
    assert [step["operation"] for step in world.status()["plan"]] == ["reconfigure"]
    world.edit(paused=False)
    done(world, f"{NAME}-3-reconfigure")
