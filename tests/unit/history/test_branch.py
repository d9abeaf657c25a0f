"""The history on a branch, with real git: pushed by many at once to a bare repository beside the test."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import proc
from harness.errors import InfraError
from harness.history.branch import BranchStore, remote_url
from harness.history.record import to_line
from tests.unit.history.make import checked, record
from tests.unit.history.synthetic import NOW

YEAR = [checked(record(night, of=60), {"a: b": "p"}) for night in range(60)]
WRITERS = 5


def git(folder: Path, *arguments: str) -> str:
    """Run git and return what it says."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.invalid"]
    return proc.run(["git", "-C", str(folder), *identity, *arguments], timeout=60).stdout.strip()


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A repository that nobody has pushed to."""
    path = tmp_path / "remote.git"
    path.mkdir()
    git(path, "init", "--quiet", "--bare", "-b", "main")
    return path


@pytest.fixture
def store(bare: Path) -> BranchStore:
    """A branch of it that is not there yet."""
    return BranchStore(str(bare), "vmatrix-history")


def test_a_branch_that_is_not_there_is_an_empty_history(store: BranchStore) -> None:
    assert store.load().records == ()


def test_what_was_added_is_there(store: BranchStore, bare: Path) -> None:
    assert store.add(YEAR[:3]) == 3
    assert store.add(YEAR[1:5]) == 2
    assert store.load().records == tuple(YEAR[:5])
    assert store.add(YEAR[:5]) == 0
    assert git(bare, "rev-list", "--count", "vmatrix-history") == "2"


def test_each_month_has_a_file(store: BranchStore, bare: Path) -> None:
    store.add(YEAR)
    files = git(bare, "ls-tree", "-r", "--name-only", "vmatrix-history").split()
    assert files == ["history/2026-09.jsonl", "history/2026-10.jsonl", "history/2026-11.jsonl"]


def test_pipelines_that_push_at_once_lose_nothing(store: BranchStore) -> None:
    shares = [YEAR[n::WRITERS] for n in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        added = list(pool.map(store.add, shares))
    assert added == [len(share) for share in shares]
    found = store.load()
    assert found.records == tuple(YEAR)
    assert (found.duplicates, found.skipped) == (0, ())


def test_a_push_that_comes_in_between_is_taken_in(store: BranchStore, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.history.branch import _Git

    store.add(YEAR[:1])
    push, between = _Git.pushed, [YEAR[1:2], YEAR[2:3]]

    def late(self: _Git) -> str:
        if between:
            share = between.pop()
            monkeypatch.setattr(_Git, "pushed", push)
            store.add(share)
            monkeypatch.setattr(_Git, "pushed", late)
        return push(self)

    monkeypatch.setattr(_Git, "pushed", late)
    assert store.add(YEAR[3:4]) == 1
    assert store.load().records == tuple(YEAR[:4])


def test_compacting_and_adding_at_once_lose_nothing(store: BranchStore) -> None:
    store.add(YEAR[:40])
    with ThreadPoolExecutor(2) as pool:
        dropped = pool.submit(store.compact, days=30, now=NOW)
        added = pool.submit(store.add, YEAR[40:])
        assert (dropped.result(), added.result()) == (30, 20)
    found = store.load().records
    assert [r.id for r in found] == [r.id for r in YEAR]
    assert sum(r.forgotten for r in found) == 30


def test_lines_that_cannot_be_read_stay_on_the_branch(store: BranchStore, bare: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    git(tmp_path, "clone", "--quiet", str(bare), str(work))
    git(work, "checkout", "--quiet", "--orphan", "vmatrix-history")
    (work / "history").mkdir()
    file = work / "history" / "2026-11.jsonl"
    file.write_bytes(to_line(YEAR[-1]) + b'{"v":7}\n\xff\xfe torn')
    git(work, "add", ".")
    git(work, "commit", "--quiet", "-m", "by hand")
    git(work, "push", "--quiet", "origin", "vmatrix-history")
    store.add(YEAR[-2:])
    store.compact(days=0, now=NOW)
    found = store.load()
    assert len(found.records) == 2
    assert [(s.source, s.why.partition(":")[0]) for s in found.skipped] == [
        ("2026-11.jsonl", "version 7 of the history; this vmatrix knows version 1"),
        ("2026-11.jsonl", "Invalid JSON"),
    ]
    git(work, "pull", "--quiet", "origin", "vmatrix-history")
    assert b"\xff\xfe torn" in file.read_bytes()


def test_other_files_of_the_branch_stay(store: BranchStore, bare: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    git(tmp_path, "clone", "--quiet", str(bare), str(work))
    git(work, "checkout", "--quiet", "-b", "vmatrix-history")
    (work / "README.md").write_text("what this is\n")
    git(work, "add", ".")
    git(work, "commit", "--quiet", "-m", "first")
    git(work, "push", "--quiet", "origin", "vmatrix-history")
    store.add(YEAR[:1])
    assert "README.md" in git(bare, "ls-tree", "-r", "--name-only", "vmatrix-history").split()


def test_the_checkout_that_a_job_runs_in_is_not_touched(
    store: BranchStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "checkout"
    work.mkdir()
    git(work, "init", "--quiet", "-b", "main")
    git(work, "commit", "--quiet", "--allow-empty", "-m", "x")
    before = git(work, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(work / ".git"))  # as in a hook
    store.add(YEAR[:1])
    monkeypatch.delenv("GIT_DIR")
    assert git(work, "rev-parse", "HEAD") == before
    assert git(work, "branch", "--format=%(refname:short)").split() == ["main"]


def test_a_branch_that_refuses_is_no_endless_loop(store: BranchStore, bare: Path) -> None:
    hook = bare / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'you shall not push'\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(InfraError, match="`git push` ended with status 1") as caught:
        store.add(YEAR[:1])
    assert "you shall not push" in caught.value.detail
    assert "MATRIX_HISTORY_TOKEN" in caught.value.hint


def test_a_repository_that_is_not_there_is_named_without_its_token(tmp_path: Path) -> None:
    store = BranchStore(f"file://{tmp_path}/none", "vmatrix-history", token="t0psecr3tvalue")
    with pytest.raises(InfraError) as caught:
        store.load()
    said = f"{caught.value.summary} {caught.value.detail} {store!r}"
    assert "ls-remote" in said
    assert "t0psecr3t" not in said


def test_a_remote_is_looked_up_and_loses_the_account_that_is_not_used(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "remote", "add", "origin", "https://gitlab-ci-token:abc@lab.invalid:8443/g/p.git")
    assert remote_url(tmp_path, "origin", own_token=True) == "https://lab.invalid:8443/g/p.git"
    assert remote_url(tmp_path, "origin", own_token=False).startswith("https://gitlab-ci-token:abc@")
    assert remote_url(tmp_path, "/srv/history.git", own_token=True) == "/srv/history.git"
    with pytest.raises(InfraError, match="has no git remote 'upstream'"):
        remote_url(tmp_path, "upstream", own_token=True)
