"""Every mistake that the object alone shows is found, at its field, with a remedy; sound objects have none."""

from __future__ import annotations

from typing import Any

import pytest

from harness.operator.api.rules import read
from tests.unit.operator.api.objects import RELEASES, SOURCE, deployment, wanted_set

Json = dict[str, Any]
CP = wanted_set("cp", "control-plane")
BAD: dict[str, tuple[Json, str, str]] = {
    "unknown version": (deployment(version="1.36.9"), "spec.version", "use 1.34.4, 1.35.4, 1.36.1, 1.36.3"),
    "no version": (deployment(version="newest"), "spec.version", "String should match pattern"),
    "two stacked members": (
        deployment(wanted_set("cp", "control-plane", replicas=2)),
        "spec.machineSets",
        "two control planes would be two etcd members",
    ),
    "two stacked members in two sets": (
        deployment(wanted_set("a", "control-plane", "etcd"), wanted_set("b", "control-plane", "etcd")),
        "spec.machineSets",
        "use one or three control planes",
    ),
    "two external members": (
        deployment(CP, wanted_set("etcd", "etcd", replicas=2)),
        "spec.machineSets",
        "two etcd members stop when either one fails",
    ),
    "stacked and external": (
        deployment(wanted_set("cp", "control-plane", "etcd"), wanted_set("etcd", "etcd", replicas=3)),
        "spec.machineSets",
        "etcd is both stacked and external",
    ),
    "half stacked": (
        deployment(wanted_set("a", "control-plane", "etcd", replicas=2), wanted_set("b", "control-plane")),
        "spec.machineSets",
        "give the role etcd to all sets of control planes or to none",
    ),
    "no control plane": (deployment(wanted_set("w", "worker")), "spec.machineSets", "no machine is a control plane"),
    "no external member": (
        deployment(CP, wanted_set("etcd", "etcd", replicas=0)),
        "spec.machineSets",
        "no machine is an etcd member",
    ),
    "etcd beside workers": (
        deployment(CP, wanted_set("etcd", "etcd", "worker")),
        "spec.machineSets[1].roles",
        "run only etcd",
    ),
    "networks overlap": (
        deployment(network={"pods": "10.0.0.0/8", "services": "10.96.0.0/12"}),
        "spec.network.services",
        "the networks of pods and services overlap",
    ),
    "no network": (deployment(network={"pods": "10.0.0.1/8"}), "spec.network.pods", "not a network in CIDR notation"),
    "set names": (deployment(CP, wanted_set("cp", "worker")), "spec.machineSets[1]", "Duplicate value"),
    "no source": (
        deployment({**CP, "machines": {}}),
        "spec.machineSets[0].machines",
        "set exactly one of pool and names",
    ),
    "two sources": (
        deployment(wanted_set("cp", "control-plane", pool={}, names=["a"])),
        "spec.machineSets[0].machines",
        "set exactly one of pool and names",
    ),
    "replicas and names": (
        deployment(wanted_set("cp", "control-plane", replicas=3, names=["a"])),
        "spec.machineSets[0].replicas",
        "set replicas to the number of machines",
    ),
    "unknown role": (
        deployment(wanted_set("cp", "control-plane", "boss")),
        "spec.machineSets[0].roles[1]",
        'Unsupported value: "boss": supported values: "control-plane", "etcd", "worker"',
    ),
    "a machine in two sets": (
        deployment(wanted_set("cp", "control-plane", names=["a"]), wanted_set("w", "worker", names=["a"])),
        "spec.machineSets[1].machines.names",
        "Machine a is in the sets cp and w",
    ),
    "no mirror": (
        deployment(source={"type": "Mirror", "registry": "r:5000"}),
        "spec.source.mirror",
        "type Mirror needs mirror",
    ),
    "no registry": (
        deployment(source={"mirror": "http://mirror"}),
        "spec.source.registry",
        "type Mirror needs registry",
    ),
    "no source of artifacts": (
        {**deployment(), "spec": {k: v for k, v in deployment()["spec"].items() if k != "source"}},
        "spec.source",
        "Required value: set it",
    ),
    "flags with dashes": (
        deployment(etcd={"extraArgs": {"--quota": "1"}}),
        "spec.etcd.extraArgs",
        "write flags without dashes",
    ),
    "name of a variable": (deployment(variables={"a-b": 1}), "spec.variables", "use letters, digits and '_'"),
    "unknown field": (deployment(versoin="1.36.3"), "spec.versoin", "unknown field: remove it, or correct its name"),
    "long name": (deployment(name="c" * 31), "metadata.name", "use at most 30"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_told_with_its_field_and_its_remedy(case: str) -> None:
    obj, field, words = BAD[case]
    _, found = read(obj, RELEASES)
    assert [mistake.field for mistake in found] == [field]
    assert words in found[0].text


@pytest.mark.parametrize(
    "obj",
    [
        deployment(),
        deployment(wanted_set("cp", "control-plane", replicas=3), wanted_set("w", "worker", replicas=2)),
        deployment(wanted_set("cp", "control-plane", "etcd", "worker", replicas=3)),
        deployment(wanted_set("cp", "control-plane", replicas=2), wanted_set("e", "etcd", replicas=3)),
        deployment(wanted_set("cp", "control-plane", replicas=2, names=["a", "b"]), wanted_set("e", "etcd")),
        deployment(source={"type": "Upstream"}),
        deployment(network={"pods": "fd00:1::/64", "services": "fd00:2::/112"}),
    ],
)
def test_a_sound_object_has_no_mistakes(obj: Json) -> None:
    cd, found = read(obj, RELEASES)
    assert found == []
    assert cd is not None


def test_all_mistakes_are_told_at_once() -> None:
    obj = deployment(wanted_set("cp", "control-plane", replicas=2), version="2.0.0", network={"pods": "10.95.0.0/20"})
    assert {mistake.field for mistake in read(obj, RELEASES)[1]} == {
        "spec.version",
        "spec.machineSets",
        "spec.network.services",
    }


def test_a_running_cluster_may_pass_through_two_members() -> None:
    obj = deployment(wanted_set("cp", "control-plane", replicas=2))
    assert read(obj, RELEASES, creating=False)[1] == []
    assert len(read(obj, RELEASES, creating=True)[1]) == 1


def test_networks_around_the_cluster_are_left_alone() -> None:
    around = ["10.96.0.0/16", "10.243.128.0/17", "192.168.0.0/24", "fd00::/8"]
    (mistake,) = read(deployment(), RELEASES, around)[1]
    assert mistake.field == "spec.network.pods"
    assert "overlaps 10.243.128.0/17" in mistake.message


def test_a_mirror_is_not_needed_upstream() -> None:
    assert SOURCE["type"] == "Mirror"
    assert read(deployment(source={"type": "Upstream", "registry": "registry.k8s.io"}), RELEASES)[1] == []
