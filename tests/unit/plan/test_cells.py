"""Cells: ids that never change by accident, machines and variables that follow from the values."""

from __future__ import annotations

import re

import pytest

from harness.errors import BadInput, NothingSelected
from harness.paths import project_dir
from harness.plan import make_cell, select
from harness.spec import Spec, load_spec

SMOKE = "k1363-d13-c2-fl-nf-c1w1-fresh-m"


@pytest.fixture(scope="module")
def spec() -> Spec:
    return load_spec(project_dir() / "matrix")


def test_an_id_is_the_slugs_in_the_axes_order_and_a_hash(spec: Spec) -> None:
    (cell,) = select(spec, tier="smoke")
    assert re.fullmatch(SMOKE + r"-[0-9a-f]{6}", cell.id)
    assert len(cell.id) <= 40


def test_the_order_in_which_values_are_given_does_not_matter(spec: Spec) -> None:
    (cell,) = select(spec, tier="smoke")
    assert make_cell(spec, dict(reversed(list(cell.values.items())))) == cell


def test_another_value_makes_another_hash(spec: Spec) -> None:
    (cell,) = select(spec, tier="smoke")
    other = make_cell(spec, {**cell.values, "topology": "all-in-one"})
    assert cell.id.rsplit("-", 1)[1] != other.id.rsplit("-", 1)[1]


def test_machines_follow_from_the_topology(spec: Spec) -> None:
    (cell,) = select(spec, tier="smoke")
    assert [(m.name, m.groups) for m in cell.machines] == [("cp-0", ("control_plane", "etcd")), ("w-0", ("node",))]
    assert all(m.image == "debian-13" for m in cell.machines)


def test_variables_come_from_the_product_and_every_value(spec: Spec) -> None:
    (cell,) = select(spec, tier="smoke")
    assert cell.vars["cluster_kubernetes_version"] == "1.36.3"
    assert cell.vars["cluster_kube_proxy_mode"] == "nftables"
    assert cell.vars["cluster_pod_cidr"] == "10.243.0.0/16"


def test_an_unknown_tier_names_the_nearest(spec: Spec) -> None:
    with pytest.raises(BadInput, match="unknown tier 'smok'; did you mean 'smoke'") as caught:
        select(spec, tier="smok")
    assert caught.value.exit_code == 2


def test_a_pattern_without_a_cell_is_nothing_selected(spec: Spec) -> None:
    with pytest.raises(NothingSelected) as caught:
        select(spec, tier="smoke", patterns=["k999*"])
    assert caught.value.exit_code == 4


def test_a_glob_selects_over_all_tiers(spec: Spec) -> None:
    assert {c.id for c in select(spec, tier=None, patterns=["*-a1-*", "*-c1w1-*"])} == {
        c.id for tier in ("smoke", "single") for c in select(spec, tier=tier)
    }


def test_a_too_long_id_is_refused(spec: Spec) -> None:
    raw = spec.model_dump(by_alias=True)
    for axis in raw["axes"]:
        axis["values"][0]["slug"] = "verylong"
    wide = Spec.model_validate(raw)
    with pytest.raises(BadInput, match="at most 40 fit"):
        make_cell(wide, {axis.name: axis.values[0].id for axis in wide.axes})
