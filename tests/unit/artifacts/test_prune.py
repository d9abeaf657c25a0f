"""Pruning: what nothing declares goes, whole; what is declared, served or being worked on stays."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from harness.artifacts import gomod, prune
from harness.artifacts.catalogue import Catalogue
from harness.artifacts.recipe import RECORD, Ref
from harness.artifacts.store import CURRENT, Store

TOOL = Ref("tool", "1.2.3")


@pytest.fixture
def store(tmp_path: Path, small: Catalogue, monkeypatch: pytest.MonkeyPatch) -> Store:
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "go.mod").write_text("module none\n")
    monkeypatch.setattr(gomod, "module_dir", lambda _module, _version: tmp_path / "module")
    return Store(tmp_path / "cache", catalogue=small)


def put(store: Store, ref: Ref, key: str, *, whole: bool = True) -> Path:
    """Lay a folder of the cache, as making an artifact does."""
    version = store.root / ref.name / ref.version
    folder = version / key
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "tool").write_bytes(b"x" * 1000)
    lock = key if whole else key.removeprefix(".tmp-").rpartition("-")[0]
    (version / f".lock-{lock}").touch()
    if whole:
        facts = {"files": {"tool": {"size": 1000, "sha256": ""}}}
        (folder / RECORD).write_text(json.dumps(facts))
    return folder


def gone(store: Store) -> list[Path]:
    return [folder.directory for folder in prune.stale(store)]


def test_every_source_of_a_declared_version_is_kept(store: Store) -> None:
    for key in store.keys(TOOL):
        put(store, TOOL, key)
    assert {key.partition("-")[0] for key in store.keys(TOOL)} == {"gomod", "release"}
    assert gone(store) == []


def test_what_no_recipe_or_no_version_declares_goes_and_the_rest_stays(store: Store) -> None:
    kept = put(store, TOOL, sorted(store.keys(TOOL))[0])
    former = put(store, TOOL, "gomod-000000000000")
    dropped = put(store, Ref("image/deep/tool", "v9"), "image-000000000000")
    assert sorted(gone(store)) == sorted([dropped, former])
    assert all(prune.remove(folder) for folder in prune.stale(store))
    assert (kept.exists(), former.exists(), dropped.exists()) == (True, False, False)
    assert gone(store) == []


def test_what_a_mirror_may_be_serving_is_kept_until_something_newer_is(store: Store) -> None:
    served = put(store, TOOL, "gomod-000000000000")
    (served.parent / CURRENT).symlink_to(served.name)
    assert gone(store) == []
    (served.parent / CURRENT).unlink()
    (served.parent / CURRENT).symlink_to(sorted(store.keys(TOOL))[0])
    assert gone(store) == [served]


def test_a_version_that_nothing_declares_goes_though_it_is_the_current_one(store: Store) -> None:
    folder = put(store, Ref("tool", "0.0.1"), "gomod-000000000000")
    link = folder.parent / CURRENT
    link.symlink_to(folder.name)
    (found,) = prune.stale(store)
    assert prune.remove(found)
    assert not link.is_symlink()


def test_what_another_process_works_on_is_left(store: Store) -> None:
    work = put(store, TOOL, ".tmp-gomod-000000000000-4711", whole=False)
    (found,) = prune.stale(store)
    with (work.parent / ".lock-gomod-000000000000").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert gone(store) == []
        assert not prune.remove(found)
        assert work.exists()
    assert prune.remove(found)
    assert not list(work.parent.glob(".tmp-*"))
