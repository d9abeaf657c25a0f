"""Every mistake that the object alone shows is found, at its field, with a remedy; sound objects have none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest

from harness.kube.kinds.models import ApiModel, Cel
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.rules import KNOWN, MAPPINGS, OPERATORS_OWN, read, variable_mistakes
from harness.spec.variables import known_variables
from tests.unit.operator.api.mistakes import BAD, Json
from tests.unit.operator.api.objects import RELEASES, SOURCE, defaulted, deployment, wanted_set


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
        deployment(source={"type": "Upstream", "registry": "registry.example/k8s"}),
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


def test_the_mirror_and_the_registry_are_outside_of_the_networks_of_the_cluster() -> None:
    source = {"mirror": "http://10.243.0.7:8080", "registry": "10.95.1.1:5000"}
    assert {
        (m.field, m.message.partition(" overlaps ")[2][:9]) for m in read(deployment(source=source), RELEASES)[1]
    } == {
        ("spec.network.pods", "10.243.0."),
        ("spec.network.services", "10.95.1.1"),
    }
    named = {"mirror": "https://mirror.example/x", "registry": "[fd00::1]:5000"}
    assert read(deployment(source=named), RELEASES)[1] == []


def test_a_mirror_is_not_needed_upstream() -> None:
    assert SOURCE["type"] == "Mirror"
    assert read(deployment(source={"type": "Upstream", "registry": "registry.example/k8s"}), RELEASES)[1] == []


def test_images_that_their_makers_name_otherwise_are_named() -> None:
    source = {"type": "Upstream", "registry": "registry.k8s.io"}
    addons = [{"name": "metrics-server"}, {"name": "local-path-provisioner"}]
    (_, found) = read(deployment(source=source, network={"plugin": "routes"}, addons=addons), RELEASES)
    lacking = [mistake.field.removeprefix("spec.variables.") for mistake in found]
    assert lacking == [
        "cluster_coredns_image",
        "cluster_metrics_server_image",
        "cluster_local_path_provisioner_image",
        "cluster_busybox_image",
    ]
    named = dict.fromkeys(lacking, "registry.example/x:v1")
    assert (
        read(deployment(source=source, network={"plugin": "routes"}, addons=addons, variables=named), RELEASES)[1] == []
    )


def rules_in(model: type[ApiModel]) -> Iterator[Cel]:
    """Yield the rules of a model and of all models inside of it."""
    yield from model.cel
    for field in model.model_fields.values():
        kinds = (field.annotation, *get_args(field.annotation))
        for inner in kinds:
            if isinstance(inner, type) and issubclass(inner, ApiModel):
                yield from rules_in(inner)


def test_every_rule_of_the_definition_that_is_not_about_a_change_is_judged_here_too() -> None:
    rules = list(rules_in(ClusterDeployment))
    assert len(rules) > 15
    assert [rule.message for rule in rules if rule.holds is None and "oldSelf" not in rule.rule] == []
    assert [rule.message for rule in rules if rule.holds is not None and "oldSelf" in rule.rule] == []


def said(name: str, value: object, **spec: Any) -> list[str]:
    cd = defaulted(deployment(variables={name: value}, **spec))
    return [mistake.text for mistake in variable_mistakes(cd)]


@pytest.mark.parametrize("name", sorted({*KNOWN, *OPERATORS_OWN} - MAPPINGS.keys()))
def test_a_variable_that_something_else_stands_for_is_refused_with_the_field(name: str) -> None:
    (text,) = said(name, "1")
    assert text.startswith(f"spec.variables.{name}: ")
    if name in KNOWN and name not in OPERATORS_OWN:
        path = KNOWN[name].path
        assert ("spec.addons" if path.startswith("addons") else f"spec.{path}") in text


@pytest.mark.parametrize("name", sorted(MAPPINGS))
def test_a_variable_that_is_merged_with_a_field_is_a_mapping_and_keeps_its_rules(name: str) -> None:
    assert said(name, {"a": "1"}) == []
    assert said(name, ["a"]) == [
        f"spec.variables.{name}: it is merged with spec.{MAPPINGS[name].path}, and is not a mapping: write KEY: VALUE"
    ]
    wrong = {"--a": "1"} if MAPPINGS[name].path.endswith(".extraArgs") else {"a": {"b": -1}}
    assert len(said(name, wrong)) == 1


@pytest.mark.parametrize("name", sorted({*known_variables()} - KNOWN.keys() - OPERATORS_OWN))
def test_every_other_variable_of_the_playbooks_may_be_set(name: str) -> None:
    assert said(name, "1") == []


def test_only_vmatrix_s_own_playbooks_are_known_by_their_variables() -> None:
    assert said("cluster_of_ours", 1)
    assert said("cluster_of_ours", 1, playbooks={"image": "registry.invalid/ours:1"}) == []
    assert said("cluster_of_ours", 1, playbooks={"product": {"configMap": "ours"}}) == []
    assert said("etcd_restore_patience", 90) == [], "a role's own variable"


@pytest.mark.parametrize(("name", "least"), [("oomScoreAdj", -999), ("podPidsLimit", -1), ("maxPods", 0)])
def test_a_number_that_may_be_negative_is_taken(name: str, least: int) -> None:
    assert said("cluster_kubelet_config", {name: least}) == []
    assert said("cluster_kubelet_config", {name: -1001})
