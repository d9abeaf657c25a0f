"""The cache of artifacts: what is made, and what is pruned."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from harness import proc
from harness.artifacts import download, gomod
from harness.artifacts.catalogue import Catalogue, load
from harness.artifacts.download import Download
from harness.artifacts.gomod import Build, c_command, command
from harness.artifacts.recipe import RECORD, ArtifactPhase, Event, Ref, Source
from harness.artifacts.store import CURRENT, Store, remove_stale, stale_artifacts
from harness.errors import BadInput
from harness.until import Deadline, NotYet, until
from tests.unit.artifacts.conftest import Site

PLAIN = "/v1.2.3/tool"
TOOL = Ref("tool", "1.2.3")
ASK = """
import sys
from pathlib import Path
from harness.artifacts.catalogue import Catalogue
from harness.artifacts.recipe import Source
from harness.artifacts.store import Store
catalogue = Catalogue.model_validate_json(sys.argv[1])
Store(Path(sys.argv[2]), Source.RELEASE, catalogue, {"http://site": sys.argv[3]}).obtain("tool", "1.2.3")
"""


@pytest.fixture
def store(tmp_path: Path, small: Catalogue, site: Site) -> Store:
    return Store(tmp_path / "cache", Source.RELEASE, small, {"http://site": site.url})


def another_process(store: Store, log: Path) -> proc.Service:
    """Start a process that obtains the tool from the same cache."""
    argv = [
        sys.executable,
        "-c",
        ASK,
        store.catalogue.model_dump_json(),
        str(store.root),
        next(iter(store.bases.values())),
    ]
    return proc.spawn(argv, log=log, env={"PYTHONPATH": str(Path(__file__).parents[3])})


def ended(service: proc.Service) -> bool | NotYet:
    return NotYet("still runs") if service.alive() else True


def test_two_processes_make_it_once(store: Store, site: Site, tmp_path: Path) -> None:
    site.offer(PLAIN, b"program" * 1000)
    site.held.add(PLAIN)
    first = another_process(store, tmp_path / "log")
    assert site.reached_half.wait(20), (tmp_path / "log").read_text()
    phases: list[ArtifactPhase] = []
    waits = threading.Event()

    def progress(event: Event) -> None:
        phases.append(event.phase)
        if event.phase is ArtifactPhase.WAITING:
            waits.set()
            site.release.set()  # only now may the other process finish

    found = store.obtain("tool", "1.2.3", progress)
    until(lambda: ended(first), deadline=Deadline.after(20), what="the other process ends", interval=0.02)
    assert waits.is_set()
    assert ArtifactPhase.RUNNING not in phases
    assert site.asked.count(PLAIN) == 1
    assert found.file("tool").read_bytes() == b"program" * 1000


def test_a_killed_process_leaves_nothing_that_looks_finished(store: Store, site: Site, tmp_path: Path) -> None:
    site.offer(PLAIN, b"program" * 1000)
    site.held.add(PLAIN)
    victim = another_process(store, tmp_path / "log")
    assert site.reached_half.wait(20), (tmp_path / "log").read_text()
    os.kill(victim.pid, signal.SIGKILL)
    until(lambda: ended(victim), deadline=Deadline.after(20), what="the process is dead", interval=0.02)
    assert list(store.root.rglob(".tmp-*")), "the kill came too late to prove anything"
    assert store.cached(TOOL) is None
    site.release.set()
    assert store.obtain("tool", "1.2.3").file("tool").read_bytes() == b"program" * 1000
    assert not list(store.root.rglob(".tmp-*"))


def test_current_names_what_was_asked_for_last(store: Store, site: Site) -> None:
    site.offer(PLAIN, b"program")
    found = store.obtain("tool", "1.2.3")
    assert (found.directory.parent / CURRENT).resolve() == found.directory


@pytest.mark.parametrize("damage", ["record", "file", "short"])
def test_a_damaged_artifact_is_made_again(store: Store, site: Site, damage: str) -> None:
    site.offer(PLAIN, b"program")
    found = store.obtain("tool", "1.2.3")
    if damage == "record":
        (found.directory / RECORD).write_text("{")
    elif damage == "file":
        found.file("tool").unlink()
    else:
        found.file("tool").write_bytes(b"prog")
    assert store.cached(TOOL) is None
    assert store.obtain("tool", "1.2.3").file("tool").read_bytes() == b"program"


def test_progress_says_how_long_it_takes_and_when_it_is_done(store: Store, site: Site) -> None:
    site.offer(PLAIN, b"program")
    events: list[Event] = []
    store.ensure([TOOL, TOOL], events.append)
    assert [event.phase for event in events] == [ArtifactPhase.RUNNING, ArtifactPhase.DONE]
    assert events[0].expected > 0
    store.obtain("tool", "1.2.3", events.append)
    assert events[-1].phase is ArtifactPhase.CACHED


def test_unknown_names_and_versions_are_bad_input(store: Store) -> None:
    with pytest.raises(BadInput, match="no artifact `nothing`"):
        store.obtain("nothing", "1")
    with pytest.raises(BadInput, match=r"tool has no version 9 \(known: 1\.2\.3\)"):
        store.obtain("tool", "9")
    with pytest.raises(BadInput, match="no artifact `image/nothing`"):
        store.obtain("image/nothing", "9")


@pytest.mark.parametrize(("answers", "kind"), [(True, Download), (False, Build)])
def test_auto_downloads_when_the_release_site_answers_and_builds_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: bool, kind: type
) -> None:
    monkeypatch.setattr(download, "reachable", lambda: answers)
    assert isinstance(Store(tmp_path, catalogue=load()).recipe(Ref("etcd", "3.6.8")), kind)


def test_auto_prefers_what_is_cached(store: Store, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.offer(PLAIN, b"program")
    store.obtain("tool", "1.2.3")
    monkeypatch.setattr(download, "reachable", lambda: pytest.fail("no site need be asked"))
    auto = Store(store.root, Source.AUTO, store.catalogue, store.bases)
    assert auto.obtain("tool", "1.2.3").source == "release"


def test_the_key_follows_the_recipe(tmp_path: Path) -> None:
    store = Store(tmp_path, Source.GOMOD, load())
    recipe = store.recipe(Ref("kubelet", "1.36.3"))
    assert isinstance(recipe, Build)
    changed = Build(recipe.ref, recipe.recipe.model_copy(update={"tags": ["other"]}))
    slower = Build(recipe.ref, recipe.recipe.model_copy(update={"seconds": 1.0}))
    assert changed.ingredients() != recipe.ingredients()
    assert slower.ingredients() == recipe.ingredients()


def test_binaries_are_stamped_with_their_version(tmp_path: Path) -> None:
    recipe = Store(tmp_path, Source.GOMOD, load()).recipe(Ref("kubeadm", "1.36.3"))
    assert isinstance(recipe, Build)
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        for stamp in ("gitVersion=v1.36.3", "gitMajor=1", "gitMinor=36", "gitTreeState=clean"):
            assert f"-X {package}.{stamp}" in recipe.ldflags()


def test_tests_are_compiled_and_c_is_linked_statically(tmp_path: Path) -> None:
    store = Store(tmp_path, Source.GOMOD, load())
    tests, runc = store.recipe(Ref("e2e.test", "1.36.3")), store.recipe(Ref("runc", "1.5.2"))
    assert isinstance(tests, Build)
    assert isinstance(runc, Build)
    assert command([tests], Path("o"))[1:3] == ["test", "-c"]
    assert "-extldflags -static" in runc.ldflags()
    assert "-tags=osusergo,netgo,seccomp" in command([runc], Path("o"))


def test_a_program_in_c_is_made_of_all_sources_in_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "tool" / "src"
    folder.mkdir(parents=True)
    for name in ("b.c", "a.c", "a.h"):
        (folder / name).touch()
    words = c_command(tmp_path, "tool/src", Path("/made/tool"))
    assert words[-4:] == ["-o", Path("/made/tool"), folder / "a.c", folder / "b.c"]
    assert "-static" in words


@pytest.fixture
def full_store(tmp_path: Path, small: Catalogue, monkeypatch: pytest.MonkeyPatch) -> Store:
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "go.mod").write_text("module none\n")
    monkeypatch.setattr(gomod, "module_dir", lambda _module, _version: tmp_path / "module")
    return Store(tmp_path / "cache", catalogue=small)


def put(full_store: Store, ref: Ref, key: str, *, whole: bool = True) -> Path:
    """Lay a folder of the cache, as making an artifact does."""
    version = full_store.root / ref.name / ref.version
    folder = version / key
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "tool").write_bytes(b"x" * 1000)
    lock = key if whole else key.removeprefix(".tmp-").rpartition("-")[0]
    (version / f".lock-{lock}").touch()
    if whole:
        facts = {"files": {"tool": {"size": 1000, "sha256": ""}}}
        (folder / RECORD).write_text(json.dumps(facts))
    return folder


def gone(full_store: Store) -> list[Path]:
    return [folder.directory for folder in stale_artifacts(full_store)]


def test_every_source_of_a_declared_version_is_kept(full_store: Store) -> None:
    for key in full_store.keys(TOOL):
        put(full_store, TOOL, key)
    assert {key.partition("-")[0] for key in full_store.keys(TOOL)} == {"gomod", "release"}
    assert gone(full_store) == []


def test_what_no_recipe_or_no_version_declares_goes_and_the_rest_stays(full_store: Store) -> None:
    kept = put(full_store, TOOL, sorted(full_store.keys(TOOL))[0])
    former = put(full_store, TOOL, "gomod-000000000000")
    dropped = put(full_store, Ref("image/deep/tool", "v9"), "image-000000000000")
    assert sorted(gone(full_store)) == sorted([dropped, former])
    assert all(remove_stale(folder) for folder in stale_artifacts(full_store))
    assert (kept.exists(), former.exists(), dropped.exists()) == (True, False, False)
    assert gone(full_store) == []


def test_what_a_mirror_may_be_serving_is_kept_until_something_newer_is(full_store: Store) -> None:
    served = put(full_store, TOOL, "gomod-000000000000")
    (served.parent / CURRENT).symlink_to(served.name)
    assert gone(full_store) == []
    (served.parent / CURRENT).unlink()
    (served.parent / CURRENT).symlink_to(sorted(full_store.keys(TOOL))[0])
    assert gone(full_store) == [served]


def test_a_version_that_nothing_declares_goes_though_it_is_the_current_one(full_store: Store) -> None:
    folder = put(full_store, Ref("tool", "0.0.1"), "gomod-000000000000")
    link = folder.parent / CURRENT
    link.symlink_to(folder.name)
    (found,) = stale_artifacts(full_store)
    assert remove_stale(found)
    assert not link.is_symlink()


def test_what_another_process_works_on_is_left(full_store: Store) -> None:
    work = put(full_store, TOOL, ".tmp-gomod-000000000000-4711", whole=False)
    (found,) = stale_artifacts(full_store)
    with (work.parent / ".lock-gomod-000000000000").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert gone(full_store) == []
        assert not remove_stale(found)
        assert work.exists()
    assert remove_stale(found)
    assert not list(work.parent.glob(".tmp-*"))
