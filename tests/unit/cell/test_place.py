"""Where a cell's objects lie, and with whom they end."""

from __future__ import annotations

from dataclasses import replace

from harness.cell.existing import CellSelector
from harness.cell.manifests import CellPlan
from harness.cell.place import POD_NAME, POD_NAMESPACE, POD_UID, Place, own_project, place_of, selector_of
from harness.machines.kubevirt.manifests import GoldenImage, machine
from harness.model import PlannedMachine
from harness.paths import project_dir

POD = {POD_NAME: "runner-1", POD_UID: "u-1", POD_NAMESPACE: "cells"}
MACHINE = PlannedMachine("etcd-2", ("etcd",), 1, 512, 10, "debian-13")
IMAGE = GoldenImage("debian-13-0", "http://m/i", "sha256:0", "10Gi", "debian")
TEMPLATES = project_dir() / "vm-templates"


def test_a_cell_has_a_namespace_of_its_own_unless_one_is_given() -> None:
    place = place_of("abc123", "c", 2, environment=POD)
    assert place == Place("vmatrix-c-abc123-2")
    assert not place.shared
    assert place.name("cp-0") == "cp-0"


def test_names_in_a_shared_namespace_tell_attempts_apart_and_fit_a_label() -> None:
    cell = "a" * 40
    places = [place_of("abc123", cell, attempt, shared="cells", environment={}) for attempt in (1, 2)]
    names = {place.name("etcd-2") for place in places}
    assert len(names) == 2
    assert all(len(name) <= 63 and name.endswith("-etcd-2") for name in names)
    assert all(place.owner is None and place.shared for place in places)


def test_objects_beside_their_jobs_pod_are_owned_by_it() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "runner-1", "uid": "u-1"}
    assert place_of("abc123", "c", 1, shared="cells", environment=POD).owner == owner


def test_a_pod_elsewhere_owns_nothing() -> None:
    for environment in ({**POD, POD_NAMESPACE: "runners"}, {**POD, POD_UID: ""}, {}):
        assert place_of("abc123", "c", 1, shared="cells", environment=environment).owner is None


def test_cells_are_selected_by_project_where_a_ci_says_which() -> None:
    assert own_project({"CI_PROJECT_ID": "42"}) == "42"
    assert own_project({"CI_PROJECT_ID": ""}) is own_project({}) is None
    assert CellSelector(run="r", project="42").labels() == (
        "app.kubernetes.io/managed-by=vmatrix,vmatrix.dev/run=r,vmatrix.dev/project=42,vmatrix.dev/cell"
    )
    assert CellSelector(cell="c").labels() == "app.kubernetes.io/managed-by=vmatrix,vmatrix.dev/cell=c"


def test_a_selector_picks_an_attempt_or_machines_of_it() -> None:
    assert selector_of("r", "c", 1) == "vmatrix.dev/run=r,vmatrix.dev/cell=c,vmatrix.dev/attempt=1"
    assert selector_of("r", "c", 1, {"w-1", "w-0"}).endswith(",vmatrix.dev/machine in (w-0,w-1)")


def test_a_prefix_is_in_every_name_and_in_no_hostname() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    plain = CellPlan("cells", {"vmatrix.dev/run": "r"}, "ssh-ed25519 A", "cluster.local", None, expires_at=1e9)
    plan = replace(plain, prefix="c-r-1-", owner=owner, images="cells")
    disk, secret, vm = machine(plan, MACHINE, IMAGE, directory=TEMPLATES)
    assert [o["metadata"]["name"] for o in (disk, secret, vm)] == [
        "c-r-1-etcd-2",
        "c-r-1-etcd-2-cloud-init",
        "c-r-1-etcd-2",
    ]
    assert disk["metadata"]["ownerReferences"] == vm["metadata"]["ownerReferences"] == [owner]
    assert disk["spec"]["source"]["pvc"]["namespace"] == "cells"
    inside = vm["spec"]["template"]["spec"]
    assert inside["hostname"] == "etcd-2"
    assert [list(v.values())[1] for v in inside["volumes"]] == [
        {"name": "c-r-1-etcd-2"},
        {"secretRef": {"name": "c-r-1-etcd-2-cloud-init"}},
    ]
    assert "hostname: etcd-2\n" in secret["stringData"]["userdata"]
