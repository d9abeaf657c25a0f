"""What every job sources first: which project its commands work on, as at a desk."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.paths import packaged_dir

SECONDS = 30


@pytest.mark.parametrize("product", ["", "ci/product.yml"])
def test_a_job_works_on_its_checkout(tmp_path: Path, product: str) -> None:
    team, programs = tmp_path / "team", tmp_path / "home" / ".venv" / "bin"
    team.mkdir()
    programs.mkdir(parents=True)
    (programs / "vmatrix").write_text('#!/bin/sh\nprintf \'%s:%s\' "$VMATRIX_PROJECT" "$VMATRIX_PRODUCT_FILE"\n')
    (programs / "vmatrix").chmod(0o755)
    given = {"CI_PROJECT_DIR": str(team), "MATRIX_HOME": str(tmp_path / "home"), "MATRIX_PRODUCT": product}
    done = subprocess.run(
        ["/bin/sh", "-euc", f". {packaged_dir()}/ci/prepare; vmatrix"],
        env={"PATH": "/usr/bin:/bin", **given},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.stdout == f"{team}:{team / product if product else ''}", done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "team"], "nothing beside the checkout"
