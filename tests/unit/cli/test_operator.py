"""`vmatrix operator crds`: what it prints can be applied, and what it writes is what is committed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from harness.cli import app, operator
from harness.operator.api.crds import crds
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
