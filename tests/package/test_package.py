"""The wheel is complete, and every command works from it, in folders that know nothing of the checkout."""

from __future__ import annotations

import json
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.package.commands import NEED_A_PROJECT, Said, complaint
from tests.package.conftest import CHECKOUT, Built, Installed

FOLDERS = ("deploy", "docs", "examples", "matrix", "playbooks", "templates", "tests/cells", "vm-templates")
SITE = "packaged/matrix/axes.yml"
AXES = """\
# yaml-language-server: $schema=../docs/schemas/axes.json
extends: default
axes:
  - name: os
    values:
      - {id: debian-12, remove: true}
      - {id: debian-12-cloud, remove: true}
  - name: kubernetes
    values:
      - id: "1.36.3"
        label: ours
"""
TIERS = """\
extends: default
tiers:
  full: null
  lifecycle: null
  operator-lifecycle: null
  mr: {budget: {minutes: 11}}
"""


PLAY = '- hosts: all\n  vars: {path: "{{ cluster_kubeconfig_path }}"}\n'


def committed(*folders: str) -> set[str]:
    """Return the files of folders of the checkout that are committed."""
    listed = subprocess.run(
        ["/usr/bin/git", "ls-files", "-z", *folders], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout
    return {name for name in listed.split("\0") if name and (CHECKOUT / name).is_file()}


def test_the_wheel_has_everything_that_ships(built: Built) -> None:
    files = committed(*FOLDERS)
    assert {name.partition("/")[0] for name in files} == {folder.partition("/")[0] for folder in FOLDERS}
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
        assert {f"harness/packaged/{name}" for name in files} - names == set()
        assert committed("harness") - names == set()
        for name in ("matrix/network_plugins.yml", "vm-templates/disk.yml.j2"):
            assert wheel.read(f"harness/packaged/{name}") == (CHECKOUT / name).read_bytes()


def test_the_sdist_has_everything_that_is_committed(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert committed(*FOLDERS, "harness", "tests", "ci") - names == set()


def test_every_command_in_an_empty_folder_says_what_to_do(installed: Installed, tmp_path: Path) -> None:
    walk = Path(__file__).with_name("commands.py")
    done = installed.call("python", "-I", walk, cwd=tmp_path, env={"XDG_STATE_HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    said = {words: Said(**told) for words, told in json.loads(done.stdout).items()}
    assert {words: wrong for words in NEED_A_PROJECT if (wrong := complaint(said[words]))} == {}
    assert [words for words in said.keys() - set(NEED_A_PROJECT) if said[words].code != 0] == []
    assert list(tmp_path.iterdir()) == []


def test_an_empty_project_is_the_packaged_matrix(
    installed: Installed, project: Path, unchanged: Callable[[], list[str]]
) -> None:
    (cell,) = (row["cell"] for row in json.loads(installed.vmatrix("list --tier smoke --json", cwd=project)))
    assert len(json.loads(installed.vmatrix("list --json", cwd=project))) > 1
    told = yaml.safe_load(installed.vmatrix(f"explain {cell}", cwd=project))
    assert told["phases"][0]["program"] == str(installed.package / "packaged" / "playbooks" / "cluster.yml")
    assert told["checks"]["smoke"]["nodes"]
    assert "up to date" in installed.vmatrix("plan --check", cwd=project)
    values = installed.vmatrix("list --origin", cwd=project)
    assert str(installed.package / SITE) in values
    assert f"packaged files: {installed.package / 'packaged'}" in installed.vmatrix("config", cwd=project)
    assert unchanged() == []
    assert sorted(path.name for path in project.iterdir()) == ["vmatrix.yml"]


def test_a_project_amends_the_packaged_matrix(
    installed: Installed, project: Path, unchanged: Callable[[], list[str]]
) -> None:
    (project / "matrix").mkdir()
    (project / "matrix" / "axes.yml").write_text(AXES, encoding="utf-8")
    (project / "matrix" / "tiers.yml").write_text(TIERS, encoding="utf-8")
    planned = json.loads(installed.vmatrix("list --json", cwd=project))
    assert not (project / "matrix" / "plan.lock.yml").exists()
    written = installed.vmatrix("plan --write", cwd=project)
    assert f"written: {project / 'matrix' / 'plan.lock.yml'}" in written
    assert "up to date" in installed.vmatrix("plan --check", cwd=project)
    cells = json.loads(installed.vmatrix("list --json", cwd=project))
    assert len(cells) <= len(planned), "a plan from scratch is written where it is shorter"
    assert {tier for cell in cells for tier in cell["tiers"]} == {tier for cell in planned for tier in cell["tiers"]}
    assert {cell["values"]["os"] for cell in cells} == {"debian-13"}
    rows = json.loads(installed.vmatrix("list --origin --json", cwd=project))
    found = {row["value"]: (row["of"], row["file"], row["line"]) for row in rows}
    own = str(project / "matrix" / "axes.yml")
    assert found["axes[kubernetes].values[1.36.3]"] == ("project", own, 10)
    assert found["axes[os].values[debian-13]"][:2] == ("package", str(installed.package / SITE))
    assert found["tiers.mr"][:2] == ("project", str(project / "matrix" / "tiers.yml"))
    assert found["tiers.mr.budget.cells"][:2] == ("package", str(installed.package / "packaged/matrix/tiers.yml"))
    assert unchanged() == []


def test_a_new_project_is_ready(installed: Installed, tmp_path: Path, unchanged: Callable[[], list[str]]) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "site.yml").write_text(PLAY, encoding="utf-8")
    installed.vmatrix("init --from playbooks --gitlab group/vmatrix", cwd=tmp_path)
    (cell,) = json.loads(installed.vmatrix("list --json", cwd=tmp_path))
    told = yaml.safe_load(installed.vmatrix(f"explain {cell['cell']}", cwd=tmp_path))
    assert told["phases"][0]["program"] == "deploy/site.yml"
    for file in (tmp_path / "matrix").iterdir():
        text = file.read_text(encoding="utf-8")
        schema = json.loads((file.parent / text.partition("$schema=")[2].partition("\n")[0]).read_text("utf-8"))
        assert list(Draft202012Validator(schema).iter_errors(yaml.safe_load(text))) == []
    assert unchanged() == []


def test_an_example_becomes_a_project(installed: Installed, tmp_path: Path) -> None:
    examples = {path.parts[-3] for path in (CHECKOUT / "examples").glob("*/matrix/product.yml")}
    assert examples
    for name in examples:
        installed.vmatrix(f"init --from {name} {name}", cwd=tmp_path)
        shipped = CHECKOUT / "examples" / name
        for file in (path for path in shipped.rglob("*") if path.is_file() and path.name != "README.md"):
            if str(file.relative_to(CHECKOUT)) in committed(f"examples/{name}") and file.parent.name != "matrix":
                assert (tmp_path / name / file.relative_to(shipped)).read_bytes() == file.read_bytes()


def test_schemas_are_written_into_the_project(
    installed: Installed, project: Path, unchanged: Callable[[], list[str]]
) -> None:
    (project / "matrix").mkdir()
    file = project / "matrix" / "axes.yml"
    file.write_text(AXES, encoding="utf-8")
    installed.vmatrix("schema", cwd=project)
    named = file.read_text(encoding="utf-8").partition("$schema=")[2].partition("\n")[0]
    assert json.loads((file.parent / named).read_text(encoding="utf-8"))["if"] == {"required": ["extends"]}
    assert unchanged() == []


def test_a_pipeline_of_a_teams_repository_is_planned(
    installed: Installed, project: Path, unchanged: Callable[[], list[str]]
) -> None:
    job = {
        "CI_JOB_ID": "1",
        "CI_PROJECT_DIR": str(project),
        "CI_PIPELINE_SOURCE": "push",
        "MATRIX_CHANGE_TIER": "single",
    }
    installed.vmatrix("gitlab generate", cwd=project, env=job)
    assert "vmatrix gitlab cell" in (project / "matrix.yml").read_text(encoding="utf-8")
    assert unchanged() == []


def test_a_product_file_makes_any_folder_a_project(
    installed: Installed, tmp_path: Path, unchanged: Callable[[], list[str]]
) -> None:
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "site.yml").write_text("- hosts: all  # cluster_kubeconfig_path\n", encoding="utf-8")
    product = "product: {name: theirs, directory: ci, phases: {deploy: {playbook: site.yml}}}\n"
    (tmp_path / "ci" / "product.yml").write_text(product, encoding="utf-8")
    listed = installed.vmatrix("--product-file ci/product.yml list -v", cwd=tmp_path)
    assert "scenario reset: needs the phase reset, which theirs does not have" in listed
    (cell,) = json.loads(installed.vmatrix("--product-file ci/product.yml list --tier smoke --json", cwd=tmp_path))
    told = yaml.safe_load(installed.vmatrix(f"--product-file ci/product.yml explain {cell['cell']}", cwd=tmp_path))
    assert told["phases"][0]["program"] == "ci/site.yml"
    job = {
        "CI_JOB_ID": "1",
        "CI_PROJECT_DIR": str(tmp_path),
        "CI_PIPELINE_SOURCE": "push",
        "MATRIX_CHANGE_TIER": "single",
        "VMATRIX_PRODUCT_FILE": str(tmp_path / "ci" / "product.yml"),
    }
    installed.vmatrix("gitlab generate", cwd=tmp_path, env=job)
    assert "vmatrix gitlab cell" in (tmp_path / "matrix.yml").read_text(encoding="utf-8")
    assert unchanged() == []


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("infra pin", "the project has no deploy/kind/releases.yml"),
        ("artifacts module etcd 3.6.8", "this changes vmatrix's own files, which are installed in"),
    ],
)
def test_nothing_that_ships_is_written(
    installed: Installed, project: Path, unchanged: Callable[[], list[str]], words: str, wanted: str
) -> None:
    refused = installed.call("vmatrix", *words.split(), cwd=project)
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert wanted in refused.stderr
    assert refused.stderr.count("hint: ") == 1
    assert unchanged() == []
    assert sorted(path.name for path in project.iterdir()) == ["vmatrix.yml"]


def test_own_checks_run_beside_the_packaged_ones(installed: Installed, project: Path) -> None:
    (project / "matrix").mkdir()
    tiers = "extends: default\ntiers: {smoke: {suites: [nodes, own]}}\n"
    (project / "matrix" / "tiers.yml").write_text(tiers, encoding="utf-8")
    (project / "checks").mkdir()
    (project / "checks" / "test_nodes.py").write_text("def test_of_ours(hosts): pass\n", encoding="utf-8")
    packaged = installed.package / "packaged"
    words: list[str | Path] = [packaged / "tests" / "cells", project / "checks", "-c", packaged / "pyproject.toml"]
    words += ["--rootdir", project, "--confcutdir", project / "checks", "-p", "no:cacheprovider", "--tier", "smoke"]
    listed = installed.call("pytest", *words, "--collect-only", "-q", cwd=project)
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert "checks/test_nodes.py::test_of_ours[" in listed.stdout
    assert "nodes/test_services.py::test_no_unit_has_failed[" in listed.stdout
    (project / "checks" / "test_nodes.py").write_text("def test_of_ours(hsots): pass\n", encoding="utf-8")
    refused = installed.call("vmatrix", "run", cwd=project)
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert f"{project / 'checks' / 'test_nodes.py'}:1: test_of_ours asks for the unknown fixture" in refused.stderr


def test_a_run_gets_as_far_as_the_infra_cluster(installed: Installed, project: Path) -> None:
    """The plugin, the checks and their settings are there; nothing answers at the API, and nothing is left."""
    (project / "closed.yml").write_text(
        """\
apiVersion: v1
kind: Config
clusters: [{name: closed, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: nobody, user: {}}]
contexts: [{name: closed, context: {cluster: closed, user: nobody}}]
current-context: closed
""",
        encoding="utf-8",
    )
    options = "--provider kubeconfig --kubeconfig closed.yml --infra-profile embedded"
    env = {"VMATRIX_MIRROR_HTTP": "http://127.0.0.1:9", "VMATRIX_REGISTRY": "127.0.0.1:9"}
    done = installed.call("vmatrix", "run", "--tier", "smoke", *options.split(), cwd=project, env=env)
    assert done.returncode == 2, done.stdout + done.stderr
    checks = installed.package / "packaged" / "tests" / "cells"
    assert f"$ pytest {checks} " in done.stderr
    assert "the API at http://127.0.0.1:9 does not answer" in done.stdout + done.stderr
    assert not list(project.glob("runs/*"))


def test_ansible_accepts_the_packaged_playbooks(installed: Installed, tmp_path: Path) -> None:
    playbooks = installed.package / "packaged" / "playbooks"
    argv = ("-i", "localhost,", "--syntax-check", playbooks / "cluster.yml", playbooks / "reset.yml")
    env = {"ANSIBLE_CONFIG": str(playbooks / "ansible.cfg"), "ANSIBLE_HOME": str(tmp_path / "ansible")}
    done = installed.call("ansible-playbook", *argv, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
