"""Fields of a ClusterDeployment and variables of the playbooks: none is forgotten on either side."""

from __future__ import annotations

import re

import yaml

from harness.operator.api.cluster import AppliedState
from harness.operator.api.clusterdeployment import ClusterDeploymentSpec
from harness.operator.api.components import ClusterAddon, Components
from harness.operator.api.rules import OPERATORS_OWN
from harness.operator.decide.fields import (
    ADDONS,
    COMPONENTS,
    HOSTS,
    OF_THE_EXECUTOR,
    SETTINGS,
    VERSIONS,
    part_of,
    path_of,
)
from harness.paths import packaged_dir
from tests.unit.operator.decide.wishes import wish

# Fields that are no variables of the playbooks.
OTHERS = {"paused", "machineSets", "access", "variables", "playbooks", "jobs", "deletion", "addons", "components"}
PLAYBOOKS = packaged_dir() / "playbooks" / "group_vars" / "all" / "main.yml"


def test_every_field_of_the_spec_is_a_variable_or_known_not_to_be() -> None:
    roots = {field.path.split(".")[0] for field in SETTINGS}
    names = {field.alias or name for name, field in ClusterDeploymentSpec.model_fields.items()}
    assert names == roots | OTHERS


def test_every_component_and_add_on_of_the_spec_has_a_version() -> None:
    assert set(COMPONENTS) == {field.alias or name for name, field in Components.model_fields.items()}
    (known,) = re.findall(r"Literal\[(.*?)\]", str(ClusterAddon.model_fields["name"].annotation))
    assert set(ADDONS) == {name.strip("' ") for name in known.split(",")}


def test_every_variable_is_one_that_the_playbooks_know() -> None:
    text = PLAYBOOKS.read_text(encoding="utf-8")
    known = {*yaml.safe_load(text), *re.findall(r"cluster_\w+", text)}
    assert {field.variable for field in (*SETTINGS, *VERSIONS)} | {HOSTS, *OF_THE_EXECUTOR} <= known
    assert known >= OPERATORS_OWN


def test_every_variable_that_the_matrix_sets_can_be_set_by_a_field() -> None:
    axes = yaml.safe_load((packaged_dir() / "matrix" / "axes.yml").read_text(encoding="utf-8"))["axes"]
    given = {name for axis in axes for value in axis["values"] for name in value.get("vars", {})}
    given |= yaml.safe_load((packaged_dir() / "matrix" / "product.yml").read_text(encoding="utf-8"))["product"][
        "vars"
    ].keys()
    assert given <= {field.variable for field in (*SETTINGS, *VERSIONS)}


def test_a_variable_of_no_field_is_a_setting() -> None:
    assert (part_of("cluster_drain_force"), path_of("cluster_drain_force")) == (
        "settings",
        "spec.variables.cluster_drain_force",
    )
    assert (part_of("cluster_hosts"), path_of("cluster_hosts")) == ("machines", "spec.machineSets")


def test_what_was_applied_has_a_digest_of_each_part() -> None:
    one = wish()
    assert set(one.digests) == {"version", "settings", "machines", "addons"}
    assert AppliedState(digests=dict(one.digests)).digests == one.digests
