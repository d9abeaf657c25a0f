"""Machines in a job's own namespace end with the job's pod: the API's own garbage collector sees to it."""

from __future__ import annotations

import json
import secrets
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from harness.cell.existing import CellSelector, find
from harness.cell.machines import create_machine
from harness.cell.manifests import CellPlan
from harness.cell.place import POD_NAME, POD_NAMESPACE, POD_UID
from harness.cell.provision import _plan
from harness.kube.client import Cluster, Json
from harness.kube.resources import DATA_VOLUME, NAMESPACE, POD, PVC, SECRET, VM, VMI, Resource
from harness.machines.kubevirt.manifests import GoldenImage
from harness.model import PlannedMachine
from harness.until import Deadline, NotYet, until
from tests.embedded.rights.conftest import DEPLOY, Ground
from tests.embedded.rights.lives import life_of, site_of

IMAGE = GoldenImage("none-000000000000", "http://127.0.0.1:9/none", "sha256:" + "0" * 64, "1Gi", "debian")
# Its launcher finds no room and its disk no image: nothing but the API has anything to do.
MACHINE = PlannedMachine("cp-0", ("node",), 1, 2**30, 10, "none")
KINDS: tuple[Resource, ...] = (VM, VMI, DATA_VOLUME, PVC, SECRET)
GONE_SECONDS = 60.0


@pytest.fixture
def namespace(ground: Ground) -> Iterator[str]:
    name = f"runner-{secrets.token_hex(3)}"
    ground.admin.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    ground.admin.delete(NAMESPACE, name)


def job_pod(cluster: Cluster, namespace: str) -> Json:
    """Make the pod of a job; it waits at a gate, so that no node ever has it."""
    spec = {"schedulingGates": [{"name": "vmatrix.dev/never"}], "containers": [{"name": "build", "image": "none"}]}
    meta = {"name": "runner-abc-project-1-concurrent-0", "namespace": namespace}
    return cluster.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def plan_of(ground: Ground, namespace: str, directory: Path, run: str) -> CellPlan:
    site = site_of(ground, ground.admin, namespace=namespace, image=lambda _: IMAGE)
    return _plan(site, life_of(site, run, directory / run).attempt, "ssh-ed25519 A")


def there(cluster: Cluster, namespace: str) -> dict[str, set[str]]:
    found = {kind.plural: {o["metadata"]["name"] for o in cluster.list(kind, namespace).items} for kind in KINDS}
    return {kind: names for kind, names in found.items() if names}


def test_what_a_job_made_goes_with_its_pod_and_nothing_else_does(
    ground: Ground, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = job_pod(ground.admin, namespace)
    site = site_of(ground, ground.admin, namespace=namespace, image=lambda _: IMAGE)
    monkeypatch.setenv(POD_NAME, pod["metadata"]["name"])
    monkeypatch.setenv(POD_UID, pod["metadata"]["uid"])
    monkeypatch.setenv(POD_NAMESPACE, namespace)
    owned = plan_of(ground, namespace, tmp_path, "owned1")
    monkeypatch.setenv(POD_NAMESPACE, "another")
    free = plan_of(ground, namespace, tmp_path, "free11")
    assert free.owner is None
    for plan in (owned, free):
        create_machine(site, plan, MACHINE, IMAGE)
    mine, others = f"{owned.prefix}cp-0", f"{free.prefix}cp-0"

    def made() -> bool | NotYet:
        seen = there(ground.admin, namespace)
        return {mine, others} <= seen.get(VMI.plural, set()) or NotYet(str(seen))

    until(made, deadline=Deadline.after(20), what="both machines have instances", interval=0.2)
    assert {f.run for f in find(ground.admin, CellSelector(namespace=namespace))} == {"owned1", "free11"}

    ground.admin.delete(POD, pod["metadata"]["name"], namespace, grace=0)

    def gone() -> bool | NotYet:
        left = {n for names in there(ground.admin, namespace).values() for n in names if n.startswith(owned.prefix)}
        return NotYet(f"left: {left}") if left else True

    until(gone, deadline=Deadline.after(GONE_SECONDS), what="the job's machines are gone", interval=0.2)
    left = there(ground.admin, namespace)
    assert left[VM.plural] == left[VMI.plural] == left[DATA_VOLUME.plural] == {others}
    assert left[SECRET.plural] == {f"{others}-cloud-init"}


def test_a_machines_secret_goes_with_its_disk(ground: Ground, namespace: str, tmp_path: Path) -> None:
    site = site_of(ground, ground.admin, namespace=namespace, image=lambda _: IMAGE)
    plan = replace(plan_of(ground, namespace, tmp_path, "alone1"), owner=None)
    create_machine(site, plan, MACHINE, IMAGE)
    name = f"{plan.prefix}cp-0"

    ground.admin.delete(VM, name, namespace, grace=0)
    ground.admin.delete(DATA_VOLUME, name, namespace)

    def gone() -> bool | NotYet:
        seen = there(ground.admin, namespace)
        return NotYet(str(seen)) if seen else True

    until(gone, deadline=Deadline.after(GONE_SECONDS), what="nothing of the machine is left", interval=0.2)


def test_the_runners_patch_tells_a_job_which_pod_it_is(ground: Ground, namespace: str, tmp_path: Path) -> None:
    values = yaml.safe_load((DEPLOY / "runner" / "values.yml").read_text(encoding="utf-8"))
    (runner,) = tomllib.loads(values["runners"]["config"])["runners"]
    (patch,) = runner["kubernetes"]["pod_spec"]
    containers = [
        {"name": name, "image": "none", "env": [{"name": "CI", "value": "true"}]} for name in ("build", "helper")
    ]
    meta = {"name": "runner-1", "namespace": namespace}
    pod = tmp_path / "pod.yml"
    pod.write_text(
        yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers}}),
        encoding="utf-8",
    )

    said = json.dumps({"spec": yaml.safe_load(patch["patch"])})
    merged = ground.kubectl(
        *("patch", "--local", "-f", pod, "--type", patch["patch_type"], "--patch", said, "-o", "yaml")
    )
    made = ground.admin.create(POD, yaml.safe_load(merged), dry_run=True)

    build, helper = made["spec"]["containers"]
    fields = {e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"] for e in build["env"] if "valueFrom" in e}
    assert fields == {POD_NAME: "metadata.name", POD_UID: "metadata.uid", POD_NAMESPACE: "metadata.namespace"}
    assert {e["name"] for e in build["env"]} == {"CI", *fields}
    assert helper["env"] == [{"name": "CI", "value": "true"}]
