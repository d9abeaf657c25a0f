"""`vmatrix artifacts`: what it lists, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.artifacts.catalogue import load
from harness.cli.artifacts import app
from harness.errors import BadInput


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")


def command(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_the_list_names_every_version_and_where_it_can_come_from() -> None:
    result = command("list")
    assert result.exit_code == 0, result.exception
    rows = {tuple(line.split()[:2]): line for line in result.output.splitlines() if line.strip()}
    for name in load().names():
        for version in load().versions(name):
            assert (name, version) in rows
    assert "release, gomod" in rows["kubelet", "1.36.3"]
    assert "release" not in rows["flannel", "0.28.4"]
    assert "image" in rows["image/pause", "3.10.2"].split()


def test_programs_get_the_list_as_json() -> None:
    rows = json.loads(command("list", "--json").output)
    assert {(row["name"], row["version"]) for row in rows} == {
        (n, v) for n in load().names() for v in load().versions(n)
    }
    assert {row["cached_bytes"] for row in rows} == {None}
    assert next(row["source"] for row in rows if row["name"] == "kubelet") == "release, gomod"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["build"], "nothing selected"),
        (["build", "nothing"], "no artifact `nothing`"),
        (["build", "etcd@9"], "etcd has no version 9"),
        (["build", "--kubernetes", "1.2.3"], "Kubernetes 1.2.3 is not in the catalogue"),
        (["module", "nothing", "1"], "unknown wrapper module `nothing`"),
        (["serve", "--kubernetes", "1.2.3"], "Kubernetes 1.2.3 is not in the catalogue"),
        (["serve", "--tier", "smoke", "--kubernetes", "1.36.3"], "--tier says what is served"),
        (["serve", "--tier", "smok"], "unknown tier 'smok'"),
    ],
)
def test_bad_input_is_refused_before_anything_is_made(words: list[str], message: str, tmp_path: Path) -> None:
    raised = command(*words).exception
    assert isinstance(raised, BadInput)
    assert message in raised.summary
    assert not list(tmp_path.rglob("artifact.json"))
