"""`vmatrix operator log`: which cluster and which namespace it reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from harness.cli import app, operator_log
from harness.errors import BadInput
from harness.kube.client import Cluster


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what is asked for; kubectl's context names the namespace `clusters`."""
    calls: list[Any] = []
    context = {"name": "c", "context": {"namespace": "clusters"}}
    (tmp_path / "config").write_text(yaml.safe_dump({"current-context": "c", "contexts": [context]}), encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(Cluster, "from_kubeconfig", lambda path: path)
    monkeypatch.setattr(operator_log, "show_log", lambda *words: calls.append(words[:4]))
    return calls


def test_it_looks_where_kubectl_does(shown: list[Any], tmp_path: Path) -> None:
    (tmp_path / "other").write_text("{}", encoding="utf-8")
    CliRunner().invoke(app, ["operator", "log", "guest"], catch_exceptions=False)
    CliRunner().invoke(app, ["operator", "log", "guest", "3", "-n", "here"], catch_exceptions=False)
    words = ["operator", "log", "guest", "--kubeconfig", str(tmp_path / "other")]
    CliRunner().invoke(app, words, catch_exceptions=False)
    config, other = tmp_path / "config", tmp_path / "other"
    assert shown == [
        (config, "clusters", "guest", None),
        (config, "here", "guest", 3),
        (other, "default", "guest", None),
    ]


def test_no_kubeconfig_is_bad_input(shown: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/none")
    with pytest.raises(BadInput, match="there is no kubeconfig /none"):
        CliRunner().invoke(app, ["operator", "log", "guest"], catch_exceptions=False)
    assert shown == []
