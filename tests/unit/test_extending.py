"""docs/extending.md does what it says: every diff applies, and two of them are followed as far as data leads."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import proc
from harness.artifacts import refs
from harness.artifacts.catalogue import load
from harness.artifacts.recipe import Ref
from harness.errors import BadInput
from harness.kube.client import Infra
from harness.plan.build import lock_text, plan_tier
from harness.plan.lock import FILE, load_lock
from harness.providers import Opening
from harness.report.results import RunResult
from harness.spec import load_spec
from harness.spec.settings import Settings

ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "extending.md"
PARTS = ("matrix", "playbooks", "harness/artifacts/catalogue.yml", "tests/cells")
TIER = "nightly"
HUNK = "@@"


def sections() -> dict[str, str]:
    """Return the page's sections by their headings."""
    _, *found = re.split(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(found[::2], found[1::2], strict=True))


def diffs(section: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each file that a section changes, with its hunks: lines that begin with a space, `-` or `+`."""
    for block in re.findall(r"^```diff\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL):
        for part in re.split(r"^--- .*\n", block, flags=re.MULTILINE)[1:]:
            target, *lines = part.splitlines()
            hunks: list[list[str]] = []
            for line in lines:
                if line == HUNK:
                    hunks.append([])
                else:
                    hunks[-1].append(line)
            yield target.removeprefix("+++ b/"), hunks


def apply(section: str, project: Path) -> list[str]:
    """Apply a section's diffs and return the changed files; the old lines of each hunk must stand in its file once."""
    changed = []
    for name, hunks in diffs(section):
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        for hunk in hunks:
            old = "".join(f"{line[1:]}\n" for line in hunk if line[:1] in (" ", "-", ""))
            new = "".join(f"{line[1:]}\n" for line in hunk if line[:1] in (" ", "+", ""))
            if old:
                assert text.count(old) == 1, f"{name} has these lines {text.count(old)} times:\n{old}"
            text = text.replace(old, new) if old else new
        file.write_text(text, encoding="utf-8")
        changed.append(name)
    return changed


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of what the diffs change, as the project of this process."""
    for part in PARTS:
        source, target = PROJECT / part, tmp_path / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy(source, target)
    monkeypatch.setenv("VMATRIX_PROJECT", str(tmp_path))
    return tmp_path


def replan(project: Path) -> tuple[set[str], set[str]]:
    """Plan again as `vmatrix plan --write` does; return the ids of a tier's cells before and after."""
    spec, old = load_spec(project / "matrix"), load_lock(project / "matrix")
    plans = tuple(plan_tier(spec, tier, infra, old) for infra in spec.infras for tier in spec.tiers)
    assert all(plan.proof is None or not plan.proof.missing for plan in plans)
    (project / "matrix" / FILE).write_text(lock_text(spec, plans), encoding="utf-8")
    before, after = (
        {cell.id for tiers in lock.plan.values() if TIER in tiers for cell in tiers[TIER].cells}
        for lock in (old, load_lock(project / "matrix"))
    )
    return before, after


@pytest.mark.parametrize("heading", [name for name, text in sections().items() if "```diff" in text])
def test_every_diff_applies(heading: str, tmp_path: Path) -> None:
    for name, _ in diffs(sections()[heading]):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (PROJECT / name).exists():
            shutil.copy(PROJECT / name, target)
    changed = apply(sections()[heading], tmp_path)
    assert changed
    for name in changed:
        if name.endswith(".py"):
            compile((tmp_path / name).read_text(encoding="utf-8"), name, "exec")


def test_a_diff_that_no_longer_fits_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "matrix").mkdir()
    (tmp_path / "matrix" / "axes.yml").write_text("axes: []\n", encoding="utf-8")
    with pytest.raises(AssertionError, match=r"matrix/axes\.yml has these lines 0 times"):
        apply("```diff\n--- a/matrix/axes.yml\n+++ b/matrix/axes.yml\n@@\n values:\n+  - id: x\n```\n", tmp_path)


@pytest.mark.parametrize("heading", ["An operating system", "A container runtime", "A phase"])
def test_data_of_the_matrix_loads_with_the_addition(heading: str, project: Path) -> None:
    apply(sections()[heading], project)
    before, after = replan(project)
    assert before <= after
    assert after - before


def test_a_kubernetes_version_is_two_entries(project: Path) -> None:
    changed = apply(sections()["A Kubernetes version"], project)
    assert changed == ["harness/artifacts/catalogue.yml", "matrix/axes.yml"]
    before, after = replan(project)
    assert before <= after
    assert any(cell.startswith("k1373-") for cell in after - before)

    value = next(v for v in load_spec(project / "matrix").axes[0].values if v.id == "1.37.3")
    catalogue = load(project / "harness/artifacts/catalogue.yml")
    needed = refs.for_cell(catalogue, value.vars, infra_version="1.37.3")
    assert Ref("kubelet", "1.37.3") in needed
    for ref in needed:
        assert ref.version in catalogue.versions(ref.name), str(ref)


def test_a_network_plugin_is_three_entries_and_its_tasks(project: Path) -> None:
    changed = apply(sections()["A network plugin"], project)
    assert len(changed) == 4
    assert [name for name in changed if "/tasks/" in name] == ["playbooks/roles/network_plugin/tasks/mesh.yml"]
    before, after = replan(project)
    assert before <= after
    assert any("-me-" in cell for cell in after - before)

    catalogue = load(project / "harness/artifacts/catalogue.yml")
    variables = {"cluster_kubernetes_version": "1.36.3", "cluster_network_plugin": "mesh"}
    needed = refs.for_cell(catalogue, variables)
    assert Ref("image/mesh", "v1.2.3") in needed
    assert not any(ref.name == "image/flannel" for ref in needed)
    assert load_spec(project / "matrix").network_plugins["mesh"].daemon == ("kube-system", "mesh")


def test_the_playbooks_take_an_added_network_plugin(project: Path, tmp_path: Path) -> None:
    apply(sections()["A network plugin"], project)
    book = project / "playbooks" / "asked.yml"
    book.write_text(
        "- hosts: all\n  gather_facts: false\n  connection: local\n  tasks:\n"
        "    - ansible.builtin.copy:\n        dest: '{{ out }}'\n        mode: '0600'\n"
        "        content: >-\n          {{ {'choices': preflight_network_plugins | list, 'images': cluster_node_images,"
        " 'sets': postinstall_daemon_sets, 'leaves': reset_network_plugins} | to_json }}\n",
        encoding="utf-8",
    )
    out = tmp_path / "out.json"
    given = {"out": out, "cluster_network_plugin": "mesh", "cluster_mesh_version": "1.2.3"}
    proc.run(
        [str(ANSIBLE), "-i", "cp,", "-e", "cluster_image_registry=r:5000 cluster_kubernetes_version=1.36.3"]
        + [word for name, value in given.items() for word in ("-e", f"{name}={value}")]
        + [str(book)],
        timeout=120,
        env={"ANSIBLE_LOCALHOST_WARNING": "0", "ANSIBLE_HOME": str(tmp_path / "ansible")},
    )
    said = out.read_text(encoding="utf-8")
    assert '"choices": ["mesh", "flannel", "routes"]' in said
    assert "r:5000/mesh:v1.2.3" in said
    assert "kube-system/mesh" in said
    assert "10-mesh.conflist" in said


def test_a_provider_is_a_module_and_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = python(sections()["A provider"], "harness/providers/minikube.py", tmp_path)
    settings = Settings(infra_name="lab", mirror_http="http://m", registry="m:5000")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(BadInput, match="does not exist"):
        module.PROVIDER.infra(settings)
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").touch()
    assert module.PROVIDER.infra(settings) == Infra(tmp_path / ".kube" / "config", "lab")
    assert module.PROVIDER.open(Opening(settings)).kubeconfig() == tmp_path / ".kube" / "config"


def test_a_report_output_is_a_function_of_the_result(tmp_path: Path) -> None:
    module = python(sections()["A report output"], "harness/report/cells_csv.py", tmp_path)
    result = RunResult("abc123", tmp_path, "", cells=())
    assert module.render(result) == "cell,outcome,seconds\n"


OF_OPERATOR = ("A field of ClusterDeployment", "A controller", "A condition", "An operation")
ASKED = """
import json
from harness.operator.controllers import published
from harness.operator.decide.operations import DUTIES
from harness.operator.decide.variables import variables_of
from harness.operator.registry import chosen
from harness.operator.rights import rights_of
from tests.unit.operator.api.objects import defaulted, deployment
from tests.unit.operator.controllers.test_clusterdeployment import cluster, declared, deployed, given, seen, summary

variables = variables_of(defaulted(deployment(network={"dnsPods": 7})), {})
(part,) = chosen(["published"])
body = declared(version="1.36.1")
status = summary(seen(body, cluster(**deployed(body, given("m-0"))), given("m-0", "Ready")))
(upgrade,) = (one for one in status["conditions"] if one["type"] == "UpgradeAvailable")
print(json.dumps({
    "pods": variables["cluster_coredns_pods"],
    "rights": sorted({right.resource.kind for right in rights_of(part)}),
    "condition": upgrade["message"].partition(" ")[2],
    "entry": next(duty.entry for duty in DUTIES if duty.operation == "private-files"),
}))
"""


def test_the_operator_has_a_field_a_controller_a_condition_and_an_operation_more(tmp_path: Path) -> None:
    for part in ("harness", "matrix", "playbooks", "tests/unit/operator", "tests/unit/pages.py"):
        source, target = PROJECT / part, tmp_path / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for heading in OF_OPERATOR:
        apply(sections()[heading], tmp_path)
    done = proc.run([sys.executable, "-c", ASKED], timeout=120, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert json.loads(done.stdout) == {
        "pods": 7,
        "rights": ["ClusterDeployment", "ConfigMap"],
        "condition": "is newer than 1.36.1",
        "entry": "private-files.yml",
    }


def python(section: str, name: str, directory: Path) -> Any:
    """Return a new module of a section, executed."""
    (lines,) = next(hunks for file, hunks in diffs(section) if file == name)
    file = directory / Path(name).name
    file.write_text("".join(f"{line[1:]}\n" for line in lines), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
