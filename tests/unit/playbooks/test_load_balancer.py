"""The addresses for load balancers: what MetalLB is told of them."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.unit.playbooks.test_templates import render

METALLB = {"cluster_metallb_version": "0.16.1", "cluster_load_balancer_addresses": ["10.0.0.240/28"]}
FILES = frozenset({"metallb.yml", "metallb-pool.yml", "chosen.json"})


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
