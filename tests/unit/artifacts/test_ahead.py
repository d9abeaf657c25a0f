"""Making side by side: in the right order, in lanes, and all of it ended by the first failure or by Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness import proc
from harness.artifacts import ahead, gocache
from harness.artifacts.ahead import BuildStep, planned
from harness.artifacts.catalogue import Catalogue, load
from harness.artifacts.recipe import ArtifactPhase, Event, Ref, Source, silent
from harness.artifacts.store import Store
from harness.errors import InfraError
from harness.until import Deadline, NotYet, until
from tests.unit.artifacts.conftest import Site, archive

SOON = 60.0  # until what is certain to happen has happened, on a host that stands still for a while


@dataclass(frozen=True)
class Made:
    """A recipe that says when it begins, and writes one file when it may; or runs a command."""

    begun: threading.Event = field(default_factory=threading.Event)
    may: threading.Event = field(default_factory=threading.Event)
    command: tuple[str, ...] = ()
    error: str = ""
    source: str = "test"
    seconds: float = 1.0

    def ingredients(self) -> Mapping[str, Any]:
        return {"command": self.command}

    def make(self, target: Path, log: Path) -> Mapping[str, Any]:
        self.begun.set()
        if self.command:
            proc.run(self.command, timeout=SOON, log=log)
        assert self.may.wait(SOON)
        if self.error:
            raise InfraError(self.error)
        (target / "file").write_text("made")
        return {}


def work(name: str, recipe: Made, *needs: str) -> BuildStep:
    return BuildStep({Ref(name, "1"): recipe}, frozenset(Ref(need, "1") for need in needs))


def in_background(store: Store, works: list[BuildStep], count: int = 2) -> tuple[threading.Thread, list[BaseException]]:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            ahead.run(store, works, silent, count)
        except BaseException as error:  # noqa: BLE001 - looked at below
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, raised


def test_two_are_made_at_a_time_and_what_needs_them_after_that(tmp_path: Path) -> None:
    first, second, image = Made(), Made(), Made()
    works = [work("image", image, "first", "second"), work("first", first), work("second", second)]
    thread, raised = in_background(Store(tmp_path), works)
    assert first.begun.wait(SOON)
    assert second.begun.wait(SOON)
    second.may.set()
    assert not image.begun.wait(0.5), "it was begun before all that it needs was there"
    first.may.set()
    assert image.begun.wait(SOON)
    image.may.set()
    thread.join(SOON)
    assert not raised
    assert sorted(path.parts[-5] for path in tmp_path.glob("*/1/*/files/file")) == ["first", "image", "second"]


def test_one_lane_makes_one_after_the_other(tmp_path: Path) -> None:
    first, second = Made(), Made()
    thread, raised = in_background(Store(tmp_path), [work("first", first), work("second", second)], count=1)
    assert first.begun.wait(SOON)
    assert not second.begun.wait(0.5)
    first.may.set()
    second.may.set()
    thread.join(SOON)
    assert not raised
    assert second.begun.is_set()


def test_the_first_failure_ends_the_others_and_nothing_half_done_stays(tmp_path: Path) -> None:
    sleeps, fails = Made(command=("sleep", "3600")), Made(error="no luck")
    works = [work("sleeps", sleeps), work("fails", fails), work("never", Made(), "fails")]
    thread, raised = in_background(Store(tmp_path), works)
    assert sleeps.begun.wait(SOON)
    fails.may.set()
    thread.join(SOON)
    (error,) = raised
    assert str(error) == "no luck"
    until(lambda: _empty(tmp_path), deadline=Deadline.after(SOON), what="half-done folders are gone", interval=0.05)
    assert not list(tmp_path.glob("*/1/test-*"))


def _empty(root: Path) -> bool | NotYet:
    left = list(root.rglob(".tmp-*"))
    return NotYet(str(left)) if left else True


INTERRUPTED = """
import sys, threading
from pathlib import Path
from harness.artifacts import ahead, gocache
from harness.artifacts.recipe import silent
from harness.artifacts.store import Store
from tests.unit.artifacts.test_ahead import Made, work
mark = sys.argv[2]
say = ("sh", "-c", f"touch {mark}; exec sleep 3600")
ahead.run(Store(Path(sys.argv[1])), [work("a", Made(command=say)), work("b", Made())], silent, 2)
"""


def test_an_interrupt_ends_the_commands_of_all_lanes(tmp_path: Path) -> None:
    mark = tmp_path / "begun"
    argv = [sys.executable, "-c", "import signal; signal.signal(2, signal.default_int_handler)\n" + INTERRUPTED]
    service = proc.spawn(
        [*argv, str(tmp_path / "cache"), str(mark)],
        log=tmp_path / "log",
        env={"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    try:
        until(
            lambda: mark.exists() or NotYet((tmp_path / "log").read_text()),
            deadline=Deadline.after(SOON),
            what="it begins",
            interval=0.05,
        )
        os.kill(service.pid, signal.SIGINT)
        until(
            lambda: NotYet("runs") if service.alive() else True,
            deadline=Deadline.after(SOON),
            what="it ends",
            interval=0.05,
        )
        assert "KeyboardInterrupt" in (tmp_path / "log").read_text()
        assert not list((tmp_path / "cache").rglob(".tmp-a*"))
    finally:
        service.stop(grace=1.0)


def test_downloads_go_side_by_side(
    tmp_path: Path, small: Catalogue, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "lanes", lambda: 2)
    site.offer("/v1.2.3/tool", b"program" * 1000)
    site.offer("/pair-4.5.6.tgz", archive({"pair-4.5.6/bin/left": b"l", "pair-4.5.6/bin/right": b"r"}))
    site.held.add("/v1.2.3/tool")

    def progress(event: Event) -> None:
        if event.ref.name == "pair" and event.phase is ArtifactPhase.DONE:
            site.release.set()  # only now may the tool go on

    store = Store(tmp_path / "cache", Source.RELEASE, small, {"http://site": site.url})
    made = store.ensure([Ref("tool", "1.2.3"), Ref("pair", "4.5.6")], progress)
    assert site.release.is_set()
    assert made[Ref("tool", "1.2.3")].file("tool").read_bytes() == b"program" * 1000


def test_programs_of_one_module_are_one_build_and_its_tests_another(tmp_path: Path) -> None:
    store = Store(tmp_path, Source.GOMOD, load())
    wanted = [Ref(name, "1.36.3") for name in ("kubelet", "e2e.test", "kubeadm")] + [Ref("image/kube-proxy", "v1.36.3")]
    works = planned(store, wanted)
    names = [[ref.name for ref in one.recipes] for one in works]
    assert names[0] == ["e2e.test"]  # the longest first
    assert sorted(names[1:]) == [["image/kube-proxy"], ["kubelet", "kubeadm", "kube-proxy"]]
    (image,) = (one for one in works if Ref("image/kube-proxy", "v1.36.3") in one.recipes)
    assert image.needs == {Ref("kube-proxy", "1.36.3")}
    label = next(one.label for one in works if len(one.recipes) == 3)
    assert str(label) == "kubelet and 2 more@1.36.3"


def test_what_later_builds_need_as_well_is_expected_of_the_first_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store = Store(tmp_path / "artifacts", Source.GOMOD, load())
    wanted = [Ref(name, "1.36.3") for name in ("kubelet", "e2e.test")] + [Ref("runc", "1.5.2")]
    module = load().shared("kubernetes")
    assert module > 100
    assert [one.shared for one in planned(store, wanted)] == [ahead.LIBRARY_SECONDS + module, 0.0, 0.0]
    gocache.learned("runc-1.5.2")
    assert [one.shared for one in planned(store, wanted)] == [module, 0.0, 0.0]
    gocache.learned("kubernetes-1.36.3")
    assert [one.shared for one in planned(store, wanted)] == [0.0, 0.0, 0.0]
    gocache.trim(always=True)
    assert planned(store, wanted)[0].shared == ahead.LIBRARY_SECONDS + module


@pytest.mark.parametrize(("names", "works"), [(("kubelet", "kubeadm"), 1), (("kubelet",), 0)])
def test_programs_of_one_module_are_made_together_also_if_nothing_else_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], works: int
) -> None:
    begun: list[ahead.BuildStep] = []
    monkeypatch.setattr(ahead, "run", lambda _store, wanted, *_: begun.extend(wanted))
    ahead.make_missing(Store(tmp_path, Source.GOMOD, load()), [Ref(name, "1.36.3") for name in names], silent)
    assert [len(one.recipes) for one in begun] == [2] * works


@pytest.mark.parametrize(("processors", "mib", "count"), [(8, 24000, 2), (1, 24000, 1), (4, 4000, 1), (4, 1000, 1)])
def test_lanes_follow_processors_and_memory(
    monkeypatch: pytest.MonkeyPatch, processors: int, mib: int, count: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    monkeypatch.setattr(ahead, "memory_available_mib", lambda: mib)
    assert ahead.lanes() == count
