"""What every job sources first: which project its commands work on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.paths import packaged_dir

SECONDS = 30


@pytest.mark.parametrize(
    ("files", "product", "project"),
    [
        ([], "", "home"),
        (["vmatrix.yml"], "", "team"),
        (["matrix/tiers.yml"], "", "team"),
        (["vmatrix.yml"], "ci/product.yml", "team.project of ci/product.yml"),
    ],
)
def test_a_team_s_project_is_that_of_its_jobs(tmp_path: Path, files: list[str], product: str, project: str) -> None:
    team, programs = tmp_path / "team", tmp_path / "home" / ".venv" / "bin"
    team.mkdir()
    programs.mkdir(parents=True)
    (programs / "vmatrix").write_text(f'#!/bin/sh\necho "{team}.project of $3"\n', encoding="utf-8")
    (programs / "vmatrix").chmod(0o755)
    for name in files:
        (team / name).parent.mkdir(exist_ok=True)
        (team / name).touch()
    given = {"CI_PROJECT_DIR": str(team), "MATRIX_HOME": str(tmp_path / "home"), "MATRIX_PRODUCT": product}
    done = subprocess.run(
        ["/bin/sh", "-euc", f'. {packaged_dir()}/ci/prepare; echo "$VMATRIX_PROJECT"'],
        env={"PATH": "/usr/bin:/bin", **given},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.stdout.strip() == f"{tmp_path}/{project}", done.stderr
