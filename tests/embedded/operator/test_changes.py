"""Changes of a deployed cluster on a real API server: what each operation is given, and what is applied after it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from harness.kube.client import Json
from harness.kube.objects import dig
from harness.kube.resources import CONFIG_MAP
from harness.operator.api.resources import MACHINE
from harness.operator.context import OperatorContext
from harness.until import NotYet
from tests.embedded.operator.world import NAME, World, failed
from tests.unit.operator.api.objects import wanted_set

CP = wanted_set("cp", "control-plane", "worker")
BROKE_IN_CHECKS = {"play": "Fetch new binaries and images", "task": "Pull the new images", "host": "m-0"}
BROKE_HALF_WAY = {"play": "Upgrade the control planes, one after the other", "task": "Drain", "host": "m-0"}


def given(world: World, job: str) -> tuple[Json, Json]:
    """Return the inventory and the variables of an operation, once its Job is there."""
    world.kubelet.job(job)
    data = (world.get(CONFIG_MAP, job) or {})["data"]
    return yaml.safe_load(data["hosts.yml"])["all"], yaml.safe_load(data["extra-vars.yml"])


def done(world: World, job: str) -> Json:
    """Let an operation succeed; return the Cluster's status after it."""
    count = len(world.status().get("history") or ())
    world.succeed(job)
    world.history(count + 1)
    return world.status()


def fail(world: World, job: str, **said: str) -> Json:
    """Let an executor fail by the product's fault; return the entry of the history."""
    count = len(world.status().get("history") or ())
    world.kubelet.end(job, exit_code=1, message=failed("product", **said))
    return world.history(count + 1)[0]


def sets(world: World, *wanted: Json) -> None:
    """Change the sets of the ClusterDeployment."""
    world.edit(machineSets=list(wanted))


def of_two(world: World) -> Json:
    """Have a cluster of a control plane and a worker deployed; return the ClusterDeployment."""
    made = world.declare(paused=True)
    sets(world, CP, wanted_set("w", "worker"))
    world.give("m-1", made, set_name="w")
    world.edit(paused=False)
    done(world, f"{NAME}-1-deploy")
    return made


def up_to_date(world: World) -> None:
    for name in world.given:
        world.say(name, "Ready")
    world.condition("Progressing", "False", "UpToDate")
    world.condition("Ready", "True")


def test_machines_join_and_leave(world: World, operator: OperatorContext) -> None:
    made = world.deployed()
    sets(world, CP, wanted_set("w", "worker"))
    assert "set w has 0 of 1" in world.condition("Progressing", "True", "WaitingForMachines")["message"]
    world.give("m-1", made, set_name="w")
    inventory, variables = given(world, f"{NAME}-2-scale")
    assert list(inventory["children"]["node"]["hosts"]) == ["m-0", "m-1"]
    assert [host["name"] for host in variables["cluster_hosts"]] == ["m-0", "m-1"]
    assert dig(world.status(), "operation", "machines") == ["m-1"]
    assert done(world, f"{NAME}-2-scale")["applied"]["machines"] == ["m-0", "m-1"]
    up_to_date(world)

    sets(world, CP)  # the set is gone, and with it what the machine is
    assert "set w is missing" in world.condition("Accepted", "False", "InvalidSpec")["message"]
    world.annotate(**{"remove-sets": "w"})
    inventory, variables = given(world, f"{NAME}-3-remove-node")
    assert list(inventory["children"]["node"]["hosts"]) == ["m-0", "m-1"]
    assert variables["cluster_remove_nodes"] == ["m-1"]
    status = done(world, f"{NAME}-3-remove-node")
    assert status["applied"]["machines"] == ["m-0"]
    assert "cluster_remove_nodes" not in status["applied"]["variables"]
    world.condition("Progressing", "False", "UpToDate")


def test_machine_whose_object_is_gone_is_still_taken_out(world: World, operator: OperatorContext) -> None:
    of_two(world)
    world.api.delete(MACHINE, "m-1", world.namespace)
    inventory, variables = given(world, f"{NAME}-2-remove-node")
    assert inventory["hosts"]["m-1"]["ansible_host"] == "192.0.2.11"
    assert variables["cluster_remove_nodes"] == ["m-1"]
    done(world, f"{NAME}-2-remove-node")
    world.condition("Progressing", "True", "WaitingForMachines")


def test_machine_that_is_to_be_replaced_leaves_and_another_one_joins(world: World, operator: OperatorContext) -> None:
    made = of_two(world)
    annotations = {"metadata": {"annotations": {"cluster.vmatrix.dev/replace": "its disk is broken"}}}
    world.api.merge(MACHINE, "m-1", annotations, world.namespace)
    world.give("m-2", made, set_name="w")
    _, variables = given(world, f"{NAME}-2-remove-node")
    assert variables["cluster_remove_nodes"] == ["m-1"]
    assert dig(world.status(), "operation", "why") == "m-1 is to be replaced: its disk is broken"
    done(world, f"{NAME}-2-remove-node")
    given(world, f"{NAME}-3-scale")
    assert done(world, f"{NAME}-3-scale")["applied"]["machines"] == ["m-0", "m-2"]
    world.condition("Progressing", "False", "UpToDate")


def test_upgrade_over_two_minors_is_two_hops_and_settings_come_with_the_last(
    world: World, operator: OperatorContext
) -> None:
    world.declare(version="1.34.4")
    done(world, f"{NAME}-1-deploy")
    world.edit(version="1.36.3", etcd={"extraArgs": {"quota-backend-bytes": "1"}})
    _, variables = given(world, f"{NAME}-2-upgrade")
    assert (variables["cluster_kubernetes_version"], variables["cluster_etcd_version"]) == ("1.35.4", "3.6.6")
    assert variables["cluster_etcd_extra_args"] == {}
    assert done(world, f"{NAME}-2-upgrade")["applied"]["version"] == "1.35.4"
    _, variables = given(world, f"{NAME}-3-upgrade")
    assert (variables["cluster_kubernetes_version"], variables["cluster_etcd_version"]) == ("1.36.3", "3.6.8")
    assert variables["cluster_etcd_extra_args"] == {"quota-backend-bytes": "1"}
    assert done(world, f"{NAME}-3-upgrade")["applied"]["version"] == "1.36.3"
    up_to_date(world)


def test_plan_names_all_that_is_to_do_with_its_reason(world: World, operator: OperatorContext) -> None:
    world.declare(version="1.34.4")
    done(world, f"{NAME}-1-deploy")
    world.edit(version="1.36.1", addons=[{"name": "metrics-server"}], paused=True)

    def planned() -> list[Json] | NotYet:
        found = world.status().get("plan") or []
        return found if found and found[0]["operation"] == "upgrade" else NotYet(f"it is {found}")

    steps = world.wait(planned, "a plan")
    assert [(one["operation"], one["disruptive"], one["why"]) for one in steps] == [
        ("upgrade", True, "spec.version: 1.34.4 -> 1.36.1, by way of 1.35.4"),
        ("upgrade", True, "spec.version: 1.35.4 -> 1.36.1"),
        ("addons", False, "spec.addons[metrics-server].version: none -> 0.9.0"),
    ]
    assert world.kubelet.jobs() == [f"{NAME}-1-deploy"]


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        ({"version": "1.35.4"}, "spec.version: Kubernetes 1.35.4 is older than 1.36.3"),
        ({"components": {"etcd": "3.5.1"}}, "spec.components.etcd: etcd 3.5.1 is older than 3.6.8"),
    ],
)
def test_edit_that_no_operation_carries_out_is_refused(
    world: World, operator: OperatorContext, edit: dict[str, Any], field: str
) -> None:
    world.declare()
    done(world, f"{NAME}-1-deploy")
    world.edit(**edit)
    assert field in world.condition("Accepted", "False", "InvalidSpec")["message"]
    assert world.kubelet.jobs() == [f"{NAME}-1-deploy"]
    world.edit(version="1.36.3", components={"etcd": None})
    world.condition("Accepted", "True")


def test_failed_upgrade_that_only_checked_touches_nothing_and_a_revert_heals(
    world: World, operator: OperatorContext
) -> None:
    world.declare(version="1.36.1")
    before = done(world, f"{NAME}-1-deploy")["applied"]
    world.edit(version="1.36.3")
    entry = fail(world, f"{NAME}-2-upgrade", **BROKE_IN_CHECKS, summary="no such image")
    assert entry["untouched"]
    assert {name: entry[name] for name in BROKE_IN_CHECKS} == BROKE_IN_CHECKS
    said = world.condition("Degraded", "True", "Failed")["message"]
    assert "at task 'Pull the new images' on m-0: no such image" in said
    assert world.status()["applied"] == before
    assert "unsettled" not in world.status()
    world.edit(version="1.36.1")
    up_to_date(world)
    assert world.status()["sequence"] == 2

    world.edit(version="1.36.3")
    world.condition("Degraded", "True", "Failed")
    world.annotate(retry="1")
    assert done(world, f"{NAME}-3-upgrade")["applied"]["version"] == "1.36.3"


def test_upgrade_that_failed_half_way_is_put_right_when_it_is_taken_back(
    world: World, operator: OperatorContext
) -> None:
    world.declare(version="1.36.1")
    done(world, f"{NAME}-1-deploy")
    world.edit(version="1.36.3")
    entry = fail(world, f"{NAME}-2-upgrade", **BROKE_HALF_WAY)
    assert "untouched" not in entry
    assert world.status()["unsettled"]["parts"] == ["version", "source", "settings"]
    world.edit(version="1.36.1")
    _, variables = given(world, f"{NAME}-3-reconfigure")
    assert variables["cluster_kubernetes_version"] == "1.36.1"
    assert "unsettled" not in done(world, f"{NAME}-3-reconfigure")
    up_to_date(world)
