"""Product files of playbooks that are not vmatrix's own."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from harness.operator.decide.operations import DUTIES
from harness.operator.decide.product_file import FIELD, KnownProduct, in_config_map, phase_of, read_product
from tests.unit.operator.decide.products import GOOD, known

Json = dict[str, Any]


def with_(path: str, value: Any) -> str:
    """Return the good file with another value at a place."""
    content = yaml.safe_load(GOOD)
    *way, last = path.split(".")
    at = content
    for key in way:
        at = at[key]
    at[last] = value
    return yaml.safe_dump(content, sort_keys=False)


def test_operations_are_phases_of_the_file() -> None:
    product = known()
    assert product.playbook("deploy") == "site.yml"
    assert product.playbook("scale") == "grow.yml"
    assert product.playbook("upgrade") is None
    assert {phase_of(duty.operation) for duty in DUTIES} >= {"deploy", "scale-out", "remove-node", "upgrade", "reset"}


def test_groups_have_both_names() -> None:
    product = known()
    assert product.groups("control_plane") == ("control_plane", "kube_control_plane")
    assert product.groups("node") == ("node", "kube_node", "workers")
    assert product.groups("etcd") == ("etcd",)


def test_the_digest_is_of_the_text() -> None:
    assert known().digest == known().digest != known(with_("product.name", "other")).digest


BAD: dict[str, tuple[str, str]] = {
    "no YAML": ("a: [", "line 1: malformed YAML"),
    "no product": ("{}", "product: missing; this key is required"),
    "an unknown key": (with_("product.phase", {}), "product.phase: unknown key; did you mean phases?"),
    "no phase": (with_("product.phases", {}), "product.phases: expected at least 1"),
    "no playbook": (with_("product.phases.deploy", {}), "product.phases.deploy: has no playbook"),
    "another kind": (with_("product.kind", "command"), "product.kind: executors run playbooks"),
    "sources": (with_("product.sources", {"path": "x"}), "product.sources: the image has the playbooks"),
    "sources in a path": (with_("product.phases.deploy.playbook", "{sources}/x.yml"), "product.phases.deploy.playbook"),
    "packages": (with_("product.ansible", {"install": "x.txt"}), "product.ansible.install: executors install nothing"),
    "collections": (with_("product.ansible", {"requirements": "x.yml"}), "product.ansible.requirements: executors"),
    "groups": (with_("product.groups", {"etcd": "etcd", "node": []}), "product.groups: lacks control_plane"),
    "an unknown word": (with_("product.variables", {"cluster_x": "y"}), "unknown variable of vmatrix 'cluster_x'"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_told_with_its_place_and_what_to_do(case: str) -> None:
    text, words = BAD[case]
    product, found = read_product(text, "theirs")
    assert product is None
    assert any(words in mistake.message for mistake in found), found
    assert all(mistake.field == FIELD and "ConfigMap theirs, product.yml, line" in mistake.text for mistake in found)
    assert all(mistake.remedy for mistake in found)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "there is no ConfigMap theirs: create it, with the key product.yml"),
        ({"data": {"a.yml": "x"}}, "ConfigMap theirs has no key product.yml: add it; it has a.yml"),
        ({}, "it has none"),
    ],
)
def test_a_config_map_without_the_file_is_told(found: Json | None, words: str) -> None:
    product, (mistake,) = in_config_map(found, "theirs")
    assert product is None
    assert mistake.text.startswith("spec.playbooks.product.configMap: ")
    assert mistake.text.endswith(words)


@pytest.mark.parametrize(
    ("given", "lacking"),
    [
        (("site_token", "cluster_pod_cidr"), []),
        (("cluster_pod_cidr",), ["spec.variables.site_token: their playbooks requires this variable: set it"]),
        (("site_token",), ["spec.variables.pods: their playbooks requires this variable: set it"]),
    ],
)
def test_variables_that_the_product_requires_are_given_under_either_name(
    given: tuple[str, ...], lacking: list[str]
) -> None:
    product: KnownProduct = known(with_("product.requires", ["site_token", "pods", "kube_proxy_mode"]))
    assert [mistake.text for mistake in product.lacking(given)] == lacking
