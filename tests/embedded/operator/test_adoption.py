"""A cluster that is there is taken over: its machines are claimed though they are not bare; its executor is played."""

from __future__ import annotations

from harness.kube.client import Json
from harness.kube.objects import dig
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, MACHINE
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.logins import PlayedLogins, bare
from tests.embedded.operator.world import NAME, OPTIONS, World, failed
from tests.unit.operator.api.objects import deployment, wanted_set

ALL = ("clusterdeployment", "machineset", "claims", "machine", "clusterinstall", "executions")
TRACE = "/var/lib/kubelet/config.yaml"


def adopt(world: World, *names: str, **spec: object) -> Json:
    """Declare a cluster that is to be taken over with its machines."""
    one = wanted_set("cp", "control-plane", "worker", replicas=len(names), names=list(names))
    return world.api.create(
        CLUSTER_DEPLOYMENT, deployment(one, name=NAME, namespace=world.namespace, adopt=True, **spec)
    )


def test_cluster_that_is_there_is_adopted_and_then_scaled(
    world: World, declared: Declared, manager: StartManager, logins: PlayedLogins
) -> None:
    logins.answers = {name: bare(name, TRACE) for name in ("m-0", "m-1")}
    manager(*ALL, options=OPTIONS)
    for name in ("m-0", "m-1", "m-2"):
        declared.machine(name)
    declared.phase("m-0", "Failed")  # somebody else's would stay so
    adopt(world, "m-0")
    world.succeed(f"{NAME}-1-adopt")
    assert world.history(1)[0]["operation"] == "adopt"
    assert world.status()["applied"]["machines"] == ["m-0"]
    assert declared.claimed(NAME) == ["m-0"]
    more = wanted_set("w", "worker", names=["m-2"])
    world.edit(machineSets=[wanted_set("cp", "control-plane", "worker", names=["m-0"]), more])
    world.kubelet.job(f"{NAME}-2-scale")
    assert declared.claimed(NAME) == ["m-0", "m-2"]


def test_cluster_that_differs_is_left_alone_when_its_object_is_deleted(
    world: World, declared: Declared, manager: StartManager, logins: PlayedLogins
) -> None:
    logins.answers = {"m-0": bare("m-0", TRACE)}
    manager(*ALL, options=OPTIONS)
    declared.machine("m-0")
    adopt(world, "m-0")
    world.kubelet.job(f"{NAME}-1-adopt")
    world.kubelet.end(f"{NAME}-1-adopt", exit_code=2, message=failed("user", summary="what runs differs"))
    assert "what runs differs" in world.condition("Degraded", "True", "Failed")["message"]
    world.delete()
    world.gone(CLUSTER_DEPLOYMENT)
    assert world.kubelet.jobs() in ([], [f"{NAME}-1-adopt"])
    assert dig(declared.phase("m-0", "Failed"), "spec", "claim") is None
    assert dig(world.get(MACHINE, "m-0"), "metadata", "finalizers") in (None, [])
