"""Where the jobs of another project get vmatrix from: its repository, at the revision that the pipeline names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.gitlab.child import common

SECONDS = 30
CLONE = common()[".vmatrix"]["before_script"][0]


@pytest.fixture
def vmatrix(tmp_path: Path) -> Path:
    """Return a repository with a branch `main`."""
    made = tmp_path / "vmatrix"
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["/usr/bin/git", "init", "-q", "-b", "main", str(made)], check=True, timeout=SECONDS)
    subprocess.run(
        ["/usr/bin/git", *author, "-C", str(made), "commit", "-q", "--allow-empty", "-m", "One"],
        check=True,
        timeout=SECONDS,
    )
    return made


def cloned(folder: Path, source: str, ref: str) -> subprocess.CompletedProcess[str]:
    given = {"CI_PROJECT_DIR": str(folder / "team"), "CI_JOB_ID": "1", "MATRIX_FROM": source, "MATRIX_REF": ref}
    return subprocess.run(
        ["/bin/sh", "-euc", CLONE],
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), **given},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_a_job_has_the_revision(tmp_path: Path, vmatrix: Path) -> None:
    done = cloned(tmp_path, str(vmatrix), "main")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert (tmp_path / "team.vmatrix" / ".job").read_text() == "1\n"


@pytest.mark.parametrize(("source", "ref"), [("vmatrix", "v9.9.9"), ("nothing", "main")])
def test_a_job_without_it_says_what_to_change(tmp_path: Path, vmatrix: Path, source: str, ref: str) -> None:
    whole = str(vmatrix.with_name(source))
    done = cloned(tmp_path, whole, ref)
    assert done.returncode == 2
    assert f"error: vmatrix_project {whole}: this job gets no branch or tag '{ref}' from there\n" in done.stderr
    assert "hint: set the input vmatrix_ref" in done.stderr
    assert not (tmp_path / "team.vmatrix").exists(), "nothing is left of it"
