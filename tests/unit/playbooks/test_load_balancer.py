"""The addresses for load balancers: what is wrong with them is said, and what MetalLB is told of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.playbooks.playbook_files import module
from tests.unit.playbooks.test_templates import render

MISTAKES = module("filter_plugins/load_balancer_mistakes.py")
GIVEN: dict[str, Any] = {
    "addresses": ["10.0.0.240-10.0.0.250", "10.0.1.0/28"],
    "wanted": True,
    "hosts": [{"name": "cp", "address": "10.0.0.2"}, {"name": "w", "address": "10.0.0.3"}],
    "networks": {"cluster_pod_cidr": "10.243.0.0/16", "cluster_service_cidr": "10.95.0.0/16"},
    "outside": ["10.0.0.1", "mirror.example"],
}
METALLB = {"cluster_metallb_version": "0.16.1", "cluster_load_balancer_addresses": ["10.0.0.240/28"]}
FILES = frozenset({"metallb.yml", "metallb-pool.yml", "chosen.json"})


def test_addresses_that_nobody_has_pass_and_none_are_needed_without_metallb() -> None:
    assert MISTAKES.load_balancer_mistakes(GIVEN) == []
    assert MISTAKES.load_balancer_mistakes({**GIVEN, "addresses": [], "wanted": False}) == []


@pytest.mark.parametrize(
    ("addresses", "words"),
    [
        ([], "cluster_metallb_version is set and cluster_load_balancer_addresses is not"),
        ("10.0.0.240/28", "is no list"),
        (["10.0.0.300-10.0.0.301"], "cluster_load_balancer_addresses[0] is '10.0.0.300-10.0.0.301'"),
        (["10.0.0.9-10.0.0.8"], "10.0.0.9 is above 10.0.0.8"),
        (["10.0.0.241/28"], "has host bits set"),
        (["fd00::/120"], "cluster_load_balancer_addresses[0] is 'fd00::/120'"),
        (["10.0.0.3-10.0.0.9"], "contains 10.0.0.3, the address of machine w"),
        (["10.0.0.1-10.0.0.1"], "contains 10.0.0.1, the address of the mirror"),
        (["10.243.9.0/24"], "overlaps cluster_pod_cidr 10.243.0.0/16"),
        (["10.94.0.0-10.96.0.0"], "overlaps cluster_service_cidr 10.95.0.0/16"),
        (["10.0.0.240/28", "10.0.0.250-10.0.1.9"], "[1] 10.0.0.250-10.0.1.9 overlaps 10.0.0.240/28"),
    ],
)
def test_each_mistake_is_said_with_a_remedy(addresses: Any, words: str) -> None:
    (said,) = MISTAKES.load_balancer_mistakes({**GIVEN, "addresses": addresses})
    assert words in said
    assert ": give " in said or ": choose " in said or ": let " in said


def test_metallb_gets_its_addresses_and_both_programs_their_images(tmp_path: Path) -> None:
    rendered = render("cp1-w1", tmp_path, FILES, **METALLB)
    pool, announced = yaml.safe_load_all((rendered / "metallb-pool.yml").read_text(encoding="utf-8"))
    assert pool["spec"] == {"addresses": ["10.0.0.240/28"]}
    assert announced["spec"]["ipAddressPools"] == [pool["metadata"]["name"]]
    objects = list(yaml.safe_load_all((rendered / "metallb.yml").read_text(encoding="utf-8")))
    pods = {
        o["metadata"]["name"]: o["spec"]["template"]["spec"]
        for o in objects
        if o["kind"] in ("Deployment", "DaemonSet")
    }
    images = {name: spec["containers"][0]["image"] for name, spec in pods.items()}
    assert images == dict.fromkeys(("controller", "speaker"), "10.0.0.1:5000/metallb:v0.16.1")
    assert "args" not in pods["speaker"]["containers"][0]
    accounts = {o["metadata"]["name"] for o in objects if o["kind"] == "ServiceAccount"}
    assert accounts == {spec["serviceAccountName"] for spec in pods.values()}


def test_every_version_of_a_kind_that_metallb_asks_for_is_served_and_one_is_stored(tmp_path: Path) -> None:
    rendered = render("cp1-w1", tmp_path, FILES, **METALLB)
    objects = yaml.safe_load_all((rendered / "metallb.yml").read_text(encoding="utf-8"))
    kinds = {
        o["spec"]["names"]["kind"]: o["spec"]["versions"] for o in objects if o["kind"] == "CustomResourceDefinition"
    }
    assert len(kinds) == 9
    assert [version["name"] for version in kinds["BGPPeer"]] == ["v1beta2", "v1beta1"]
    assert all([version["storage"] for version in versions].count(True) == 1 for versions in kinds.values())
    assert all(versions[-1]["name"] == "v1beta1" for versions in kinds.values())


def test_control_planes_announce_addresses_where_there_are_no_other_nodes(tmp_path: Path) -> None:
    rendered = render("all-in-one", tmp_path, FILES, **METALLB)
    objects = yaml.safe_load_all((rendered / "metallb.yml").read_text(encoding="utf-8"))
    (speaker,) = (one for one in objects if one["kind"] == "DaemonSet")
    assert speaker["spec"]["template"]["spec"]["containers"][0]["args"] == ["--ignore-exclude-lb"]


def test_nothing_of_metallb_is_applied_without_its_version(tmp_path: Path) -> None:
    rendered = render("cp1-w1", tmp_path, FILES)
    assert "metallb" not in (rendered / "chosen.json").read_text(encoding="utf-8")
