"""Making what is missing, side by side: programs of one module by one build, and something else beside it.

A build alone leaves a core idle for a quarter of its time: while it downloads, while it links, and while the packages
are compiled that all others wait for.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness import stopping
from harness.artifacts import gocache
from harness.artifacts.forecast import LEAST_SECONDS, Forecast, Piece, host_factor
from harness.artifacts.gomod import Build
from harness.artifacts.meter import processors
from harness.artifacts.recipe import Progress, Recipe, Ref, Source, inputs_of
from harness.memory import memory_available_mib

if TYPE_CHECKING:
    from harness.artifacts.store import Store

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
    known = gocache.modules()
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
        threads = [threading.Thread(target=self._work, name=f"lane {number}", daemon=True) for number in range(count)]
        for thread in threads:
            thread.start()
        try:
            for _ in threads:
                if (error := self._ended.get()) is not None:
                    raise error
        finally:
            self._stop.set()
            with self._changed:
                self._changed.notify_all()
            for thread in threads:
                thread.join(stopping.END_SECONDS)

    def _work(self) -> None:
        try:
            with stopping.stoppable(self._stop):
                for work in self._taken():
                    self._store.make_all(work.recipes, work.label, work.seconds, self._progress)
                    self._is_made(work)
        except stopping.NotWanted:
            return
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self._ended.put(error)
        else:
            self._ended.put(None)

    def _taken(self) -> Iterator[BuildStep]:
        """Yield work as it can be done, until there is none."""
        while True:
            with self._changed:
                while (found := self._next()) is None and self._left:
                    self._changed.wait()
                    stopping.check()
                if found is None:
                    return
                self._left.remove(found)
            yield found

    def _next(self) -> BuildStep | None:
        return next((work for work in self._left if not work.needs & self._missing), None)

    def _is_made(self, work: BuildStep) -> None:
        self._forecast.over(work.label)
        with self._changed:
            self._missing -= work.recipes.keys()
            self._changed.notify_all()
