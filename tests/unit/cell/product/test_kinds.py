"""Which product a cell's phases are run by, and where one that has controllers may not be."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cell.product import cached, kinds, playbooks
from harness.cell.product.declared import DeclaredProduct
from harness.cell.product.kinds import kind_of, products_of, refuse_shared
from harness.cell.product.playbooks import Playbooks
from harness.cli import app
from harness.errors import BadInput
from harness.paths import PROJECT, packaged_dir
from harness.plan.cells import make_cell
from harness.spec import load_spec
from harness.spec.project import Project
from harness.spec.settings import Settings

SPEC = load_spec(packaged_dir() / "matrix")
BY_PLAYBOOKS = make_cell(SPEC, SPEC.tiers["smoke"].pinned[0])
BY_OPERATOR = make_cell(SPEC, SPEC.tiers["operator"].pinned[0])


def test_a_cells_value_decides_how_its_phases_are_run() -> None:
    products = products_of(SPEC, [BY_PLAYBOOKS, BY_OPERATOR, BY_PLAYBOOKS])
    assert [type(kind_of(product, packaged_dir())) for product in products] == [Playbooks, DeclaredProduct]
    assert BY_OPERATOR.id != BY_PLAYBOOKS.id
    assert "-o-" in BY_OPERATOR.id
    assert BY_OPERATOR.vars == BY_PLAYBOOKS.vars


def test_cells_with_controllers_do_not_share_a_namespace() -> None:
    refuse_shared(SPEC, [BY_PLAYBOOKS, BY_OPERATOR], None)
    refuse_shared(SPEC, [BY_PLAYBOOKS], "ours")
    with pytest.raises(BadInput, match="vmatrix operator has controllers in each cell's namespace"):
        refuse_shared(SPEC, [BY_PLAYBOOKS, BY_OPERATOR], "ours")


PLAYBOOK = '- hosts: all\n  vars: {written: "{{ cluster_kubeconfig_path }}"}\n  tasks: []\n'
PRODUCT = """\
product:
  name: ours
  directory: .
  ansible: {install: requirements.txt}
  phases: {deploy: {playbook: deploy.yml}}
"""
USER = """
import sys
from pathlib import Path
from harness.cell.product import cached
with cached.used([Path(sys.argv[1])], Path(sys.argv[2])) as there:
    print(there, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project whose product has an Ansible of its own."""
    folder = tmp_path / "ours"
    (folder / "matrix").mkdir(parents=True)
    (folder / "matrix" / "product.yml").write_text(PRODUCT)
    (folder / "deploy.yml").write_text(PLAYBOOK)
    (folder / "requirements.txt").write_text("ansible-core\n")
    monkeypatch.setenv(PROJECT, str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Project.load(Settings())


def made(folder: Path, *users: Path) -> Path:
    """Make an entry, as a run of each of some projects would."""

    def make() -> None:
        folder.mkdir(parents=True)
        (folder / "program").write_bytes(b"x" * 1000)

    cached.ensure(folder, make, what="it", tell=lambda _: None)
    for user in users:
        with cached.used([folder], user) as there:
            assert there
    return folder


def gone(project: Project | None) -> list[Path]:
    return [entry.directory for entry in kinds.stale(project)]


def test_what_this_project_uses_now_stays_and_what_it_used_goes(project: Project) -> None:
    now = made(playbooks.environment_folder(project.directory / "requirements.txt"), project.directory)
    before = made(cached.entry("environments", "ansible-core==1"), project.directory)
    nobodys = made(cached.entry("sources", "tag"))
    assert gone(project) == sorted([before, nobodys])
    assert all(kinds.remove(entry) for entry in kinds.stale(project))
    assert (now.exists(), before.exists(), nobodys.exists()) == (True, False, False)


def test_what_another_project_uses_stays_for_as_long_as_that_exists(project: Project, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    theirs = made(cached.entry("galaxy", "theirs"), project.directory, other)
    assert gone(project) == gone(None) == []
    shutil.rmtree(other)
    assert gone(project) == [theirs]


def test_what_a_living_process_uses_stays_until_that_ends(project: Project) -> None:
    entry = made(cached.entry("galaxy", "former"), project.directory)
    (found,) = kinds.stale(project)
    words = [sys.executable, "-c", USER, str(entry), str(project.directory)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert gone(project) == []
        assert not kinds.remove(found), "it was taken into use after somebody had looked"
        process.kill()
    assert gone(project) == [entry]


def test_a_run_holds_what_its_products_use(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = playbooks.environment_folder(project.directory / "requirements.txt")
    made(entry)
    monkeypatch.setattr(kinds, "products_of", lambda *_: [project.spec.product])
    with kinds.prepare(project, [], lambda _: None):
        (project.directory / "requirements.txt").write_text("ansible-core>1\n")
        assert gone(project) == []
        assert cached.projects_of(entry) == {project.directory}
    assert gone(project) == [entry]


def test_what_a_killed_installation_left_goes_though_it_is_declared(project: Project) -> None:
    entry = made(playbooks.environment_folder(project.directory / "requirements.txt"), project.directory)
    os.unlink(entry / cached.FINISHED)
    assert gone(project) == [entry]


def test_the_command_says_what_goes(project: Project) -> None:
    entry = made(cached.entry("sources", "former"))
    name = f"product/sources/{entry.name}"
    runner = CliRunner()
    would = runner.invoke(app, ["artifacts", "prune", "--dry-run"])
    assert would.output.splitlines()[0].startswith(f"{name}: 0 MB")
    assert entry.is_dir()
    assert runner.invoke(app, ["artifacts", "prune"]).exit_code == 0
    assert not entry.exists()
    assert project.directory.is_dir()
