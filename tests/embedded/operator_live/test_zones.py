"""Machines that the operator makes, on an infra cluster of three Nodes: the scheduler places them as a set asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness import providers
from harness.infra.cluster.capacity import usage_of
from harness.kube.client import Cluster, Json
from harness.kube.objects import condition, dig
from harness.kube.resources import NODE, POD, PV, PVC, VMI
from harness.machines.kubevirt.manifests import GoldenImage
from harness.operator.api.resources import MACHINE, MACHINE_SET
from harness.operator.api.sets import HOSTNAME_LABEL, ZONE_LABEL
from harness.providers.embedded import EmbeddedProvider
from harness.spec.settings import Settings
from harness.until import Deadline, NotYet, until
from tests.embedded.conftest import running
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.made import made_set
from tests.embedded.operator.played import INTERVAL

ALL = ("machine", "machineset", "claims", "infrastructure")
ZONES = ("zone-a", "zone-b", "zone-c")
SET = "one-cp"
SECONDS = 180.0  # three machines start at once
Declare = Callable[..., None]


@pytest.fixture(scope="session")
def infra() -> Iterator[EmbeddedProvider]:
    """Return an infra cluster of three Nodes, each in a zone, instead of the session's."""
    with running("-zones", workers=len(ZONES) - 1) as provider:
        cluster = Cluster.from_kubeconfig(provider.kubeconfig())
        for name, zone in zip(provider.layout.nodes(len(ZONES) - 1), ZONES, strict=True):
            cluster.merge(NODE, name, {"metadata": {"labels": {ZONE_LABEL: zone}}})
        yield provider


@pytest.fixture(scope="session")
def nodes(infra: EmbeddedProvider) -> dict[str, str]:
    """Return the zones of the Nodes, by their names."""
    return dict(zip(infra.layout.nodes(len(ZONES) - 1), ZONES, strict=True))


@pytest.fixture(scope="module")
def image(infra: EmbeddedProvider) -> GoldenImage:
    """Return a disk image that is served, and that nobody has imported."""
    return providers.golden_image(Settings(), "debian-13", infra.mirror(), progress=lambda _line: None)


@pytest.fixture
def declared(api: Cluster, namespace: str) -> Declared:
    """Return the objects of the test's namespace."""
    return Declared(api, namespace, seconds=SECONDS)


@pytest.fixture
def declare(declared: Declared, manager: StartManager, image: GoldenImage) -> Declare:
    """Return what declares a cluster of so many machines, spread as given, under a running manager."""
    manager(*ALL)

    def deployment(replicas: int, **domains: Any) -> None:
        source = {"url": image.url, "checksum": image.checksum}
        wanted = made_set(replicas, "cp", "control-plane", image=source)
        declared.deployment("one", {**wanted, "failureDomains": domains})

    return deployment


def placed(declared: Declared, number: int) -> dict[str, str]:
    """Return where the machines' instances run, by their names, once there are so many."""

    def probe() -> dict[str, str] | NotYet:
        vmis = declared.api.list(VMI, declared.namespace).items
        there = {vmi["metadata"]["name"]: str(dig(vmi, "status", "nodeName") or "") for vmi in vmis}
        there = {name: node for name, node in there.items() if node}
        return there if len(there) == number else NotYet(f"there are {there}")

    return until(probe, deadline=Deadline.after(SECONDS), what=f"{number} machines to be placed", interval=INTERVAL)


def spread(declared: Declared, reason: str) -> Json:
    """Return the condition Spread of the set once it has a reason."""

    def has_reason(found: Json) -> bool:
        return (condition(found, "Spread") or {}).get("reason") == reason

    said = condition(declared.wait(SET, has_reason, f"spread: {reason}", MACHINE_SET), "Spread")
    assert said is not None
    return said


def ready(declared: Declared, names: object) -> None:
    """Wait until machines were logged in to."""
    for name in sorted(map(str, names if isinstance(names, dict) else [names])):
        declared.phase(name, "Provisioned")


def test_required_zones_get_a_machine_each_and_a_replacement_comes_to_the_same_zone(
    declared: Declared, declare: Declare, nodes: dict[str, str]
) -> None:
    declare(3, topologyKey=ZONE_LABEL, policy="Required", domains=[*ZONES])

    where = placed(declared, 3)
    assert sorted(where.values()) == sorted(nodes)
    for name, node in where.items():
        assert declared.get(name)["metadata"]["labels"][ZONE_LABEL] == nodes[node]
    ready(declared, where)
    assert spread(declared, "Spread")["message"] == "zone-a: 1, zone-b: 1, zone-c: 1"
    for name, node in where.items():  # the claim is bound where the scheduler put the first pod that uses it
        volume = declared.api.get(PV, declared.get(name, PVC)["spec"]["volumeName"])
        assert volume is not None
        terms = dig(volume, "spec", "nodeAffinity", "required", "nodeSelectorTerms")
        assert node in terms[0]["matchExpressions"][0]["values"]

    lost = sorted(where)[1]
    declared.api.delete(MACHINE, lost, declared.namespace)
    declared.gone(lost)
    declared.gone(lost, VMI)
    again = placed(declared, 3)
    (new,) = again.keys() - where.keys()
    assert again[new] == where[lost]
    ready(declared, new)


def test_logs_and_usage_of_each_node_are_its_own(declared: Declared, declare: Declare, nodes: dict[str, str]) -> None:
    declare(3, topologyKey=ZONE_LABEL, policy="Required", domains=[*ZONES])
    where = placed(declared, 3)
    ready(declared, where)

    pods = {pod["metadata"]["uid"]: pod for pod in declared.api.list(POD, declared.namespace).items}
    launchers = {uid: pod for uid, pod in pods.items() if dig(pod, "status", "phase") == "Running"}
    said = usage_of(declared.api, nodes)
    assert set(said) == set(nodes)
    for node, usage in said.items():
        here = {uid for uid, pod in launchers.items() if pod["spec"]["nodeName"] == node}
        assert {uid for uid in usage.pods if uid in launchers} == here
        assert len(here) == 1
    for pod in launchers.values():
        path = POD.path(pod["metadata"]["namespace"], pod["metadata"]["name"], subresource="log")
        answer = declared.api.send("GET", f"{path}?container=guest-console-log&tailLines=5")
        assert answer.code == 200, answer.body


def test_without_domains_the_scheduler_keeps_them_on_separate_nodes(
    declared: Declared, declare: Declare, nodes: dict[str, str]
) -> None:
    declare(5, topologyKey=HOSTNAME_LABEL, policy="Required")

    where = placed(declared, 3)
    assert sorted(where.values()) == sorted(nodes)
    names = {machine["metadata"]["name"] for machine in declared.api.list(MACHINE, declared.namespace).items}
    waiting = names - where.keys()
    assert len(waiting) == 2
    for name in waiting:
        assert "no room for machine" in declared.reason(name, "InfrastructureReady", "NoNodeFits")["message"]


def test_preferred_spreads_as_well_as_can_be(declared: Declared, declare: Declare, nodes: dict[str, str]) -> None:
    declare(5, topologyKey=ZONE_LABEL, policy="Preferred", domains=[*ZONES])

    where = placed(declared, 5)
    assert sorted(Counter(where.values()).values()) == [1, 2, 2]
    assert set(where.values()) == set(nodes)


def test_a_zone_that_takes_no_machine_is_told(
    declared: Declared, declare: Declare, nodes: dict[str, str], api: Cluster
) -> None:
    closed, zone = sorted(nodes.items())[-1]
    api.merge(NODE, closed, {"spec": {"unschedulable": True}})
    try:
        declare(3, topologyKey=ZONE_LABEL, policy="Required", domains=[*ZONES])
        where = placed(declared, 2)
        assert closed not in where.values()
        machines = declared.api.list(MACHINE, declared.namespace).items
        (waiting,) = [one for one in machines if one["metadata"]["labels"].get(ZONE_LABEL) == zone]
        name = waiting["metadata"]["name"]
        assert "no room for machine" in declared.reason(name, "InfrastructureReady", "NoNodeFits")["message"]
    finally:
        api.merge(NODE, closed, {"spec": {"unschedulable": False}})
    assert placed(declared, 3)[name] == closed
