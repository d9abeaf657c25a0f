"""Parallel builds: make what is missing side by side, and forecast how long that takes.

Programs of one module are made by one build, and something else beside it: a build alone leaves a core idle for a
quarter of its time, while it downloads, while it links, and while the packages are compiled that all others wait
for.

What is to be done is counted in processor seconds, as the catalogue has them. How many of ours one of those is
shows from what is done already, before that from what this cache's builds took and from a piece of work that takes
a moment. How many seconds by the clock one of ours takes shows from how fast it goes. Time by the clock tells
little on a host that does other things as well. Linux says which thread started a process; where its kernel does
not (CONFIG_PROC_CHILDREN), there is no figure.
"""

from __future__ import annotations

import json
import os
import queue
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from harness import threads
from harness.artifacts import go_toolchain
from harness.artifacts.gomod import Build
from harness.artifacts.recipe import RECORD, ArtifactPhase, Event, Progress, Recipe, Ref, Source, Whole, inputs_of
from harness.pressure import memory_available_mib

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
TRIES = 3  # of the piece of work: the fastest counts
PIECE = 3 * 2**19  # bytes to compress: some hundredths of a second
REFERENCE_SECONDS = 0.027  # of one piece on the host of the catalogue's figures, with all of its processors at it
LEAST_SECONDS = 10.0  # what is shorter says little of a host
TRUST_SECONDS = 60.0  # of processor time done until what was thought before counts half
SETTLING_SECONDS = 5.0  # by the clock until how fast it goes counts half
BUSY = 0.9  # of all processors, as long as nothing was seen
COMPILERS = 2  # of ours for each processor, in two lanes: others get what is left
ENDING = 0.03  # of what was expected: never less is left of what has not ended
OVERDUE = 0.15  # of what was used: so much is left of what has used more than was expected
LANES = 2
LIBRARY_SECONDS = 25.0  # of the processors, for what is compiled of Go's own library
LANE_MIB = 3072  # what the linker of the largest program and the compilers beside it take


@dataclass(frozen=True)
class BuildStep:
    """What one thread does at a time: artifacts that are made together, by their recipes.

    shared: processor seconds for what later builds need as well, where this is the first of them.
    """

    recipes: Mapping[Ref, Recipe]
    needs: frozenset[Ref]
    shared: float = 0.0

    @property
    def seconds(self) -> float:
        """Return what it is expected to take."""
        return sum(recipe.seconds for recipe in self.recipes.values()) + self.shared

    @property
    def label(self) -> Ref:
        """Return what progress calls it: the artifact, or the first one and how many more."""
        first, *others = self.recipes
        return Ref(f"{first.name} and {len(others)} more", first.version) if others else first


def make_missing(store: Store, refs: Sequence[Ref], progress: Progress) -> None:
    """Make what is not cached of artifacts and of what they are made of; the longest first.

    Raises:
        VmatrixError: what the first one that failed says; the others are ended, and nothing half done stays.
    """
    works = planned(store, refs)
    if sum(len(work.recipes) for work in works) > 1:  # one alone is made where it is asked for
        run(store, works, progress, lanes())


def run(store: Store, works: Sequence[BuildStep], progress: Progress, count: int) -> None:
    """Do work in so many threads; raises as `make_missing` does."""
    _Lanes(store, works, progress).run(min(len(works), count))


def make_one(store: Store, ref: Ref, recipe: Recipe, progress: Progress) -> None:
    """Make one artifact; what it is made of is there. Raises as the store's `make_all`."""
    (work,) = _first_of_modules([BuildStep({ref: recipe}, frozenset())])
    store.make_all(work.recipes, work.label, work.seconds, forecast_of(store, [work]).telling(progress))


def forecast_of(store: Store, works: Sequence[BuildStep]) -> Forecast:
    """Return what tells how long work will take."""
    fetched = [any(recipe.source == Source.RELEASE for recipe in work.recipes.values()) for work in works]
    parts = [
        Piece(work.label, waits=work.seconds) if fetch else Piece(work.label, work.seconds)
        for work, fetch in zip(works, fetched, strict=True)
    ]
    little = sum(part.work for part in parts) < LEAST_SECONDS
    factor = 1.0 if little else host_factor(store.root)
    return Forecast(parts, factor, processors(), os.getloadavg()[0])


def planned(store: Store, refs: Sequence[Ref]) -> list[BuildStep]:
    """Return what is to be made, the longest first, each with what has to be there before it."""
    lacking = store.lacking(refs)
    groups: dict[object, dict[Ref, Recipe]] = {}
    for ref, recipe in lacking.items():
        groups.setdefault(recipe.alike if isinstance(recipe, Build) else ref, {})[ref] = recipe
    works = [BuildStep(group, frozenset(_needed(group) & lacking.keys())) for group in groups.values()]
    return sorted(_first_of_modules(works), key=lambda work: -work.seconds)


def _first_of_modules(works: Sequence[BuildStep]) -> Iterator[BuildStep]:
    """Yield work, the longest first; what is new to Go's cache is added to the first work that needs it."""
    known = go_toolchain.built_modules()
    for work in sorted(works, key=lambda work: -work.seconds):
        builds = {recipe.folder.name: recipe for recipe in work.recipes.values() if isinstance(recipe, Build)}
        library = LIBRARY_SECONDS if builds and not known else 0.0
        new = sum(build.shared for module, build in builds.items() if module not in known)
        known |= builds.keys()
        yield replace(work, shared=library + new)


def lanes() -> int:
    """Return how many things are made at a time: by processors, and by memory."""
    return max(1, min(LANES, os.cpu_count() or 1, memory_available_mib() // LANE_MIB))


def _needed(recipes: Mapping[Ref, Recipe]) -> set[Ref]:
    return {ref for recipe in recipes.values() for ref in inputs_of(recipe)}


class _Lanes:
    """Threads that take the longest work of which everything is there that it needs."""

    def __init__(self, store: Store, works: Sequence[BuildStep], progress: Progress) -> None:
        self._forecast = forecast_of(store, works)
        self._store, self._progress = store, self._forecast.telling(progress)
        self._left = list(works)
        self._missing = {ref for work in works for ref in work.recipes}
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def run(self, count: int) -> None:
        """Do all of it in so many threads; whatever ends it early ends them all."""
        lanes = [threading.Thread(target=self._work, name=f"lane {number}", daemon=True) for number in range(count)]
        for thread in lanes:
            thread.start()
        try:
            for _ in lanes:
                if (error := self._ended.get()) is not None:
                    raise error
        finally:
            self._stop.set()
            with self._changed:
                self._changed.notify_all()
            for thread in lanes:
                thread.join(threads.END_SECONDS)

    def _work(self) -> None:
        try:
            with threads.stoppable(self._stop):
                for work in self._taken():
                    self._store.make_all(work.recipes, work.label, work.seconds, self._progress)
                    self._is_made(work)
        except threads.NotWanted:
            return
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self._ended.put(error)
        else:
            self._ended.put(None)

    def _taken(self) -> Iterator[BuildStep]:
        """Yield work as it can be done, until there is none."""
        while True:
            with self._changed:
                while (part := self._next()) is None and self._left:
                    self._changed.wait()
                    threads.check()
                if part is None:
                    return
                self._left.remove(part)
            yield part

    def _next(self) -> BuildStep | None:
        return next((work for work in self._left if not work.needs & self._missing), None)

    def _is_made(self, work: BuildStep) -> None:
        self._forecast.over(work.label)
        with self._changed:
            self._missing -= work.recipes.keys()
            self._changed.notify_all()


@dataclass
class Meter:
    """The processor time of one thread's work, from now on; looked at by any thread, now and then.

    What a process used that has ended counts as when it was looked at last. Those that run already do not count.
    """

    thread: int = field(default_factory=threading.get_native_id)
    _ended: float = 0.0
    _seen: dict[int, float] = field(default_factory=dict)
    _most: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        task = PROC / "self" / "task" / str(self.thread)
        self._before, self._others = _used(task, children=False), frozenset(_children(task))

    def look(self) -> float | None:
        """Return the seconds so far, None where the kernel does not tell which thread started what."""
        task = PROC / "self" / "task" / str(self.thread)
        if not (task / "children").exists():
            return self._most or None
        with self._lock:
            now = {pid: _process_seconds(pid) for pid in _children(task) if pid not in self._others}
            self._ended += sum(seconds for pid, seconds in self._seen.items() if pid not in now)
            self._seen = now
            own = _used(task, children=False) - self._before
            self._most = max(self._most, self._ended + sum(now.values()) + own)
            return self._most


def host_speed() -> float:
    """Return how many times as long a fixed piece of work takes here as on the host of the catalogue's figures.

    All processors do it at once, as in a build: two may share a core.
    """
    data = b"".join(zlib.crc32(number.to_bytes(4, "big")).to_bytes(4, "big") * 2 for number in range(PIECE // 8))
    taken: list[float] = []

    def work() -> None:
        for _ in range(TRIES):
            began = time.thread_time()
            zlib.compress(data, 6)
            taken.append(time.thread_time() - began)

    lanes = [threading.Thread(target=work, name=f"speed {number}") for number in range(processors())]
    for thread in lanes:
        thread.start()
    for thread in lanes:
        thread.join()
    return min(taken) / REFERENCE_SECONDS


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


def _process_seconds(pid: int) -> float:
    """Return the processor time of a process, of its children that have ended, and of those that it has."""
    home = PROC / str(pid)
    try:
        tasks = sorted((home / "task").iterdir())
    except OSError:
        return 0.0
    return _used(home, children=True) + sum(_process_seconds(child) for task in tasks for child in _children(task))


def _children(task: Path) -> Iterator[int]:
    """Yield the processes that a thread has started."""
    try:
        yield from map(int, (task / "children").read_text(encoding="ascii").split())
    except OSError:  # it has ended
        return


def _used(home: Path, *, children: bool) -> float:
    """Return the processor time of a process or thread, with that of children that it has waited for."""
    try:
        fields = (home / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15] if children else fields[11:13])) / TICKS


@dataclass
class Piece:
    """One piece of work.

    label: what progress calls it.  work: the processor seconds that are expected, on the host of the catalogue's
    figures.  waits: seconds that a download is expected to take, which needs next to no processor.
    """

    label: Ref
    work: float = 0.0
    waits: float = 0.0
    elapsed: float = 0.0
    used: float = 0.0
    begun: bool = False
    over: bool = False


@dataclass
class Forecast:
    """All pieces of work that are done now.

    factor: our processor seconds for one of the catalogue's, as far as is known.  load: how many programs of others
    want a processor when it begins.
    """

    parts: Sequence[Piece]
    factor: float
    processors: int
    load: float = 0.0
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._by_label = {part.label: part for part in self.parts}
        self._began = self.clock()

    def telling(self, progress: Progress) -> Progress:
        """Return what passes events on, each with where everything stands."""

        def tell(event: Event) -> None:
            with self._lock:
                self._note(event)
                whole = self._whole()
            progress(replace(event, whole=whole))

        return tell

    def over(self, label: Ref) -> None:
        """Note that a piece of work is done, by us or by another process."""
        with self._lock:
            self._by_label[label].over = True

    def _note(self, event: Event) -> None:
        part = self._by_label.get(event.ref)
        if part is None or event.phase is ArtifactPhase.CACHED:
            return
        passed = event.elapsed - part.elapsed
        part.begun, part.elapsed = True, event.elapsed
        if event.used is not None:
            part.used = max(part.used, event.used)
        elif part.work:  # nobody knows: its share of the processors
            part.used += passed * self.processors * BUSY / max(1, len(self._under_way()))
        part.over = part.over or event.phase is ArtifactPhase.DONE

    def _whole(self) -> Whole:
        elapsed = self.clock() - self._began
        running = self._under_way()
        names = tuple(part.label for part in running)
        return Whole(elapsed, elapsed + self._left(elapsed), names, tuple(self._by_label))

    def _under_way(self) -> list[Piece]:
        return [part for part in self.parts if part.begun and not part.over]

    def _left(self, elapsed: float) -> float:
        factor = self._factor()
        rest = waits = 0.0
        for part in self.parts:
            if not part.over:
                remaining = part.work * factor
                more = OVERDUE * part.used if part.used > remaining else 0.0
                rest += max(remaining - part.used, ENDING * remaining, more if remaining else 0.0)
                waits += max(part.waits - part.elapsed, ENDING * part.waits)
        return max(rest / self._pace(elapsed), waits)

    def _factor(self) -> float:
        """Return how many processor seconds one of the catalogue's takes, by what is done."""
        done = [part for part in self.parts if part.over and part.used]  # another process's have none
        work, used = sum(part.work for part in done), sum(part.used for part in done)
        return (self.factor * TRUST_SECONDS + used) / (TRUST_SECONDS + work)

    def _pace(self, elapsed: float) -> float:
        """Return how many processor seconds are done in a second, by what was seen."""
        used, ours = sum(part.used for part in self.parts), COMPILERS * self.processors
        thought = BUSY * self.processors * min(1.0, ours / (ours + self.load))
        return (thought * SETTLING_SECONDS + used) / (SETTLING_SECONDS + elapsed)


def host_factor(cache: Path) -> float:
    """Return our processor seconds for one of the catalogue's: what a cache's builds took and a measurement say."""
    factors = {label: used / expected for label, expected, used in _measured(cache) if expected >= LEAST_SECONDS}
    return median([*factors.values(), host_speed()])


def _measured(cache: Path) -> Iterator[tuple[str, float, float]]:
    """Yield what was built, under the name of what was built together, and what was expected of it and what it took."""
    for file in cache.glob(f"*/*/{Source.GOMOD}-*/{RECORD}"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            facts = json.loads(file.read_text(encoding="utf-8"))["processor"]
            yield str(facts["of"]), float(facts["expected"]), float(facts["used"])


if TYPE_CHECKING:
    from harness.artifacts.store import Store
