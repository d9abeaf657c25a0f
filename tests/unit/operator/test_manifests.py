"""Manifests: what is committed is what is generated, every manager has its account, and the samples are accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.operator.api.crds import files as definitions
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.rules import read
from harness.operator.decide.releases import load_releases
from harness.operator.manifests import Installation, committed, text
from harness.operator.registry import NAMES
from tests.unit.pages import ROOT

FOLDER = ROOT / "deploy" / "operator"
WRITE = "vmatrix operator manifests --write"


def test_what_is_committed_is_what_is_generated() -> None:
    for name, content in committed().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == content, WRITE
    there = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    samples = {name for name in there if name.startswith("samples/")}
    assert there - samples == {*committed(), *(f"crds/{name}" for name in definitions()), "namespace.yml"}, WRITE


def test_a_folder_for_kustomize_names_all_its_files() -> None:
    named = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    there = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.yml")}
    assert sorted(named) == sorted(name for name in there if not name.startswith("samples/"))


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("everywhere", [False, True])
def test_every_role_is_bound_to_accounts_that_managers_have(apart: bool, everywhere: bool) -> None:
    objects = Installation("ns", "host/vmatrix:1", apart=apart, everywhere=everywhere).objects()
    names = {
        kind: {o["metadata"]["name"] for o in objects if o["kind"] == kind} for kind in {o["kind"] for o in objects}
    }
    bindings = [o for o in objects if o["kind"] in ("RoleBinding", "ClusterRoleBinding")]
    bound = {(b["roleRef"]["kind"], b["roleRef"]["name"]) for b in bindings}
    assert bound == {(kind, name) for kind in ("Role", "ClusterRole") for name in names[kind]}
    accounts = {subject["name"] for b in bindings for subject in b["subjects"]}
    deployments = [o for o in objects if o["kind"] == "Deployment"]
    assert (
        accounts
        == names["ServiceAccount"]
        == {o["spec"]["template"]["spec"]["serviceAccountName"] for o in deployments}
    )
    assert len(deployments) == (len(NAMES) if apart else 1)
    assert {"ns"} == {s["namespace"] for b in bindings for s in b["subjects"]}
    inside = [o for o in objects if o["metadata"].get("namespace")]
    assert {o["metadata"]["namespace"] for o in inside} == {"ns"}
    assert ("Role" in {o["kind"] for o in objects if "clusterinstall" in o["metadata"]["name"]}) is not everywhere


def test_apart_a_controller_has_its_own_rights_alone() -> None:
    objects = Installation("ns", "image", apart=True).objects()
    of = {
        o["subjects"][0]["name"]: o["roleRef"]["name"]
        for o in objects
        if o["kind"] == "RoleBinding" and len(o["subjects"]) == 1
    }
    assert of == {f"vmatrix-operator-{name}": f"vmatrix-operator-{name}" for name in NAMES}
    args = [o["spec"]["template"]["spec"]["containers"][0]["args"] for o in objects if o["kind"] == "Deployment"]
    assert [words[-1] for words in args] == [f"--controllers={name}" for name in NAMES]


def test_two_operators_in_a_cluster_do_not_share_a_binding() -> None:
    def wide(namespace: str) -> set[str]:
        objects = Installation(namespace, "image", everywhere=True).objects()
        return {o["metadata"]["name"] for o in objects if o["kind"] == "ClusterRoleBinding"}

    assert wide("a") & wide("b") == set()


def test_a_text_is_read_back_as_the_objects() -> None:
    objects = Installation("ns", "host/vmatrix:1").objects()
    assert list(yaml.safe_load_all(text(objects))) == objects


def test_the_samples_are_accepted() -> None:
    found = [obj for path in sorted((FOLDER / "samples").glob("*.yml")) for obj in documents(path)]
    deployments = [obj for obj in found if obj["kind"] == "ClusterDeployment"]
    assert len(deployments) >= 2
    for obj in deployments:
        cd, mistakes = read(obj, load_releases().kubernetes, [])
        assert [mistake.text for mistake in mistakes] == []
        assert cd is not None
    machines = [DeclaredMachine.model_validate(obj) for obj in found if obj["kind"] == "Machine"]
    names = {machine.metadata.name for machine in machines}
    assert len(names) == 3
    for obj in deployments:
        for one in obj["spec"]["machineSets"]:
            assert set(one["machines"].get("names", ())) <= names


def documents(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file."""
    return [dict(obj) for obj in yaml.safe_load_all(path.read_text(encoding="utf-8"))]
