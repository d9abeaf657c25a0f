"""Manifests: labelled, complete, deterministic; names that fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cell import manifests
from harness.cell.labels import cell_labels, expired, namespace_name
from harness.errors import BadInput
from harness.machines.access import control_directory
from harness.model import LABEL_CELL, LABEL_EXPIRES, LABEL_RUN, Cell
from harness.paths import project_dir
from harness.plan.tiers import tier_cells
from harness.spec import load_spec

TEMPLATES = project_dir() / "vm-templates"
IMAGE = manifests.GoldenImage("debian-13-abc", "http://m/images/x.qcow2", "sha256:" + "a" * 64, "10Gi", "debian")


def smoke() -> Cell:
    return tier_cells(load_spec(project_dir() / "matrix"), "smoke", "embedded")[0]


def plan(cell: Cell) -> manifests.CellPlan:
    labels = cell_labels(run="abc123", cell=cell.id, attempt=1, expires_at=1e9, environment={})
    return manifests.CellPlan(
        namespace_name("abc123", cell.id, 1), labels, 1e9, 'ssh-ed25519 AAAA "quoted"', "cluster.local", None
    )


def first_machine(directory: Path) -> list[dict[str, Any]]:
    cell = smoke()
    return manifests.machine(plan(cell), cell.machines[0], IMAGE, directory=directory)


def rendered() -> list[dict[str, object]]:
    cell = smoke()
    return manifests.render_all(plan(cell), cell.machines, IMAGE, directory=TEMPLATES)


def test_the_namespace_comes_first_and_everything_is_labelled() -> None:
    objects = rendered()
    assert objects[0]["kind"] == "Namespace"
    for obj in objects:
        labels = obj["metadata"]["labels"]  # type: ignore[index]
        assert labels[LABEL_RUN] == "abc123"
        assert {LABEL_CELL, LABEL_EXPIRES} <= set(labels)


def test_each_machine_has_a_disk_a_seed_and_a_machine() -> None:
    kinds = [(o["kind"], o["metadata"]["name"]) for o in rendered()[4:]]  # type: ignore[index]
    assert kinds == [
        (kind, name + suffix)
        for name in ("cp-0", "w-0")
        for kind, suffix in (("DataVolume", ""), ("Secret", "-cloud-init"), ("VirtualMachine", ""))
    ]


def test_a_cell_whose_product_runs_pods_has_room_for_them_and_no_bound_on_memory() -> None:
    cell = smoke()
    usual, roomy = (
        manifests.quota(plan(cell), cell.machines, directory=TEMPLATES, pods=pods)["spec"]["hard"]
        for pods in (False, True)
    )
    assert set(usual) == {"pods", "requests.memory", "persistentvolumeclaims"}
    assert set(roomy) == {"pods", "persistentvolumeclaims"}
    assert all(int(roomy[name]) - int(usual[name]) == manifests.PRODUCT_PODS for name in roomy)


def test_user_data_is_a_cloud_config_with_the_key_as_given() -> None:
    secret = next(o for o in rendered() if o["kind"] == "Secret")
    text = secret["stringData"]["userdata"]  # type: ignore[index]
    assert text.startswith("#cloud-config\n")
    user = yaml.safe_load(text)["users"][0]
    assert user["name"] == "debian"
    assert user["ssh_authorized_keys"] == ['ssh-ed25519 AAAA "quoted"']


def test_rendering_twice_gives_the_same() -> None:
    assert rendered() == rendered()


def test_a_machine_never_masquerades_and_is_killed_without_grace() -> None:
    machine = next(o for o in rendered() if o["kind"] == "VirtualMachine")
    spec = machine["spec"]["template"]["spec"]  # type: ignore[index]
    assert spec["domain"]["devices"]["interfaces"] == [{"name": "default", "bridge": {}}]
    assert spec["terminationGracePeriodSeconds"] == 0
    assert spec["evictionStrategy"] == "None"


def test_a_machine_is_bound_as_it_is_asked_for_and_its_disk_made_from_what_it_is_told() -> None:
    cell = smoke()
    masked = replace(plan(cell), binding=manifests.MASQUERADE)
    origins = {
        "claim": (None, {"source": {"pvc": {"namespace": "vmatrix-images", "name": IMAGE.name}}}),
        "snapshot": (
            manifests.Origin("data source", "images", "snap"),
            {"sourceRef": {"kind": "DataSource", "namespace": "images", "name": "snap"}},
        ),
        "url": (manifests.Origin("url"), {"source": {"http": {"url": IMAGE.url, "checksum": IMAGE.checksum}}}),
    }
    for origin, expected in origins.values():
        disk, _, vm = manifests.machine(masked, cell.machines[0], IMAGE, directory=TEMPLATES, origin=origin)
        assert vm["spec"]["template"]["spec"]["domain"]["devices"]["interfaces"] == [
            {"name": "default", "masquerade": {}}
        ]
        assert {k: v for k, v in disk["spec"].items() if k != "storage"} == expected
        assert "annotations" not in disk["metadata"]


def test_only_golden_images_are_bound_without_a_consumer() -> None:
    asked = replace(IMAGE, credentials="login", certificates="ca")
    golden = manifests.golden(asked, labels={}, storage_class=None, directory=TEMPLATES)
    assert golden["metadata"]["annotations"] == {"cdi.kubevirt.io/storage.bind.immediate.requested": "true"}
    assert golden["spec"]["source"]["http"] | {"url": "", "checksum": ""} == {
        "url": "",
        "checksum": "",
        "secretRef": "login",
        "certConfigMap": "ca",
    }


def test_a_namespace_name_fits_and_is_deterministic() -> None:
    name = namespace_name("abc123", "a" * 40, 2)
    assert len(name) <= 63
    assert name == namespace_name("abc123", "a" * 40, 2)


def test_a_control_socket_fits_into_a_socket_address() -> None:
    assert len(str(control_directory("abc123", "a" * 40))) + len("/") + 40 + len(".") + 16 <= 107


def test_jobs_are_named_in_the_labels() -> None:
    labels = cell_labels(
        run="r",
        cell="c",
        attempt=1,
        expires_at=5.5,
        environment={"CI_JOB_ID": "7", "CI_PIPELINE_ID": "x/y", "HOME": "/"},
    )
    assert labels["vmatrix.dev/job"] == "7"
    assert labels["vmatrix.dev/pipeline"] == "x_y"
    assert "vmatrix.dev/project" not in labels


def test_expiry_is_read_from_the_label() -> None:
    assert expired({LABEL_EXPIRES: "10"}, at=11)
    assert not expired({LABEL_EXPIRES: "10"}, at=9)
    assert not expired({}, at=1e12)
    assert not expired({LABEL_EXPIRES: "soon"}, at=1e12)


def test_a_projects_template_replaces_the_packaged_one(tmp_path: Path) -> None:
    (tmp_path / "quota.yml.j2").write_text("kind: ResourceQuota\nof: {{ namespace }}\n", encoding="utf-8")
    values = {"namespace": "a", "labels": {}, "machines": 1, "memory_mib": 1, "expires": "never"}
    assert manifests.render("quota.yml.j2", values, directory=tmp_path) == {"kind": "ResourceQuota", "of": "a"}
    assert manifests.render("namespace.yml.j2", values, directory=tmp_path)["kind"] == "Namespace"


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
        manifests.render("namespace.yml.j2", {"namespace": "a", "labels": {}, "expires": "never"}, directory=tmp_path)
    assert str(TEMPLATES / "namespace.yml.j2") in refused.value.hint
