"""Every mistake that the object alone shows is found, at its field, with a remedy; sound objects have none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any, get_args

import pytest
import yaml

from harness.kube.kinds.models import ApiModel, Cel
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.components import TAKEN_FOLDERS
from harness.operator.api.crds import KINDS
from harness.operator.api.rules import (
    GATED,
    KNOWN,
    MAPPINGS,
    OPERATORS_OWN,
    VERSIONS,
    WITHOUT_FIELD,
    SpecField,
    component_mistakes,
    of_other_runtimes,
    of_unset_fields,
    read,
    variable_mistakes,
)
from harness.paths import packaged_dir
from harness.spec.playbook_variables import FORMS, UNJUDGED
from harness.spec.variables import known_variables
from tests.embedded.operator_live.test_wrong_fields import FORM, WrongField, edited
from tests.embedded.operator_live.test_wrong_fields import WRONG as WRONG_FIELDS
from tests.unit.operator.api.mistakes import BAD, Json
from tests.unit.operator.api.objects import RELEASES, SOURCE, defaulted, deployment, filled, wanted_set


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
    lacking = [mistake.field.removeprefix("spec.source.images.") for mistake in found]
    assert lacking == ["coredns", "metricsServer", "localPathProvisioner", "busybox"]
    named = {**source, "images": dict.fromkeys(lacking, "registry.example/x:v1")}
    assert read(deployment(source=named, network={"plugin": "routes"}, addons=addons), RELEASES)[1] == []


def test_every_variable_of_the_playbooks_has_a_field_or_says_why_it_has_none() -> None:
    known = {name for name in known_variables() if name.startswith("cluster_")}
    computed = {n for n in known if n not in FORMS and n not in UNJUDGED and not n.endswith("_image")}
    rows = (KNOWN.keys(), OPERATORS_OWN.keys() - KNOWN.keys(), WITHOUT_FIELD.keys())
    assert all(one.isdisjoint(other) for one, other in combinations(rows, 2))
    named = set().union(*rows)
    assert known - named - computed == set(), "give it a field in SETTINGS, or a row in WITHOUT_FIELD"
    assert named - known == set(), "the playbooks do not have it any more"
    texts: dict[str, Any] = {}  # what the playbooks compute stands in their group_vars
    for file in sorted((packaged_dir() / "playbooks/group_vars/all").glob("*.yml")):
        texts |= yaml.safe_load(file.read_text(encoding="utf-8"))
    assert computed - named <= texts.keys()
    assert all(len(why.split()) > 3 for why in (*OPERATORS_OWN.values(), *WITHOUT_FIELD.values()))


def rules_in(model: type[ApiModel]) -> Iterator[Cel]:
    """Yield the rules of a model and of all models inside of it."""
    yield from model.cel
    for field in model.model_fields.values():
        for inner in models_in(field.annotation):
            yield from rules_in(inner)


def models_in(annotation: Any) -> Iterator[type[ApiModel]]:
    """Yield the models that a field has, at whatever depth its type names them."""
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


@pytest.mark.parametrize("model", [kind.model for kind in KINDS], ids=[kind.resource.kind for kind in KINDS])
def test_every_rule_of_a_definition_that_is_not_about_a_change_is_judged_here_too(model: type[ApiModel]) -> None:
    rules = list(rules_in(model))
    assert len(rules) > 15 or model is not ClusterDeployment
    assert [rule.message for rule in rules if rule.holds is None and "oldSelf" not in rule.rule] == []
    assert [rule.message for rule in rules if rule.holds is not None and "oldSelf" in rule.rule] == []


def test_a_folder_of_certificates_that_the_playbooks_refuse_is_refused_before_it_cannot_change_any_more() -> None:
    text = (packaged_dir() / "playbooks/roles/preflight/vars/main.yml").read_text(encoding="utf-8")
    (names,) = re.findall(r"/etc/kubernetes/\(\?!\(([a-z|-]+)\)", text)
    assert tuple(f"/etc/kubernetes/{name}" for name in names.split("|")) == TAKEN_FOLDERS


@pytest.mark.parametrize("name", GATED)
def test_feature_gates_of_all_components_are_not_set_for_one_by_a_variable_as_well(name: str) -> None:
    obj = deployment(kubernetes={"featureGates": {"A": True}}, variables={name: {GATED[name]: "B=true"}})
    (wrong,) = read(obj, RELEASES)[1]
    assert wrong.field == f"spec.variables.{name}"
    assert "use featureGates alone" in wrong.remedy
    obj["spec"]["kubernetes"] = {}
    assert read(obj, RELEASES)[1] == []


WRONG = [{"a": 1}, 2]  # fits hardly any form
FINE = {  # where the form's example is not a value, or one that the playbooks do not know
    "cluster_encryption_key": "A" * 43 + "=",
    "cluster_checksums": {},
    "cluster_pause_version": "3.10",
    "cluster_containerd_version": "2.4.2",
    "cluster_crio_version": "1.34.1",
    "cluster_crictl_version": "1.36.0",
}


def said(name: str, value: object, **spec: Any) -> list[str]:
    cd = defaulted(deployment(variables={name: value}, **spec))
    return [mistake.text for mistake in variable_mistakes(cd)]


@pytest.mark.parametrize("name", sorted({*KNOWN, *OPERATORS_OWN} - MAPPINGS.keys()))
def test_a_variable_that_something_else_stands_for_is_refused_with_the_field(name: str) -> None:
    runtime = KNOWN[name].runtime if name in KNOWN else ""
    runtime = runtime or "containerd"
    if name in of_unset_fields(defaulted(deployment(runtime={"name": runtime}))):
        return  # see below
    (text,) = said(name, "1", runtime={"name": runtime})
    assert text.startswith(f"spec.variables.{name}: ")
    if name in KNOWN and name not in OPERATORS_OWN:
        path = KNOWN[name].path
        assert ("spec.addons" if path.startswith("addons") else f"spec.{path}") in text


UNSET = of_unset_fields(defaulted(deployment(runtime={"name": "crio"}))) | of_unset_fields(defaulted(deployment()))


@pytest.mark.parametrize("name", sorted(UNSET & FORMS.keys()))
def test_a_variable_may_stand_in_the_place_of_a_field_that_is_not_set(name: str) -> None:
    runtime = {"name": KNOWN[name].runtime or "containerd"}
    fine = FINE[name] if name in FINE else yaml.safe_load(FORMS[name].example)
    assert said(name, fine, runtime=runtime) == []
    if not FORMS[name].fits(WRONG):
        assert len(said(name, WRONG, runtime=runtime)) == 1


def test_a_variable_of_a_field_that_is_set_is_refused() -> None:
    assert len(UNSET) > 50
    (text,) = said("cluster_drain_force", True, maintenance={"drainForce": False})
    assert text.endswith("a field stands for this variable: remove it, and set spec.maintenance.drainForce")
    assert len(said("cluster_ipv6_pod_cidr", "fd00::/56")) == 1, "machines get addresses by the field"


@pytest.mark.parametrize("runtime", ["containerd", "crio"])
def test_a_variable_of_a_runtime_that_a_cluster_does_not_have_may_stay(runtime: str) -> None:
    others = of_other_runtimes(runtime)
    assert len(others) == 4
    assert all(runtime not in name for name in others)
    for name in others:
        fine = FINE[name] if name in FINE else yaml.safe_load(FORMS[name].example)
        assert said(name, fine, runtime={"name": runtime}) == []
        assert len(said(name, WRONG, runtime={"name": runtime})) == 1


@pytest.mark.parametrize("name", sorted(MAPPINGS))
def test_a_variable_that_is_merged_with_a_field_is_a_mapping_and_keeps_its_rules(name: str) -> None:
    runtime = {"name": MAPPINGS[name].runtime or "containerd"}
    assert said(name, {"a": "1"}, runtime=runtime) == []
    assert said(name, ["a"], runtime=runtime) == [
        f"spec.variables.{name}: it is merged with spec.{MAPPINGS[name].path}, and is not a mapping: write KEY: VALUE"
    ]
    wrong = {"--a": "1"} if MAPPINGS[name].path.endswith(".extraArgs") else {"a": {"b": -1}}
    assert len(said(name, wrong, runtime=runtime)) == 1


@pytest.mark.parametrize("name", sorted({*known_variables()} - KNOWN.keys() - OPERATORS_OWN.keys()))
def test_every_other_variable_of_the_playbooks_may_be_set_to_what_has_its_form(name: str) -> None:
    form = FORMS.get(name)
    if form is None:
        computed = name.startswith("cluster_") and name not in UNJUDGED and not name.endswith("_image")
        text = "the playbooks compute this variable: set those that docs/playbooks.md lists"
        assert said(name, "1") == ([f"spec.variables.{name}: {text}"] if computed else [])
        return
    fine = FINE[name] if name in FINE else yaml.safe_load(form.example)
    assert said(name, fine) == []
    if not form.fits(WRONG):
        (text,) = said(name, WRONG)
        assert text.startswith(f"spec.variables.{name}: ")
        assert f"is not {form.what}: write one such as {form.example}" in text


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("cluster_etcd_manager_version", 1.3),
        ("cluster_etcd_manager_version", 3),
        ("etcd_version", 1.3),
    ],
)
def test_a_version_that_is_a_number_has_lost_its_zeros_whosever_variable_it_is(name: str, number: float) -> None:
    text = said(name, number, playbooks={"image": "registry.invalid/ours:1"})
    assert text == [
        f'spec.variables.{name}: {number} is a number, which has lost the zeros at its end: write it as text: "1.30"'
    ]


@pytest.mark.parametrize("playbooks", [{}, {"playbooks": {"image": "registry.invalid/ours:1"}}], ids=["ours", "own"])
@pytest.mark.parametrize("value", ["{{ unclosed", {"a": ["{% nope %}"]}, "{{ .Name }}"], ids=str)
def test_a_template_that_ansible_cannot_read_is_refused_whosever_variable_it_is(
    value: object, playbooks: dict[str, object]
) -> None:
    (text,) = said("guest_text", value, **playbooks) if playbooks else said("etcd_restore_patience", value)
    assert "not a template" in text
    assert text.startswith("spec.variables.")


def test_a_whole_number_is_a_version_of_what_has_no_parts() -> None:
    assert said("guest_cgroup_version", 1) == []


@pytest.mark.parametrize("field", VERSIONS, ids=lambda field: field.path)
def test_a_version_that_the_playbooks_do_not_know_is_refused_at_its_field(field: SpecField) -> None:
    part, _, name = field.path.partition(".")
    spec = {
        "components": {"components": {name: "9"}},
        "runtime": {"runtime": {"name": field.runtime, "version": "9"}},
    }.get(part, {"addons": [{"name": part[7:-1], "version": "9"}]})
    texts = [mistake.text for mistake in component_mistakes(defaulted(deployment(**spec)))]
    assert [text.split(": ")[0] for text in texts] == [f"spec.{field.path}"]
    theirs = deployment(playbooks={"image": "registry.invalid/ours:1"}, **spec)
    assert list(component_mistakes(defaulted(theirs))) == []


@pytest.mark.parametrize(
    ("network", "field", "words"),
    [
        ({"pods": "10.1.0.0/30"}, "spec.network.pods", "10.1.0.0/30 has no /24 for each of 3 nodes"),
        ({"pods": "10.1.0.0/23"}, "spec.network.pods", "10.1.0.0/23 has no /24 for each of 3 nodes"),
        ({"services": "10.1.0.0/29"}, "spec.network.services", "has 8 addresses, and kubeadm asks for 10"),
        ({"services": "11.0.0.0/8"}, "spec.network.services", "11.0.0.0/8 is too large for Kubernetes"),
        ({"pods": "fd00:1::/56"}, "spec.network.services", "are of two IP families"),
        ({"pods": "fd00:1::/64", "services": "fd00:2::/112"}, "spec.network.pods", "has no /64 for each of 3 nodes"),
        ({"pods": "fd00::/40", "services": "fd01::/112"}, "spec.network.pods", "fd00::/40 is too large for Kubernetes"),
    ],
)
def test_a_network_without_room_is_refused_before_machines_are(network: Json, field: str, words: str) -> None:
    sets = (wanted_set("cp", "control-plane"), wanted_set("w", "worker", replicas=2))
    (mistake,) = read(deployment(*sets, network=network), RELEASES)[1]
    assert mistake.field == field
    assert words in mistake.text


def test_members_of_etcd_alone_need_no_pods() -> None:
    sets = (wanted_set("cp", "control-plane"), wanted_set("db", "etcd", replicas=3))
    assert read(deployment(*sets, network={"pods": "10.1.0.0/24"}), RELEASES)[1] == []


def test_the_networks_of_the_second_family_are_judged_with_the_first() -> None:
    (mistake,) = read(deployment(network={"ipv6Pods": "fd10::/56"}), RELEASES)[1]
    assert mistake.field == "spec.network.ipv6Pods"
    assert "needs ipv6Services as well" in mistake.message
    both = {"ipv6Pods": "fd10::/56", "ipv6Services": "fd11::/112"}
    assert read(deployment(network=both), RELEASES)[1] == []


def test_only_vmatrix_s_own_playbooks_are_known_by_their_variables() -> None:
    assert said("cluster_of_ours", 1)
    assert said("cluster_of_ours", 1, playbooks={"image": "registry.invalid/ours:1"}) == []
    assert said("cluster_of_ours", 1, playbooks={"product": {"configMap": "ours"}}) == []
    assert said("etcd_restore_patience", 90) == [], "a role's own variable"


@pytest.mark.parametrize(("name", "least"), [("oomScoreAdj", -999), ("podPidsLimit", -1), ("maxPods", 0)])
def test_a_number_that_may_be_negative_is_taken(name: str, least: int) -> None:
    assert said("cluster_kubelet_config", {name: least}) == []
    assert said("cluster_kubelet_config", {name: -1001})


# What is refused because of the object as it was, or of other objects.
BY_OTHERS = {
    *("version-older", "components.etcd-older", "network.plugin", "network.pods", "network.services"),
    *("network.dnsDomain", "network.pool", "network.vxlan.vni", "certificates.folder"),
    *(
        "etcd.clusterRef",
        "machineSets.0.name",
        "machineSets.0.roles",
        "machineSets.0.replicas",
        "playbooks.product.configMap",
    ),
}
NEW = deployment()
BEFORE = {**NEW, "spec": filled(defaulted(NEW))}


def test_every_field_of_a_cluster_has_a_wrong_value_that_is_tried_on_machines() -> None:
    rows = {field for row in WRONG_FIELDS for field in row.fields}
    assert {".".join(path) for path, _ in FORM} - rows == set()
    assert len({row.name for row in WRONG_FIELDS}) == len(WRONG_FIELDS)
    assert {row.name for row in WRONG_FIELDS if row.end == "not accepted"} > BY_OTHERS


@pytest.mark.parametrize("row", [row for row in WRONG_FIELDS if row.end == "not accepted"], ids=lambda row: row.name)
def test_what_is_refused_by_itself_is_refused_with_its_words(row: WrongField) -> None:
    mistakes = read({**BEFORE, "spec": edited(BEFORE["spec"], row.edit)}, RELEASES)[1]
    said = " ".join(f"{mistake.field} {mistake.message}: {mistake.remedy}" for mistake in mistakes)
    if row.name in BY_OTHERS:
        assert row.words not in said
    else:
        assert mistakes
        assert row.words in said
