"""The objects of one machine, and the templates that they are rendered from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput
from harness.machines.kubevirt.manifests import GoldenImage, MachinePlan, golden, machine, render
from harness.model import PlannedMachine
from harness.paths import project_dir

TEMPLATES = project_dir() / "vm-templates"
IMAGE = GoldenImage("debian-13-abc", "http://m/images/x.qcow2", "sha256:" + "a" * 64, "10Gi", "debian")
PLAN = MachinePlan("cells", {"vmatrix.dev/run": "r"}, "ssh-ed25519 A", "cluster.local", None)
PLANNED = PlannedMachine("w-0", ("node",), 2, 1536, 12, "debian-13")


def first_machine(directory: Path, plan: MachinePlan = PLAN) -> list[dict[str, Any]]:
    return machine(plan, PLANNED, IMAGE, directory=directory)


def test_a_machine_runs_once_and_anywhere_unless_it_is_told_otherwise() -> None:
    usual = first_machine(TEMPLATES)[-1]["spec"]
    assert usual["runStrategy"] == "Once"
    assert "nodeSelector" not in usual["template"]["spec"]
    zone = {"topology.kubernetes.io/zone": "a"}
    told = first_machine(TEMPLATES, replace(PLAN, run_strategy="Always", nodes=zone))[-1]["spec"]
    assert told["runStrategy"] == "Always"
    assert told["template"]["spec"]["nodeSelector"] == zone


def test_only_golden_images_are_bound_without_a_consumer() -> None:
    asked = replace(IMAGE, credentials="login", certificates="ca")
    made = golden(asked, labels={}, storage_class=None, directory=TEMPLATES)
    assert made["metadata"]["annotations"] == {"cdi.kubevirt.io/storage.bind.immediate.requested": "true"}
    assert made["spec"]["source"]["http"] | {"url": "", "checksum": ""} == {
        "url": "",
        "checksum": "",
        "secretRef": "login",
        "certConfigMap": "ca",
    }


def test_a_projects_template_replaces_the_packaged_one(tmp_path: Path) -> None:
    (tmp_path / "quota.yml.j2").write_text("kind: ResourceQuota\nof: {{ namespace }}\n", encoding="utf-8")
    values = {"namespace": "a", "labels": {}, "machines": 1, "memory_mib": 1, "expires": "never"}
    assert render("quota.yml.j2", values, directory=tmp_path) == {"kind": "ResourceQuota", "of": "a"}
    assert render("namespace.yml.j2", values, directory=tmp_path)["kind"] == "Namespace"


def test_a_projects_template_amends_the_packaged_one(tmp_path: Path) -> None:
    text = """\
extends: default
spec:
  template:
    spec:
      evictionStrategy: null
      nodeSelector: {kind: {{ binding }}}
      domain: {devices: {disks: [{name: seed, remove: true}, {name: root, cache: none}]}}
"""
    (tmp_path / "virtual-machine.yml.j2").write_text(text, encoding="utf-8")
    (own,) = (o for o in first_machine(tmp_path) if o["kind"] == "VirtualMachine")
    (packaged,) = (o for o in first_machine(TEMPLATES) if o["kind"] == "VirtualMachine")
    spec = own["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"kind": "bridge"}
    assert spec["domain"]["devices"]["disks"] == [{"name": "root", "disk": {"bus": "virtio"}, "cache": "none"}]
    assert "evictionStrategy" not in spec
    assert spec["volumes"] == packaged["spec"]["template"]["spec"]["volumes"]
    assert own["metadata"] == packaged["metadata"]


@pytest.mark.parametrize("text", ["extends: other\n", "extends: default\nmetadata: {annotation: null}\n"])
def test_a_template_that_cannot_amend_is_refused_by_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / "namespace.yml.j2").write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=r"namespace\.yml\.j2 cannot amend the packaged template") as refused:
        render("namespace.yml.j2", {"namespace": "a", "labels": {}, "expires": "never"}, directory=tmp_path)
    assert str(TEMPLATES / "namespace.yml.j2") in refused.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: {{ nowhere }}\n", ":2: 'nowhere' is undefined"),
        ("a: 1\n{% if x %}\n", ":2: Unexpected end of template"),
        ("a: {{ 1 + }}\n", ":1: unexpected"),
        ("a: 1\n\nb: {{ 1 / 0 }}\n", ":3: division by zero"),
        ("a: 1\nb: {{ 'x' + 1 }}\n", ":2: can only concatenate"),
        ("a: {{ [] | no_such_filter }}\n", ":1: No filter named"),
        ("{% include 'absent.j2' %}\n", ":1: 'absent.j2' not found"),
        ("a: [1\n", ", filled in:1: malformed YAML: a list in brackets"),
        ("just a word\n", ", filled in: not an object of Kubernetes"),
        ("a: 1\n---\nb: 2\n", "the file has a second document"),
        ("", ", filled in: not an object of Kubernetes"),
    ],
)
def test_a_template_of_the_users_that_cannot_be_filled_in_is_named_with_its_line(
    text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "namespace.yml.j2").write_text(text)
    with pytest.raises(BadInput) as refused:
        render("namespace.yml.j2", {}, directory=tmp_path)
    assert str(tmp_path / "namespace.yml.j2") in refused.value.summary
    assert said in refused.value.summary
    assert "\n" not in refused.value.summary
