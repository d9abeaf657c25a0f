"""Outside of a project: every command either works, or says in one message what to do, and changes nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from harness.cli import app
from harness.paths import PRODUCT, PROJECT, packaged_dir, project_dir
from tests.package.commands import JOB, LOOK_ANYWHERE, NEED_A_PROJECT, WORK_ANYWHERE, call, complaint

pytestmark = pytest.mark.usefixtures("planned_once")


def commands(command: object, *names: str) -> list[str]:
    """Return the words of every command, without those of groups."""
    inner: dict[str, object] = getattr(command, "commands", {})
    return [words for name in inner for words in commands(inner[name], *names, name)] if inner else [" ".join(names)]


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to an empty folder in no project, in a job of GitLab's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(PROJECT)
    monkeypatch.setenv(PRODUCT, "")  # which a call may set
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.argv", [])
    for name in [name for name in os.environ if name.startswith(("CI_", "MATRIX_"))]:
        monkeypatch.delenv(name)
    for name, value in {**JOB, "CI_PROJECT_DIR": str(tmp_path), "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def test_every_command_is_one_or_the_other() -> None:
    needy = {words.partition(" -")[0] for words in NEED_A_PROJECT}
    known = set(commands(typer.main.get_command(app)))
    told = {command for command in known if any(f"{words} ".startswith(f"{command} ") for words in needy)}
    assert told | set(WORK_ANYWHERE) == known
    assert not told & set(WORK_ANYWHERE)


@pytest.mark.parametrize("words", NEED_A_PROJECT)
def test_a_command_that_needs_a_project_says_what_to_do(nowhere: Path, words: str) -> None:
    said = call(words)
    assert not complaint(said), f"{complaint(said)}: {said}"
    assert list(nowhere.iterdir()) == []


@pytest.mark.parametrize("words", LOOK_ANYWHERE)
def test_a_command_that_needs_none_works(nowhere: Path, words: str) -> None:
    said = call(words)
    assert said.code == 0, said
    assert said.out
    assert list(nowhere.iterdir()) == []


@pytest.mark.parametrize("made", ["vmatrix.yml", "matrix/axes.yml"])
def test_a_folder_with_settings_or_a_matrix_is_a_project_and_so_is_what_lies_below(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    (nowhere / made).parent.mkdir(exist_ok=True)
    (nowhere / made).touch()
    below = nowhere / "deploy" / "roles"
    below.mkdir(parents=True)
    for folder in (nowhere, below):
        monkeypatch.chdir(folder)
        assert project_dir() == nowhere


def test_another_folder_named_matrix_is_no_project(nowhere: Path) -> None:
    (nowhere / "matrix").mkdir()
    (nowhere / "matrix" / "linear.py").touch()
    assert call("list").code == 2


def test_a_project_can_be_named(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = nowhere / "named"
    named.mkdir()
    (named / "vmatrix.yml").write_text("expiry_hours: 2\n", encoding="utf-8")
    monkeypatch.setenv(PROJECT, "")  # the option sets it; afterwards it is as it was
    result = CliRunner().invoke(app, ["--project", str(named), "config", "--json"])
    assert json.loads(result.stdout)["expiry_hours"]["value"] == 2
    said = call(f"--project {nowhere} list")
    assert said.code == 2
    assert f"{nowhere} is not a project" in said.err


def test_settings_and_results_are_the_projects_from_a_folder_below(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (nowhere / "vmatrix.yml").write_text("kubeconfig: infra.yml\n", encoding="utf-8")
    (nowhere / "below").mkdir()
    monkeypatch.chdir(nowhere / "below")
    told = json.loads(call("config --json").out)
    assert told["kubeconfig"] == {"value": "../infra.yml", "from": "../vmatrix.yml:1"}
    assert told["runs"]["value"] == "../runs"


def test_the_checkout_is_its_own_project() -> None:
    assert project_dir() == packaged_dir()


PRODUCT_TEXT = "product: {name: theirs, directory: deploy, phases: {deploy: {playbook: site.yml}}}\n"


def test_a_product_file_makes_a_folder_a_project(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the input `product` of a pipeline does, at a desk; the team's own folders of checks are not vmatrix's."""
    monkeypatch.setattr("harness.plan.cover.MOST_SALTS", 1)  # the plan need not be the shortest of many
    for name, text in {
        "ci/product.yml": PRODUCT_TEXT,
        "deploy/site.yml": "- hosts: all  # cluster_kubeconfig_path\n",
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--nonsense'\n",
    }.items():
        (nowhere / name).parent.mkdir(exist_ok=True)
        (nowhere / name).write_text(text, encoding="utf-8")
    before = sorted(nowhere.rglob("*"))
    said = call("--product-file ci/product.yml list -v")
    assert said.code == 0, said
    assert "scenario reset: needs the phase reset, which theirs does not have" in said.out
    assert "product.yml" in call("--product-file ci/product.yml list --origin").out
    assert f"{nowhere}/ci/product.yml" in call("--product-file ci/product.yml config").out
    assert sorted(nowhere.rglob("*")) == before
    written = call("--product-file ci/product.yml plan --write")
    assert written.code == 0, written
    assert (nowhere / "matrix" / "plan.lock.yml").is_file()


@pytest.mark.parametrize("words", ["list", "plan --write", "run --tier smoke"])
def test_a_product_file_that_is_not_there_is_bad_input(nowhere: Path, words: str) -> None:
    said = call(f"--product-file ci/product.yml {words}")
    assert said.code == 2
    assert f"the product file {nowhere}/ci/product.yml does not exist" in said.err
    assert list(nowhere.iterdir()) == []
