"""One cell from an installed package: every byte that runs comes from the wheel, in a folder with one empty file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.package.conftest import Installed

NAME = "package"
CELL_SECONDS = 7200.0  # against hanging: without a cache the artifacts are built first


def test_the_smoke_cell_passes(installed: Installed, project: Path, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: installed.vmatrix(f"infra down --name {NAME}", cwd=project))
    up = installed.call("vmatrix", "infra", "up", "--name", NAME, cwd=project, seconds=CELL_SECONDS)
    assert up.returncode == 0, up.stdout + up.stderr
    done = installed.call("vmatrix", "run", "--tier", "smoke", "--infra-name", NAME, cwd=project, seconds=CELL_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    (summary,) = project.glob("runs/*/summary.md")
    assert "conformance" in summary.read_text(encoding="utf-8")
    (log,) = project.glob("runs/*/*/logs/deploy.log")
    assert str(installed.package / "packaged" / "playbooks" / "cluster.yml") in log.read_text(encoding="utf-8")
