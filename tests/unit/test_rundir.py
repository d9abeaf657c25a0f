"""The run's directory: its layout, its secrets, and that no other module has a path of it of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.paths import project_dir
from harness.rundir import AttemptDir, RunDir

HARNESS = project_dir() / "harness"
OWNER = "rundir.py"
FILES = frozenset(
    ("results.jsonl", "summary.md", "junit.xml", "history.jsonl", "id_ed25519", "etcd-snapshot.db", "hosts.yml")
) | {"extra-vars.yml", "tunnels.json", "tunnels.log", "objects.yml", "events.log"}
PARTS = ("attempt-", "answers-", "kubeconfig.")  # beginnings of names that are put together
FOLDERS = frozenset(("inventory", "logs", "checks", "kubeconfig"))  # words of everyday, but for behind a slash
# Rooms that know nothing of runs: the same words name other things there.
OTHER = ("artifacts", "embedded", "infra", "kube", "operator", "spec")
# File -> its own word of such a name: the report's folder, the cache's logs, a key of kube-proxy's ConfigMap,
# files that are gone at once.
OWN = {
    "report/output/files.py": "summary.md",
    "cli/artifacts.py": "logs",
    "gitlab/access.py": "kubeconfig",
    "validate/phases/credentials.py": "kubeconfig",
    "validate/topics/kubeadm.py": "kubeconfig.conf",
}


def literals(source: str) -> Iterator[str]:
    """Yield what a module has of the run directory's names: strings that are one, and folders joined to a path."""
    tree = ast.parse(source)
    folders = {
        id(node.right) for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    }
    folders |= {
        id(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "joinpath"
        for argument in node.args
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if text in FILES or text.startswith(PARTS) or (id(node) in folders and text in FOLDERS):
                yield text


def modules() -> dict[str, str]:
    """Return the sources that have to ask the owner, by path below harness/."""
    found = {path.relative_to(HARNESS).as_posix(): path.read_text(encoding="utf-8") for path in HARNESS.rglob("*.py")}
    return {name: text for name, text in found.items() if name.split("/")[0] not in OTHER and name != OWNER}


def test_no_other_module_knows_what_lies_where() -> None:
    rooms = modules()
    assert {"session/run.py", "cell/life.py", "report/cell.py", "cli/__init__.py"} <= set(rooms)
    found = {name: set(literals(text)) - {OWN.get(name)} for name, text in rooms.items()}
    assert {name: words for name, words in found.items() if words} == {}


def test_the_owner_has_every_name_that_the_others_must_not_have() -> None:
    source = (HARNESS / OWNER).read_text(encoding="utf-8")
    strings = {n.value for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    assert strings >= FILES | FOLDERS | {"attempt-"}


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ('path = run_dir / "junit.xml"', "junit.xml"),
        ('path = directory / f"attempt-{number}"', "attempt-"),
        ('logs = environment.directory / "logs"', "logs"),
        ('logs = directory.joinpath("logs")', "logs"),
        ('NAME = "results.jsonl"', "results.jsonl"),
    ],
)
def test_a_path_of_ones_own_is_found(source: str, word: str) -> None:
    assert list(literals(source)) == [word]


def test_the_words_of_everyday_are_not_taken_for_paths() -> None:
    assert list(literals('said = {"logs": 1, "checks": 2}; total = count / 2')) == []


def test_attempts_lie_in_the_cells_directory(tmp_path: Path) -> None:
    run = RunDir.of(tmp_path, "abcdef")
    first, second = run.attempt("a-cell"), run.attempt("a-cell", 2)
    assert first.path == tmp_path / "abcdef" / "a-cell"
    assert second.path == first.path / "attempt-2"
    assert second.sibling(3).path == first.path / "attempt-3"
    assert second.sibling(1) == first
    assert second.log("deploy") == first.path / "attempt-2" / "logs" / "deploy.log"


def test_runs_are_those_with_results(tmp_path: Path) -> None:
    for name in ("b", "a", "empty"):
        (tmp_path / name).mkdir()
    for name in ("b", "a"):
        RunDir(tmp_path / name).results.write_text("{}\n", encoding="utf-8")
    assert [run.path.name for run in RunDir.all_in(tmp_path)] == ["a", "b"]


def written(files: AttemptDir) -> list[Path]:
    """Write every secret of an attempt, and a log; return the secrets."""
    secrets = [files.key, files.kubeconfig, files.proxied(), files.proxied("4711"), files.snapshot]
    secrets.append(files.proxied("ca") / "etcd" / "ca.key")  # of the playbooks, whose CA is external
    for file in (*secrets, files.log("deploy"), files.hosts):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x", encoding="utf-8")
    return secrets


def test_secrets_go_and_what_explains_stays(tmp_path: Path) -> None:
    files = RunDir(tmp_path).attempt("c", 2)
    secrets = written(files)
    files.remove_secrets()
    assert not [s for s in secrets if s.exists()]
    assert not files.proxied("ca").exists()
    assert files.log("deploy").is_file()
    assert files.hosts.is_file()


def test_secrets_of_all_attempts_go_at_a_jobs_end(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    secrets = [*written(run.attempt("c")), *written(run.attempt("c", 2))]
    others = written(run.attempt("another"))
    run.remove_secrets("c")
    assert not [s for s in secrets if s.exists()]
    assert all(s.exists() for s in others)
