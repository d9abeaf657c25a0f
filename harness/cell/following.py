"""The logs of a cell that exists: its machines' consoles and journals, and what the product's phases print.

Each source is read by a thread of its own; whoever asks gets the lines of all of them in the order in which they come.
A machine that comes later is read as well, and one that boots again goes on. It ends with the cell.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from harness import stopping
from harness.cell.existing import Existing
from harness.cell.found import CellSelector, find
from harness.cell.journal import Journal
from harness.cell.log_sources import CONSOLES, JOURNALS, PHASES, LogLine, LogSource, MachineConsole, PhaseLogs
from harness.errors import VmatrixError
from harness.kube.client import Cluster
from harness.until import Deadline

LOOK_SECONDS = 2.0  # between looks whether the cell is still there, and which machines it has
AGAIN_SECONDS = 1.0  # until a source that ended is read again
FAILURES = 3  # of a source in a row, before a person is told: a machine that boots has none for a moment
DRAIN_SECONDS = 5.0  # for sources to come to their end once the cell is gone
PATIENCE_SECONDS = 60.0  # without an answer of the infra cluster
SILENCE_SECONDS = 3600.0  # of a console: a machine may have nothing to say; its connection is then made anew


@dataclass(frozen=True)
class LogWish:
    """What is read: of one machine or (None) of all, of these sources, with so many earlier lines of each."""

    machine: str | None
    sources: Collection[str]
    tail: int


def sources_of(there: Existing, wish: LogWish, stop: threading.Event) -> Mapping[str, LogSource]:
    """Return the sources of a cell as it is now, by name."""
    found: dict[str, LogSource] = {}
    if PHASES in wish.sources and wish.machine is None:
        found[PHASES] = PhaseLogs(there.files, wish.tail, stop)
    for machine in sorted(there.instances()):
        if wish.machine in (None, machine) and CONSOLES in wish.sources:
            found[f"{machine} {CONSOLES}"] = MachineConsole(_patient(there), machine, wish.tail)
        if wish.machine in (None, machine) and JOURNALS in wish.sources:
            found[f"{machine} {JOURNALS}"] = Journal(there, machine, wish.tail)
    return found


def _patient(there: Existing) -> Existing:
    """Return the cell by a client that bears long silences."""
    cluster = there.infra.cluster
    calm = Cluster(cluster.connection, replace(cluster.patience, watch_silence_seconds=SILENCE_SECONDS))
    return replace(there, infra=replace(there.infra, cluster=calm))


def last_lines(there: Existing, wish: LogWish, note: Callable[[str], None]) -> Iterator[LogLine]:
    """Yield the last lines of each source. note: told what cannot be read, and why."""
    for name, source in sources_of(there, wish, threading.Event()).items():
        lines: list[LogLine] = []
        try:
            source.last(lines.append)
        except (VmatrixError, OSError) as error:
            note(_why(name, error))
        yield from lines


def _why(name: str, error: Exception) -> str:
    said = (getattr(error, "detail", "") or str(error)).strip().splitlines()
    return f"{name}: {said[-1] if said else error}"


@dataclass
class Followed:
    """A cell whose logs are followed. note: told what cannot be read, and why."""

    there: Existing
    wish: LogWish
    note: Callable[[str], None]
    _lines: queue.Queue[LogLine | str] = field(default_factory=queue.Queue)  # a text is a note
    _stop: threading.Event = field(default_factory=threading.Event)
    _readers: dict[str, threading.Thread] = field(default_factory=dict)

    def lines(self) -> Iterator[LogLine]:
        """Yield lines until the cell is gone.

        Raises:
            VmatrixError: the infra cluster refused, or did not answer for PATIENCE_SECONDS.
        """
        answered = Deadline.after(PATIENCE_SECONDS)
        try:
            while True:
                try:
                    if not self._look():
                        break
                    answered = Deadline.after(PATIENCE_SECONDS)
                except VmatrixError as error:
                    if not error.passing or not answered.remaining():
                        raise
                yield from self._until(Deadline.after(LOOK_SECONDS))
            yield from self._rest()
        finally:
            self._end()

    def _look(self) -> bool:
        """Have every source read; tell whether the cell is still there."""
        there = self.there
        found = find(there.infra.cluster, CellSelector(run=there.run, cell=there.cell, namespace=there.infra.namespace))
        if not any(one.attempt == there.number for one in found):
            return False
        for name, source in sources_of(there, self.wish, self._stop).items():
            if name not in self._readers:
                work = threading.Thread(target=self._read, args=(name, source), name=f"log of {name}", daemon=True)
                self._readers[name] = work
                work.start()
        return True

    def _read(self, name: str, source: LogSource) -> None:
        """Read a source, again whenever it ends, until nobody listens any more."""
        said, failures = "", 0
        with stopping.stoppable(self._stop):
            while not self._stop.is_set():
                try:
                    source.follow(self._lines.put)
                    failures = 0
                except stopping.NotWanted:
                    return
                except (VmatrixError, OSError) as error:
                    failures, why = failures + 1, _why(name, error)
                    if failures >= FAILURES and why != said:
                        self._lines.put(why)
                        said = why
                self._stop.wait(AGAIN_SECONDS)

    def _until(self, deadline: Deadline) -> Iterator[LogLine]:
        while deadline.remaining():
            try:
                found = self._lines.get(timeout=deadline.remaining())
            except queue.Empty:
                return
            if isinstance(found, LogLine):
                yield found
            else:
                self.note(found)

    def _rest(self) -> Iterator[LogLine]:
        """Yield what the sources have still said."""
        self._end()
        while not self._lines.empty():
            found = self._lines.get_nowait()
            if isinstance(found, LogLine):
                yield found

    def _end(self) -> None:
        """Let readers end: commands that they started are killed; a silent console's answer is left to the process."""
        self._stop.set()
        for name, reader in self._readers.items():
            if not name.endswith(CONSOLES):
                reader.join(DRAIN_SECONDS)
