"""Estimates of work under way: right to a fifth from early on, on slow, fast and busy hosts."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.artifacts import meter
from harness.artifacts.forecast import Forecast, Piece, host_factor
from harness.artifacts.recipe import RECORD, ArtifactPhase, Event, Ref, Whole

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
    monkeypatch.setattr(meter, "speed", lambda: 1.4)
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
