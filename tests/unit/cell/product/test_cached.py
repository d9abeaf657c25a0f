"""The sources of a product: one revision of a Git repository, fetched once, and named in the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import proc
from harness.cell.product import cached
from harness.errors import BadInput
from harness.model import Cell, Phase
from harness.spec import product_files
from harness.spec.models import Product
from tests.unit.shipped_timeouts import TIMEOUTS

SECONDS = 30.0  # against hanging: local git commands


def git(folder: Path, *words: str) -> str:
    author = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return proc.run(["git", "-C", folder, *author, *words], timeout=SECONDS).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with a tag `v1`, and a commit after it."""
    folder = tmp_path / "upstream"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "trunk")
    for number in ("1", "2"):
        (folder / "version").write_text(number, encoding="utf-8")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", number)
        if number == "1":
            git(folder, "tag", "v1")
    return folder


def product(**given: Any) -> Product:
    return Product.model_validate(
        {"name": "p", "directory": ".", "phases": {"deploy": {"playbook": "a.yml"}}, "sources": given}
    )


def fetch(wanted: Product, project: Path) -> list[str]:
    told: list[str] = []
    cached.fetch(wanted, project, told.append, TIMEOUTS)
    return told


def test_a_tag_is_fetched_once_and_its_commit_is_told(repository: Path, tmp_path: Path) -> None:
    wanted = product(git=f"file://{repository}", revision="v1")
    assert fetch(wanted, tmp_path) == [f"fetching file://{repository} at v1"]
    folder = product_files.cached(f"file://{repository}", "v1")
    assert (folder / "version").read_text(encoding="utf-8") == "1"
    repository.rename(tmp_path / "gone")
    assert fetch(wanted, tmp_path) == []
    told = cached.revision_of(wanted, tmp_path)
    assert told is not None
    assert (told.git, told.revision, told.folder) == (f"file://{repository}", "v1", "")
    assert told.commit == git(tmp_path / "gone", "rev-parse", "v1")
    assert str(told) == f"p, file://{repository} v1 (commit {told.commit[:12]})"


def test_sources_are_fetched_into_their_folder_whatever_repository_git_is_told_of(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in hooks, aliases and `rebase --exec`."""
    own = tmp_path / "own"
    git(tmp_path, "clone", "--quiet", f"file://{repository}", "own")
    before = git(own, "rev-parse", "HEAD"), git(own, "status", "--branch", "--porcelain")
    wanted = product(git=f"file://{repository}", revision="v1")
    with monkeypatch.context() as told:
        told.setenv("GIT_DIR", str(own / ".git"))
        told.setenv("GIT_WORK_TREE", str(own))
        fetch(wanted, tmp_path)
        revision = cached.revision_of(wanted, tmp_path)
    assert (product_files.cached(f"file://{repository}", "v1") / "version").read_text(encoding="utf-8") == "1"
    assert revision is not None
    assert revision.commit == git(repository, "rev-parse", "v1")
    assert (git(own, "rev-parse", "HEAD"), git(own, "status", "--branch", "--porcelain")) == before
    assert (own / "version").read_text(encoding="utf-8") == "2"


def test_a_commit_is_fetched_by_its_full_id(repository: Path, tmp_path: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD~1")
    fetch(product(git=f"file://{repository}", revision=commit), tmp_path)
    folder = product_files.cached(f"file://{repository}", commit)
    assert (folder / "version").read_text(encoding="utf-8") == "1"


@pytest.mark.parametrize("revision", ["v9", "trunk", "abcdef1"])
def test_what_is_no_tag_and_no_full_commit_is_refused_and_leaves_nothing(
    revision: str, repository: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=rf"has no tag {revision}, and it is not a full commit id$"):
        fetch(product(git=f"file://{repository}", revision=revision), tmp_path)
    assert not product_files.cached(f"file://{repository}", revision).exists()


def test_a_repository_that_cannot_be_reached_is_said_in_gits_words(tmp_path: Path) -> None:
    wanted = product(git=f"file://{tmp_path}/nowhere", revision="v1")
    with pytest.raises(BadInput, match=r"^v1 of file://.*/nowhere cannot be fetched: fatal: ") as failed:
        fetch(wanted, tmp_path)
    assert "VMATRIX_PRODUCT_SOURCES=FOLDER" in failed.value.hint


def test_a_folder_replaces_the_repository_and_is_named_in_its_place(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(product_files.VARIABLE, str(repository))
    wanted = product(git="https://example.org/p.git", revision="v1")
    assert fetch(wanted, tmp_path) == []
    told = cached.revision_of(wanted, tmp_path)
    assert told is not None
    assert (told.folder, told.commit) == (str(repository), git(repository, "rev-parse", "HEAD"))
    assert str(told).startswith(f"p, {repository}, in place of https://example.org/p.git v1 (commit ")


def test_a_path_is_relative_to_the_project_and_need_not_be_a_repository(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    told = cached.revision_of(product(path="theirs"), tmp_path)
    assert told is not None
    assert (told.folder, told.commit) == (str(tmp_path / "theirs"), "")


def test_a_product_without_sources_has_no_revision_of_its_own(tmp_path: Path) -> None:
    plain = Product.model_validate({"name": "p", "directory": ".", "phases": {"deploy": {"playbook": "a.yml"}}})
    assert cached.revision_of(plain, tmp_path) is None
    assert fetch(plain, tmp_path) == []


def made_for(**given: Any) -> Product:
    return product(releases={"v1": {"cluster_kubernetes_version": ["1.35.4", "1.34.4"]}, "v0": {}}, **given)


def cell(*versions: str) -> Cell:
    """Return a cell whose phases have these versions of Kubernetes."""
    phases = tuple(
        Phase("deploy", "", machines=(), vars={"cluster_kubernetes_version": version}) for version in versions
    )
    return Cell("c", {}, "s", phases, (), {})


def test_a_checkout_of_a_release_that_is_known_is_taken(repository: Path, tmp_path: Path) -> None:
    git(repository, "checkout", "--quiet", "v1")
    cached.refuse_release(made_for(path=str(repository)), tmp_path, [cell("1.34.4", "1.35.4")])
    cached.refuse_release(product(path=str(repository)), tmp_path, [cell("1.36.3")])


def test_a_revision_is_known_before_it_is_fetched(tmp_path: Path) -> None:
    wanted = made_for(git="https://example.org/p.git", revision="v1")
    cached.refuse_release(wanted, tmp_path, [cell("1.34.4")])
    with pytest.raises(BadInput, match=r"^p v1 does not know cluster_kubernetes_version 1\.36\.3 \(known: 1\."):
        cached.refuse_release(wanted, tmp_path, [cell("1.34.4"), cell("1.36.3")])
    with pytest.raises(ValueError, match=r"revision v9 is not one of `releases`: v1, v0"):
        made_for(git="https://example.org/p.git", revision="v9")


def test_a_checkout_without_a_known_tag_is_refused_with_those_that_are_known(repository: Path, tmp_path: Path) -> None:
    wanted = made_for(path=str(repository))
    with pytest.raises(BadInput, match=r"is a commit without a tag: no release of p that .* knows \(v1, v0\)"):
        cached.refuse_release(wanted, tmp_path, [])
    git(repository, "tag", "v7")
    with pytest.raises(BadInput, match=r"is v7: no release of p that") as raised:
        cached.refuse_release(wanted, tmp_path, [])
    assert "checkout v1" in raised.value.hint
    (tmp_path / "plain").mkdir()
    with pytest.raises(BadInput, match="has no tag: no release"):
        cached.refuse_release(made_for(path="plain"), tmp_path, [])
