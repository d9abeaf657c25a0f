"""Builds side by side, forecasts of how long they take, and the processor time that they used."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness import proc
from harness.artifacts import builds, go_toolchain
from harness.artifacts.builds import BuildStep, Forecast, Meter, Piece, host_factor, planned
from harness.artifacts.catalogue import Catalogue, load
from harness.artifacts.recipe import RECORD, ArtifactPhase, Event, Ref, Source, Whole, silent
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
            builds.run(store, works, silent, count)
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
from harness.artifacts import builds, go_toolchain
from harness.artifacts.recipe import silent
from harness.artifacts.store import Store
from tests.unit.artifacts.test_builds import Made, work
mark = sys.argv[2]
say = ("sh", "-c", f"touch {mark}; exec sleep 3600")
builds.run(Store(Path(sys.argv[1])), [work("a", Made(command=say)), work("b", Made())], silent, 2)
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
    monkeypatch.setattr(builds, "lanes", lambda: 2)
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
    assert [one.shared for one in planned(store, wanted)] == [builds.LIBRARY_SECONDS + module, 0.0, 0.0]
    go_toolchain.note_built("runc-1.5.2")
    assert [one.shared for one in planned(store, wanted)] == [module, 0.0, 0.0]
    go_toolchain.note_built("kubernetes-1.36.3")
    assert [one.shared for one in planned(store, wanted)] == [0.0, 0.0, 0.0]
    go_toolchain.trim_caches(always=True)
    assert planned(store, wanted)[0].shared == builds.LIBRARY_SECONDS + module


@pytest.mark.parametrize(("names", "works"), [(("kubelet", "kubeadm"), 1), (("kubelet",), 0)])
def test_programs_of_one_module_are_made_together_also_if_nothing_else_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], works: int
) -> None:
    begun: list[builds.BuildStep] = []
    monkeypatch.setattr(builds, "run", lambda _store, wanted, *_: begun.extend(wanted))
    builds.make_missing(Store(tmp_path, Source.GOMOD, load()), [Ref(name, "1.36.3") for name in names], silent)
    assert [len(one.recipes) for one in begun] == [2] * works


@pytest.mark.parametrize(("processors", "mib", "count"), [(8, 24000, 2), (1, 24000, 1), (4, 4000, 1), (4, 1000, 1)])
def test_lanes_follow_processors_and_memory(
    monkeypatch: pytest.MonkeyPatch, processors: int, mib: int, count: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    monkeypatch.setattr(builds, "memory_available_mib", lambda: mib)
    assert builds.lanes() == count


# processor seconds as in the catalogue, the longest first: of what a first `make demo` builds
WORKS = {"kube-apiserver": 590.0, "flannel": 160.0, "coredns": 95.0, "etcd": 72.0, "registry": 65.0, "crane": 17.0}
FIFTH = 0.2
LANES = 2


@dataclass
class World:
    """A host on which work goes on in two lanes, without any real time.

    slow: processor seconds that one of the catalogue's takes.  share: of two processors.  wrong: of each work.
    """

    slow: float = 1.0
    share: float = 0.95
    wrong: dict[str, float] = field(default_factory=dict)
    told: bool = True
    now: float = 0.0
    seen: list[Whole] = field(default_factory=list)

    def run(self, factor: float) -> list[Whole]:
        """Do all work; return what was said each second."""
        pieces = [Piece(Ref(name, "1"), work) for name, work in WORKS.items()]
        forecast = Forecast(pieces, factor, 2, clock=lambda: self.now)
        tell = forecast.telling(lambda event: self.seen.append(event.whole) if event.whole is not None else None)
        left = {name: work * self.slow * self.wrong.get(name, 1.0) for name, work in WORKS.items()}
        whole, began, waiting, running = dict(left), dict[str, float](), list(left), list[str]()
        while waiting or running:
            while waiting and len(running) < LANES:
                running.append(waiting.pop(0))
                began[running[-1]] = self.now
            self.now += 1.0
            for name in list(running):
                left[name] -= 2 * self.share / len(running)
                over = left[name] <= 0
                used = whole[name] - max(0.0, left[name]) if self.told else None
                phase = ArtifactPhase.DONE if over else ArtifactPhase.RUNNING
                tell(Event(Ref(name, "1"), phase, "gomod", self.now - began[name], 0.0, used))
                if over:
                    forecast.over(Ref(name, "1"))
                    running.remove(name)
        return self.seen

    def worst(self, after: float) -> float:
        """Return how far the estimates were from the end, as a part of it, from some part of the time on."""
        return max(
            abs(whole.expected - self.now) / self.now for whole in self.seen if whole.elapsed >= after * self.now
        )


def test_on_the_host_of_the_figures_all_estimates_are_right() -> None:
    world = World()
    world.run(1.0)
    assert world.worst(0.02) < 0.1


@pytest.mark.parametrize("slow", [0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("share", [0.95, 0.5, 0.25])
def test_a_host_that_is_slow_or_busy_is_known_after_a_tenth_of_the_time(slow: float, share: float) -> None:
    world = World(slow, share)
    world.run(slow * 1.15)  # what was measured beforehand is not quite right
    assert world.worst(0.1) < FIFTH


@pytest.mark.parametrize("seed", range(20))
def test_figures_that_are_wrong_here_and_there_do_little_harm(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a draw that is the same each time
    world = World(1.4, 0.8, {name: chance.uniform(0.85, 1.18) for name in WORKS})
    world.run(1.4)
    assert world.worst(0.15) < FIFTH


def test_a_host_that_is_nothing_like_what_was_thought_is_known_when_the_first_work_is_done() -> None:
    world = World(2.5)
    world.run(1.0)
    assert world.seen[0].expected < 0.5 * world.now  # by what was thought
    assert world.worst(0.5) < FIFTH


def test_where_nobody_knows_processor_time_the_clock_has_to_do() -> None:
    world = World(told=False)
    world.run(1.0)
    assert world.worst(0.3) < FIFTH


def test_an_estimate_is_never_less_than_what_has_gone_by() -> None:
    world = World(4.0, 0.3)
    for whole in world.run(0.5):
        assert whole.expected >= whole.elapsed


def test_what_is_under_way_and_all_of_it_is_named() -> None:
    world = World()
    first, *_, last = world.run(1.0)
    assert first.under_way == (Ref("kube-apiserver", "1"),)
    assert world.seen[1].under_way == (Ref("kube-apiserver", "1"), Ref("flannel", "1"))
    assert first.parts == tuple(Ref(name, "1") for name in WORKS)
    assert last.under_way == ()


def test_a_download_takes_its_time_and_no_processor() -> None:
    now = 0.0
    said: list[Whole] = []
    forecast = Forecast([Piece(Ref("runc", "1"), waits=30.0)], 1.0, 2, clock=lambda: now)
    tell = forecast.telling(lambda event: said.append(event.whole) if event.whole is not None else None)
    for now in (0.0, 10.0, 20.0):
        tell(Event(Ref("runc", "1"), ArtifactPhase.RUNNING, "release", now, 30.0, 0.1))
    assert [whole.expected for whole in said] == pytest.approx([30.0, 30.0, 30.0], rel=0.05)


def test_what_another_process_made_says_nothing_of_this_host() -> None:
    forecast = Forecast([Piece(Ref("a", "1"), 100.0), Piece(Ref("b", "1"), 100.0)], 1.0, 2, clock=lambda: 0.0)
    said: list[Whole] = []
    forecast.over(Ref("a", "1"))
    tell = forecast.telling(lambda event: said.append(event.whole) if event.whole is not None else None)
    tell(Event(Ref("b", "1"), ArtifactPhase.RUNNING, "gomod", 0.0, 100.0, 0.0))
    assert said[0].expected == pytest.approx(100.0 / 1.8)


def test_what_others_do_when_it_begins_is_in_the_first_estimate() -> None:
    said: list[Whole] = []
    forecast = Forecast([Piece(Ref("a", "1"), 90.0)], 1.0, 2, load=12.0, clock=lambda: 0.0)
    tell = forecast.telling(lambda event: said.append(event.whole) if event.whole is not None else None)
    tell(Event(Ref("a", "1"), ArtifactPhase.RUNNING, "gomod", 0.0, 90.0, 0.0))
    assert said[0].expected == pytest.approx(50.0 * 4)  # alone it would take 50 s


def test_what_takes_more_than_was_expected_takes_a_while_yet() -> None:
    now = 0.0
    said: list[Whole] = []
    forecast = Forecast([Piece(Ref("a", "1"), 20.0)], 1.0, 2, clock=lambda: now)
    tell = forecast.telling(lambda event: said.append(event.whole) if event.whole is not None else None)
    for now in (10.0, 100.0):
        tell(Event(Ref("a", "1"), ArtifactPhase.RUNNING, "gomod", now, 20.0, now))
    assert said[0].expected == pytest.approx(17.9, abs=0.2)
    assert said[1].expected > 110.0


def record(cache: Path, name: str, **processor: object) -> None:
    folder = cache / name / "1" / "gomod-0123456789ab"
    folder.mkdir(parents=True)
    (folder / RECORD).write_text(json.dumps({"name": name, **({"processor": processor} if processor else {})}))


def test_the_cache_tells_how_fast_this_host_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builds, "host_speed", lambda: 1.4)
    assert host_factor(tmp_path) == 1.4
    record(tmp_path, "old")
    record(tmp_path, "odd", of="odd", expected="?", used=1)
    record(tmp_path, "little", of="little@1", expected=2.0, used=20.0)
    assert host_factor(tmp_path) == 1.4
    record(tmp_path, "one", of="one and 1 more@1", expected=100.0, used=150.0)
    record(tmp_path, "two", of="one and 1 more@1", expected=100.0, used=150.0)
    record(tmp_path, "three", of="three@1", expected=50.0, used=60.0)
    record(tmp_path, "four", of="four@1", expected=20.0, used=200.0)
    assert host_factor(tmp_path) == pytest.approx(1.45)  # between the measurement and the nearest record


BURN = "import time\nwhile time.process_time() < {seconds}: pass\n{then}"


@contextmanager
def burning(seconds: float, then: str = "") -> Iterator[subprocess.Popen[str]]:
    """Run a process that uses so many processor seconds, says so, and does something else."""
    code = BURN.format(seconds=seconds, then=f"print('used', flush=True)\n{then}")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "used\n"
            yield child
        finally:
            child.kill()


def used(watched: Meter) -> float:
    seconds = watched.look()
    assert seconds is not None
    return seconds


def test_what_a_thread_does_itself_counts() -> None:
    watched, began = Meter(), time.thread_time()
    while time.thread_time() - began < 0.2:
        pass
    assert 0.15 <= used(watched) <= time.thread_time() - began + 0.05


def test_a_process_counts_while_it_runs_and_after_it_has_ended() -> None:
    watched = Meter()
    with burning(0.3, "input()"):
        running = used(watched)
    assert running >= 0.28
    assert running <= used(watched) <= running + 0.5


def test_processes_of_processes_count() -> None:
    watched = Meter()
    inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN.format(seconds=0.3, then='')!r}])"
    with burning(0.0, f"{inner}\nprint('again', flush=True)\ninput()") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "again\n"
        assert used(watched) >= 0.28


def test_what_another_thread_started_does_not_count() -> None:
    watched, go, done = Meter(), threading.Event(), threading.Event()

    def work() -> None:
        with burning(0.4, "input()"):
            go.set()
            done.wait(SOON)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert go.wait(SOON)
        assert used(watched) < 0.3
    finally:
        done.set()
        thread.join()


def test_a_service_that_the_thread_started_before_does_not_count() -> None:
    with burning(0.3, "while time.process_time() < 0.6: pass\nprint('again', flush=True)\ninput()") as child:
        watched = Meter()
        assert child.stdout is not None
        assert child.stdout.readline() == "again\n"
        assert used(watched) < 0.2


def test_another_thread_may_look_and_nothing_counts_twice() -> None:
    watched, seen = Meter(), list[float]()

    def look() -> float | NotYet:
        seen.append(used(watched))
        return seen[-1] if len(seen) >= 50 else NotYet("not often enough")

    thread = threading.Thread(target=lambda: until(look, deadline=Deadline.after(SOON), what="looks", interval=0.01))
    thread.start()
    for _ in range(10):
        with burning(0.05):
            used(watched)
    thread.join()
    assert seen == sorted(seen)
    assert 0.39 <= used(watched) <= 10 * 0.5  # it is counted in hundredths


def test_without_the_kernels_word_there_is_no_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(builds, "PROC", tmp_path)
    assert Meter().look() is None


def test_the_speed_of_this_host_is_a_moderate_number() -> None:
    assert 0.1 < builds.host_speed() < 20
