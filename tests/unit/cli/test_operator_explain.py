"""`vmatrix operator explain | releases`: what they print, and how they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from harness.cli import app, operator_explain
from harness.errors import BadInput
from harness.operator.decide.variables import FILE
from tests.unit.operator.api.objects import deployment, wanted_set

runner = CliRunner()


@pytest.fixture(autouse=True)
def _no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))


def written(folder: Path, **spec: Any) -> str:
    """Write a ClusterDeployment and return its path."""
    sets = (wanted_set("cp", "control-plane", "worker"), wanted_set("w", "worker", replicas=2))
    file = folder / "guest.yml"
    file.write_text(yaml.safe_dump(deployment(*sets, **spec)), encoding="utf-8")
    return str(file)


def test_what_is_to_do_is_printed_with_its_reason(tmp_path: Path) -> None:
    result = runner.invoke(app, ["operator", "explain", "-f", written(tmp_path)])
    assert result.exit_code == 0, result.output
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert "ClusterDeployment default/guest: Kubernetes 1.36.3" in lines
    assert "1. deploy: there is no cluster yet" in lines
    assert "machines: cp-0, w-0, w-1" in lines
    assert "now: deploy begins" in lines


def test_objects_without_a_namespace_are_in_that_of_kubectl(tmp_path: Path) -> None:
    context = {"name": "c", "context": {"namespace": "clusters"}}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({"current-context": "c", "contexts": [context]}))
    file = Path(written(tmp_path))
    body = yaml.safe_load(file.read_text(encoding="utf-8"))
    del body["metadata"]["namespace"]
    file.write_text(yaml.safe_dump(body), encoding="utf-8")
    words = ["operator", "explain", "-f", str(file)]
    assert "ClusterDeployment clusters/guest:" in runner.invoke(app, words).stdout
    assert "ClusterDeployment mine/guest:" in runner.invoke(app, [*words, "--namespace", "mine"]).stdout


def test_a_wait_is_printed_with_its_reason(tmp_path: Path) -> None:
    result = runner.invoke(app, ["operator", "explain", "-f", written(tmp_path, paused=True)])
    assert "now: waits: Paused: spec.paused is true" in result.stdout


def test_everything_is_there_as_json(tmp_path: Path) -> None:
    result = runner.invoke(app, ["operator", "explain", "--json", "-f", written(tmp_path)])
    (one,) = json.loads(result.stdout)
    assert one["groups"]["cp-0"] == ["control_plane", "etcd", "node"]
    assert one["variables"]["cluster_etcd_version"] == "3.6.8"


def test_a_file_with_a_mistake_is_bad_input(tmp_path: Path) -> None:
    result = runner.invoke(app, ["operator", "explain", "-f", written(tmp_path, version="1.36.9")])
    assert isinstance(result.exception, BadInput)
    assert result.exception.exit_code == 2
    assert "spec.version: Kubernetes 1.36.9 is no release" in result.exception.summary


def test_a_kubeconfig_alone_compares_with_nothing(tmp_path: Path) -> None:
    words = ["operator", "explain", "-f", written(tmp_path), "--kubeconfig", "x"]
    with pytest.raises(BadInput, match="--kubeconfig needs --against"):
        runner.invoke(app, words, catch_exceptions=False)


def test_the_known_versions_are_printed() -> None:
    result = runner.invoke(app, ["operator", "releases"])
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["1.36.3", "3.6.8", "1.14.2", "3.10.2"] in rows
    assert ["containerd", "2.4.2"] in rows


def test_the_table_is_written_as_it_is_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_explain, "FILE", tmp_path / "releases.yml")
    assert runner.invoke(app, ["operator", "releases", "--write"]).exit_code == 0
    assert (tmp_path / "releases.yml").read_bytes() == FILE.read_bytes()
