"""Variables of guests: a VXLAN port beside the cluster's, the user's file, and networks of a product's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.infra.cluster import guest_vars
from harness.infra.guest_facts import VIRTUAL
from tests.unit.infra.cluster.networked import Cluster, any_of


def test_guests_get_a_port_beside_the_cluster_s_and_what_the_user_says() -> None:
    cluster = any_of(Cluster())
    facts = VIRTUAL.variables()
    assert guest_vars.variables(cluster, {}) == {**facts, "cluster_vxlan_port": 8473}
    given = {"cluster_vxlan_port": 5000, "x": 1, "guest_swap": True}
    assert guest_vars.variables(cluster, given) == {**facts, **given}


def test_the_user_s_networks_take_the_place_of_the_product_s(tmp_path: Path) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text(
        "cluster_pod_cidr: 10.1.0.0/16\ncluster_service_cidr: 10.2.0.0/16\n"
    )
    found = guest_vars.networks(tmp_path, {"cluster_pod_cidr": "10.3.0.0/16"})
    assert found == {"pod network": "10.3.0.0/16", "service network": "10.2.0.0/16"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "1: not `name: value` pairs"),
        ("a: [\n", "malformed YAML"),
        ("x: 1\ncluster_pod_cidr: 10.0.0.1/16\n", ":2: cluster_pod_cidr: 10.0.0.1/16 has host bits set"),
        ("x: 1\nrelease: 1.30\n", ":2: release: YAML takes 1.30 for 1.3; put it in quotes"),
        ("modes: {deep: [0644]}\n", ":1: modes.deep[0]: YAML takes 0644 for 420"),
        ("answer: no\n", ":1: answer: YAML takes no for false"),
    ],
)
def test_a_file_of_variables_that_cannot_be_used_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "guests.yml"
    file.write_text(text)
    with pytest.raises(BadInput) as refused:
        guest_vars.read_vars(file)
    assert str(file) in refused.value.summary
    assert said in refused.value.summary
    with pytest.raises(BadInput):
        guest_vars.read_vars(tmp_path / "none.yml")


@pytest.mark.parametrize("text", ["$ANSIBLE_VAULT;1.1;AES256\n6162\n", "a: [\n", "[1]\n", "\u00e9: {{ x }}\n", ""])
def test_a_product_s_file_that_only_ansible_can_read_names_no_networks(tmp_path: Path, text: str) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text(text, encoding="utf-8")
    assert guest_vars.networks(tmp_path, {}) == {}


def test_tags_of_ansible_s_do_not_hide_a_product_s_networks(tmp_path: Path) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text("a: !vault x\nb: !unsafe y\ncluster_pod_cidr: 10.1.0.0/16\n")
    assert guest_vars.networks(tmp_path, {}) == {"pod network": "10.1.0.0/16"}
