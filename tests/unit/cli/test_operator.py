"""`vmatrix operator crds`: what it prints can be applied, and what it writes is what is committed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from harness.artifacts.own import push as pushing
from harness.artifacts.recipe import Ref
from harness.artifacts.store import Artifact
from harness.cli import app, operator
from harness.errors import BadInput
from harness.kube.client import Cluster
from harness.operator.api.crds import crds
from harness.operator.decide.variables import FILE
from tests.unit.operator.api.objects import deployment, wanted_set
from tests.unit.pages import ROOT

runner = CliRunner()


def test_the_definitions_are_printed_as_one_stream() -> None:
    result = runner.invoke(app, ["operator", "crds"])
    assert result.exit_code == 0
    assert list(yaml.safe_load_all(result.stdout)) == crds()


def test_the_definitions_are_written_with_the_tables_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "packaged_dir", lambda: tmp_path)
    (tmp_path / "docs" / "operator").mkdir(parents=True)
    page = (ROOT / "docs" / "operator" / "fields.md").read_text(encoding="utf-8")
    (tmp_path / "docs" / "operator" / "fields.md").write_text(page, encoding="utf-8")
    result = runner.invoke(app, ["operator", "crds", "--write"])
    assert result.exit_code == 0
    written = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.*") if path.is_file())
    assert len(written) == len(crds()) + 1
    assert [(tmp_path / path).read_bytes() for path in written] == [(ROOT / path).read_bytes() for path in written]


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
    assert "spec.version: Kubernetes 1.36.9 is not a release" in result.exception.summary


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
    monkeypatch.setattr(operator, "FILE", tmp_path / "releases.yml")
    assert runner.invoke(app, ["operator", "releases", "--write"]).exit_code == 0
    assert (tmp_path / "releases.yml").read_bytes() == FILE.read_bytes()


IMAGE = Artifact(Ref("image/vmatrix", "1-abc"), "image", Path("/cache"), {"digest": "sha256:1", "size": 10 << 20})


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []
    monkeypatch.setattr(pushing, "obtain_image", lambda _store, _progress: IMAGE)
    monkeypatch.setattr(pushing, "publish", lambda *_: calls.append("published"))
    monkeypatch.setattr(
        pushing, "push", lambda _image, registry, tags, _store, login, insecure: calls.append((registry, tags, login))
    )
    return calls


def test_it_says_what_it_made(pushed: list[Any]) -> None:
    told = CliRunner().invoke(app, ["operator", "image"]).stdout
    assert told.splitlines() == [
        "reference  vmatrix:1-abc",
        "size       10 MiB",
        "digest     sha256:1",
        "layout     /cache/files",
    ]
    assert pushed == []


def test_it_is_pushed_with_the_pipelines_own_log_in(pushed: list[Any]) -> None:
    job = {"CI_REGISTRY_USER": "job", "CI_REGISTRY_PASSWORD": "token"}
    words = ["operator", "image", "--push", "host/group/", "--tag", "main", "--publish"]
    told = CliRunner().invoke(app, words, env=job).stdout
    assert told.startswith("reference  host/group/vmatrix:1-abc\n")
    assert pushed == [("host/group", ["1-abc", "main"], pushing.Login("job", "token")), "published"]


@pytest.mark.parametrize("words", [["--user", "me"], ["--password", "x"]])
def test_half_a_log_in_is_refused(pushed: list[Any], words: list[str]) -> None:
    job = {"CI_REGISTRY_USER": "", "CI_REGISTRY_PASSWORD": ""}
    refused = CliRunner().invoke(app, ["operator", "image", "--push", "host", *words], env=job)
    assert "is given alone" in str(refused.exception)
    assert pushed == []


@pytest.mark.parametrize("registry", ["https://host", "", " ", "Host/Group"])
def test_what_is_no_registry_is_refused_before_the_image_is_made(pushed: list[Any], registry: str) -> None:
    refused = CliRunner().invoke(app, ["operator", "image", "--push", registry])
    assert str(refused.exception) == f"{registry!r} is not a registry"
    assert pushed == []


@pytest.mark.parametrize("words", [["--tag", "main"], ["--insecure"]])
def test_how_to_push_needs_where(pushed: list[Any], words: list[str]) -> None:
    refused = CliRunner().invoke(app, ["operator", "image", *words])
    assert "--push says where" in str(refused.exception)
    assert pushed == []


def test_the_image_with_buildkit_is_for_registries(pushed: list[Any]) -> None:
    refused = CliRunner().invoke(app, ["operator", "image", "--builder"])
    assert "--builder says what is pushed" in str(refused.exception)
    assert pushed == []


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what is asked for; kubectl's context names the namespace `clusters`."""
    calls: list[Any] = []
    context = {"name": "c", "context": {"namespace": "clusters"}}
    (tmp_path / "config").write_text(yaml.safe_dump({"current-context": "c", "contexts": [context]}), encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(Cluster, "from_kubeconfig", lambda path: path)
    monkeypatch.setattr(operator, "show_log_of", lambda *words: calls.append(words[:4]))
    return calls


def test_it_looks_where_kubectl_does(shown: list[Any], tmp_path: Path) -> None:
    (tmp_path / "other").write_text("{}", encoding="utf-8")
    CliRunner().invoke(app, ["operator", "log", "guest"], catch_exceptions=False)
    CliRunner().invoke(app, ["operator", "log", "guest", "3", "-n", "here"], catch_exceptions=False)
    words = ["operator", "log", "guest", "--kubeconfig", str(tmp_path / "other")]
    CliRunner().invoke(app, words, catch_exceptions=False)
    config, other = tmp_path / "config", tmp_path / "other"
    assert shown == [
        (config, "clusters", "guest", ""),
        (config, "here", "guest", "3"),
        (other, "default", "guest", ""),
    ]


def test_no_kubeconfig_is_bad_input(shown: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/none")
    with pytest.raises(BadInput, match="there is no kubeconfig /none"):
        CliRunner().invoke(app, ["operator", "log", "guest"], catch_exceptions=False)
    assert shown == []
