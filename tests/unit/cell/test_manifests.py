"""Manifests: labelled, complete, deterministic; names that fit."""

from __future__ import annotations

from dataclasses import replace

import yaml

from harness.cell import manifests
from harness.cell.place import cell_labels, expired, namespace_name
from harness.embedded.vmi.launcher import compute
from harness.machines.kubevirt.manifests import MASQUERADE, GoldenImage, Origin, machine
from harness.machines.reach.ssh import control_directory
from harness.model import LABEL_CELL, LABEL_EXPIRES, LABEL_RUN, Cell
from harness.paths import project_dir
from harness.plan.tiers import tier_cells
from harness.schedule.placement import CONSOLE_LOG_MIB, demand_of
from harness.spec import load_spec

TEMPLATES = project_dir() / "vm-templates"
IMAGE = GoldenImage("debian-13-abc", "http://m/images/x.qcow2", "sha256:" + "a" * 64, "10Gi", "debian")


def smoke() -> Cell:
    return tier_cells(load_spec(project_dir() / "matrix"), "smoke", "embedded")[0]


def plan(cell: Cell) -> manifests.CellPlan:
    labels = cell_labels(run="abc123", cell=cell.id, attempt=1, expires_at=1e9, environment={})
    return manifests.CellPlan(
        namespace_name("abc123", cell.id, 1), labels, 'ssh-ed25519 AAAA "quoted"', "cluster.local", None, expires_at=1e9
    )


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
    vm = next(o for o in rendered() if o["kind"] == "VirtualMachine")
    spec = vm["spec"]["template"]["spec"]  # type: ignore[index]
    assert spec["domain"]["devices"]["interfaces"] == [{"name": "default", "bridge": {}}]
    assert spec["terminationGracePeriodSeconds"] == 0
    assert spec["evictionStrategy"] == "None"


def test_a_machine_is_bound_as_it_is_asked_for_and_its_disk_made_from_what_it_is_told() -> None:
    cell = smoke()
    masked = replace(plan(cell), binding=MASQUERADE)
    origins = {
        "claim": (None, {"source": {"pvc": {"namespace": "vmatrix-images", "name": IMAGE.name}}}),
        "snapshot": (
            Origin("data source", "images", "snap"),
            {"sourceRef": {"kind": "DataSource", "namespace": "images", "name": "snap"}},
        ),
        "url": (Origin("url"), {"source": {"http": {"url": IMAGE.url, "checksum": IMAGE.checksum}}}),
    }
    for origin, expected in origins.values():
        disk, _, vm = machine(masked, cell.machines[0], IMAGE, directory=TEMPLATES, origin=origin)
        assert vm["spec"]["template"]["spec"]["domain"]["devices"]["interfaces"] == [
            {"name": "default", "masquerade": {}}
        ]
        assert {k: v for k, v in disk["spec"].items() if k != "storage"} == expected
        assert "annotations" not in disk["metadata"]


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


def test_a_measured_machine_requests_what_it_took_and_keeps_the_memory_that_it_declares() -> None:
    cell = smoke()
    measured = replace(plan(cell), asked={"cp-0": 1235})
    domains = {
        planned.name: machine(measured, planned, IMAGE, directory=TEMPLATES)[2]["spec"]["template"]["spec"]["domain"]
        for planned in cell.machines
    }
    assert domains["cp-0"]["memory"] == {"guest": "2048Mi"}
    assert domains["cp-0"]["resources"] == {"overcommitGuestOverhead": True, "requests": {"memory": "1235Mi"}}
    assert "resources" not in domains["w-0"]
    pod = compute({"spec": {"domain": domains["cp-0"]}})
    admitted = demand_of(cell, asked=measured.asked).pods[0].memory_mib
    assert pod["resources"]["requests"]["memory"] == f"{admitted - CONSOLE_LOG_MIB}Mi"
