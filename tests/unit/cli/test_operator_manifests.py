"""`vmatrix operator manifests`: what it prints, and what it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli import app, operator_manifests
from harness.operator.manifests import committed


def test_manifests_need_an_image_and_write_takes_nothing_else() -> None:
    refused = CliRunner().invoke(app, ["operator", "manifests"])
    assert "no image" in str(refused.exception)
    refused = CliRunner().invoke(app, ["operator", "manifests", "--write", "--apart"])
    assert "--write writes deploy/operator" in str(refused.exception)
    printed = CliRunner().invoke(app, ["operator", "manifests", "--namespace", "ns", "--image", "host/vmatrix:1"])
    assert printed.exit_code == 0
    assert "image: host/vmatrix:1\n" in printed.stdout
    assert printed.stdout.count("\nkind: CustomResourceDefinition\n") == 4


def test_what_is_committed_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_manifests, "packaged_dir", lambda: tmp_path)
    assert CliRunner().invoke(app, ["operator", "manifests", "--write"]).exit_code == 0
    for name, text in committed().items():
        assert (tmp_path / "deploy" / "operator" / name).read_text(encoding="utf-8") == text
