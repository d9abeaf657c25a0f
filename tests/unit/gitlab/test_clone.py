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


def cloned(folder: Path, source: str, ref: str, **more: str) -> subprocess.CompletedProcess[str]:
    given = {"CI_PROJECT_DIR": str(folder / "team"), "CI_JOB_ID": "1", "MATRIX_FROM": source, "MATRIX_REF": ref}
    return subprocess.run(
        ["/bin/sh", "-euc", CLONE],
        env={"PATH": f"{folder}/bin:/usr/bin:/bin", "HOME": str(folder), **given, **more},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_a_job_has_the_revision(tmp_path: Path, vmatrix: Path) -> None:
    done = cloned(tmp_path, str(vmatrix), "main")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert (tmp_path / "team.vmatrix" / ".job").read_text() == "1\n"


def _commit(folder: Path) -> str:
    argv = ["/usr/bin/git", "-C", str(folder), "rev-parse", "HEAD"]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=SECONDS).stdout.strip()


@pytest.mark.parametrize("ref", ["main", "refs/heads/main", "v1.2.3", "a commit"])
def test_a_revision_is_a_branch_a_tag_or_a_commit(tmp_path: Path, vmatrix: Path, ref: str) -> None:
    subprocess.run(["/usr/bin/git", "-C", str(vmatrix), "tag", "v1.2.3"], check=True, timeout=SECONDS)
    done = cloned(tmp_path, f"file://{vmatrix}", _commit(vmatrix) if ref == "a commit" else ref)
    assert done.returncode == 0, done.stderr
    assert _commit(tmp_path / "team.vmatrix") == _commit(vmatrix)


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("platform/vmatrix", "https://gitlab-ci-token:word@git.example.org/sub/platform/vmatrix.git"),
        ("Plat.Form/a/vmatrix", "https://gitlab-ci-token:word@git.example.org/sub/Plat.Form/a/vmatrix.git"),
        ("https://other.example.org/vmatrix.git", "https://other.example.org/vmatrix.git"),
        ("git@other.example.org:platform/vmatrix.git", "git@other.example.org:platform/vmatrix.git"),
        ("/srv/vm atrix.git", "/srv/vm atrix.git"),
    ],
)
def test_a_source_is_a_path_on_this_gitlab_a_url_or_what_ssh_takes(tmp_path: Path, source: str, asked: str) -> None:
    (tmp_path / "bin").mkdir()
    git = tmp_path / "bin" / "git"
    git.write_text('#!/bin/sh\necho "$@" >>"$HOME/asked"\ntest "$1" != init || mkdir "$3"\n')
    git.chmod(0o755)
    done = cloned(tmp_path, source, "main", CI_SERVER_URL="https://git.example.org/sub", CI_JOB_TOKEN="word")
    assert done.returncode == 0, done.stderr
    assert f"fetch --quiet --depth 1 -- {asked} main\n" in (tmp_path / "asked").read_text()


def test_a_job_that_cannot_write_beside_its_checkout_says_so(tmp_path: Path, vmatrix: Path) -> None:
    (tmp_path / "file").touch()
    done = cloned(tmp_path / "file", str(vmatrix), "main")
    assert done.returncode == 2
    assert f"error: {tmp_path}/file/team.vmatrix: this job cannot make it, beside its checkout\n" in done.stderr
    assert f"hint: let the user that runs the job's image write to {tmp_path}/file\n" in done.stderr


def test_an_image_without_git_gets_it_first(tmp_path: Path, vmatrix: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("cat", "rm"):
        (programs / name).symlink_to(f"/bin/{name}")
    apt = programs / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$@" >&2\ntest "$1" = update || /bin/ln -sf /usr/bin/git {programs}/git\n')
    apt.chmod(0o755)
    done = cloned(tmp_path, str(vmatrix), "main", PATH=str(programs))
    assert done.returncode == 0, done.stderr
    assert "ca-certificates git" in done.stderr


@pytest.mark.parametrize(("source", "ref"), [("vmatrix", "v9.9.9"), ("nothing", "main"), ("vmatrix", "--all")])
def test_a_job_without_it_says_what_to_change(tmp_path: Path, vmatrix: Path, source: str, ref: str) -> None:
    whole = str(vmatrix.with_name(source))
    done = cloned(tmp_path, whole, ref)
    assert done.returncode == 2
    assert f"error: vmatrix_project {whole}: this job gets no branch, tag or commit '{ref}' from there\n" in done.stderr
    assert "hint: set the input vmatrix_ref" in done.stderr
    assert not (tmp_path / "team.vmatrix").exists(), "nothing is left of it"
