"""`vmatrix init` by options, and on a terminal by questions."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from harness.paths import PROJECT
from harness.spec import load_spec
from tests.package.commands import call

SECONDS = 60


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with one playbook, in no project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(PROJECT)
    monkeypatch.setattr("sys.argv", [])
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "site.yml").write_text("[]\n", encoding="utf-8")
    return tmp_path


def test_options_make_a_project_that_can_be_listed(work: Path) -> None:
    said = call("init --playbooks deploy --name ours --gitlab group/vmatrix")
    assert said.code == 0, said
    assert said.out.splitlines()[-3:] == ["go on with:", "  vmatrix infra up", "  vmatrix run --tier smoke"]
    made = {str(path.relative_to(work)) for path in work.rglob("*") if path.is_file()}
    expected = {f"matrix/{name}.yml" for name in ("product", "tiers")}
    assert made == {*expected, ".gitignore", ".gitlab-ci.yml", "deploy/site.yml"}
    assert load_spec(work / "matrix").product.phases["deploy"].playbook == "site.yml"
    listed = call("list")
    assert listed.code == 0, listed
    assert "smoke" in listed.out


def test_the_packaged_playbooks_in_another_folder(work: Path) -> None:
    said = call("init --packaged new/project")
    assert said.code == 0, said
    assert "  cd new/project" in said.out.splitlines()
    assert call("--project new/project list --tier smoke").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("init", "nothing says what to test"),
        ("init --packaged --playbooks deploy", "--packaged excludes"),
        ("init --playbooks nowhere", "does not exist"),
        ("init --playbooks deploy --phase deploy", "--phase 'deploy' is not PHASE=PLAYBOOK"),
        ("init --playbooks deploy --phase deploy=no.yml", "no.yml does not exist"),
        ("init --playbooks deploy --phase deplay=site.yml", "unknown phase 'deplay'"),
    ],
)
def test_bad_input_is_one_message_and_writes_nothing(
    work: Path, monkeypatch: pytest.MonkeyPatch, words: str, message: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())  # no terminal
    before = sorted(work.rglob("*"))
    said = call(words)
    assert said.code == 2, said
    assert message in said.err
    assert said.err.count("hint: ") == 1
    assert sorted(work.rglob("*")) == before


def test_files_that_are_there_are_kept(work: Path) -> None:
    (work / ".gitignore").write_text("mine\n", encoding="utf-8")
    said = call("init --packaged")
    assert "kept: .gitignore; add to it:" in said.out
    assert "runs/" in said.out
    assert (work / ".gitignore").read_text(encoding="utf-8") == "mine\n"


def test_a_terminal_is_asked(work: Path) -> None:
    ours, theirs = pty.openpty()
    command = [str(Path(sys.executable).with_name("vmatrix")), "init"]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as asked:
        os.write(ours, b"deploy\ngroup/vmatrix\n\n")
        said, _ = asked.communicate(timeout=SECONDS)
    os.close(ours)
    os.close(theirs)
    assert asked.returncode == 0, said
    assert "Playbook that deploys a cluster [site.yml]" in said
    assert "group/vmatrix" in (work / ".gitlab-ci.yml").read_text(encoding="utf-8")
    assert load_spec(work / "matrix").product.directory == "deploy"
