"""Logs of a cell that exists: consoles and journals of its machines, and the output of the product's phases.

A thread reads each source; the reader gets the lines of all of them in the order in which they come. A machine that is
created later is read as well, and one that boots again goes on. Following ends with the cell.
"""

from __future__ import annotations

import queue
import re
import shlex
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from harness import proc, threads
from harness.cell.diagnose import CONSOLE
from harness.cell.existing import CellSelector, Existing, find
from harness.errors import VmatrixError
from harness.kube.client import Cluster, Json
from harness.machines.kubevirt.launchers import launcher_pod
from harness.machines.reach.ssh import DIES_WITH_US, run_on, ssh_command
from harness.rundir import AttemptDir
from harness.until import Deadline

CONSOLES, JOURNALS, PHASES = "console", "journal", "phases"
LOG_SOURCES = (PHASES, CONSOLES, JOURNALS)
FILES_LOOK_SECONDS = 0.3  # between looks at files: what a person takes for at once
CONTROL = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-_])|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class LogLine:
    """One line. source: what has written it, such as "cp-0 console" or "deploy"."""

    source: str
    text: str


Put = Callable[[LogLine], None]


class LogSource(Protocol):
    """What has lines. Both raise VmatrixError where it cannot be read, or no longer."""

    def last(self, put: Put) -> None:
        """Hand on the last lines that are there already."""

    def follow(self, put: Put) -> None:
        """Hand on lines as they come; called again when it ends, it goes on."""


@dataclass
class MachineConsole:
    """What a machine writes to its console, as the log of its launcher. tail: how many lines come first."""

    there: Existing
    machine: str
    tail: int
    _begun: str = ""  # the uid of the launcher whose log was read last

    def last(self, put: Put) -> None:
        """Hand on the last lines."""
        pod = self._launcher()
        if pod is not None:
            name = pod["metadata"]["name"]
            log = self.there.infra.cluster.pod_log(self.there.place.namespace, name, container=CONSOLE, tail=self.tail)
            self._hand_on(log.splitlines(), put)

    def follow(self, put: Put) -> None:
        """Hand on lines; of a launcher that comes later all, and none twice."""
        pod = self._launcher()
        if pod is None:
            return
        uid, name = str(pod["metadata"]["uid"]), pod["metadata"]["name"]
        tail = 0 if uid == self._begun else None if self._begun else self.tail
        cluster, namespace = self.there.infra.cluster, self.there.place.namespace
        lines = cluster.follow_pod_log(namespace, name, container=CONSOLE, tail=tail)
        for line in lines:
            self._begun = uid
            self._hand_on([line], put)

    def _launcher(self) -> Json | None:
        vmi = self.there.instances().get(self.machine)
        return launcher_pod(self.there.infra.cluster, self.there.place.namespace, vmi) if vmi is not None else None

    def _hand_on(self, lines: Iterable[str], put: Put) -> None:
        for line in lines:
            put(LogLine(f"{self.machine} {CONSOLES}", clean(line)))


@dataclass
class PhaseLogs:
    """What the product's phases print, from their files. tail: how many lines of the newest one come first."""

    files: AttemptDir
    tail: int
    stop: threading.Event
    _read: dict[str, int] = field(default_factory=dict)  # bytes, by stage

    def last(self, put: Put) -> None:
        """Hand on the last lines of the newest phase."""
        logs = self.files.stage_logs()
        for stage, file in logs.items():
            content = _whole_lines(file, 0)
            self._read[stage] = len(content)
            lines = content.decode("utf-8", "replace").splitlines()
            for line in lines[max(0, len(lines) - self.tail) :] if stage == [*logs][-1] else ():
                put(LogLine(stage, clean(line)))

    def follow(self, put: Put) -> None:
        """Hand on lines until nobody listens any more."""
        if not self._read:
            self.last(put)
        ended = False
        while not ended:
            ended = self.stop.wait(FILES_LOOK_SECONDS)
            for stage, file in self.files.stage_logs().items():
                content = _whole_lines(file, begin := self._read.get(stage, 0))
                self._read[stage] = begin + len(content)
                for line in content.decode("utf-8", "replace").splitlines():
                    put(LogLine(stage, clean(line)))


def _whole_lines(file: Path, begin: int) -> bytes:
    try:
        with file.open("rb") as handle:
            handle.seek(begin)
            content = handle.read()
    except FileNotFoundError:
        return b""
    return content[: content.rfind(b"\n") + 1]


def clean(line: str) -> str:
    """Return a line without what would move a terminal's cursor or colour it."""
    return CONTROL.sub("", line)


JOURNALCTL = ("sudo", "journalctl", "--no-pager", "--quiet", "--output", "short-unix")
READ_SECONDS = 60.0  # for the last lines of a journal, once


@dataclass
class Journal:
    """A machine's journal. tail: how many lines that are there already come first."""

    there: Existing
    machine: str
    tail: int
    _stamp: str = ""  # seconds since the epoch, of the last line
    _seen: set[str] = field(default_factory=set)  # the lines of that moment

    def last(self, put: Put) -> None:
        """Hand on the last lines."""
        words = shlex.join([*JOURNALCTL, "--lines", str(self.tail)])
        machine = self.there.machine(self.machine)
        done = run_on(machine, words, private_key=self._key(), timeout=READ_SECONDS)
        if done.returncode != 0:
            raise proc.CommandFailed(done, why=f"ended with status {done.returncode}")
        for line in done.stdout.splitlines():
            self._hand_on(line, put)

    def follow(self, put: Put) -> None:
        """Hand on lines until the connection ends; none twice."""
        if self.machine not in self.there.instances():
            return
        ssh = ssh_command(self.there.machine(self.machine), self._key())
        for line in proc.stream([*DIES_WITH_US, *ssh, shlex.join(self._command())]):
            self._hand_on(line, put)

    def _key(self) -> Path:
        return self.there.file(self.there.files.key, "the cell's private key")

    def _command(self) -> list[str]:
        since = ["--no-tail", "--since", f"@{self._stamp}"] if self._stamp else ["--lines", str(self.tail)]
        return [*JOURNALCTL, "--follow", *since]

    def _hand_on(self, line: str, put: Put) -> None:
        stamp, _, text = line.partition(" ")
        if stamp != self._stamp:
            self._stamp, self._seen = (stamp, set()) if _is_moment(stamp) else (self._stamp, self._seen)
        elif line in self._seen:
            return
        self._seen.add(line)
        shown = f"{_readable(stamp)} {text}" if _is_moment(stamp) else line
        put(LogLine(f"{self.machine} {JOURNALS}", clean(shown)))


def _is_moment(word: str) -> bool:
    return word.replace(".", "", 1).isdecimal()


def _readable(stamp: str) -> str:
    return datetime.fromtimestamp(float(stamp), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


CELL_LOOK_SECONDS = 2.0  # between looks whether the cell is still there, and which machines it has
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
    sources: dict[str, LogSource] = {}
    if PHASES in wish.sources and wish.machine is None:
        sources[PHASES] = PhaseLogs(there.files, wish.tail, stop)
    for machine in sorted(there.instances()):
        if wish.machine in (None, machine) and CONSOLES in wish.sources:
            sources[f"{machine} {CONSOLES}"] = MachineConsole(_patient(there), machine, wish.tail)
        if wish.machine in (None, machine) and JOURNALS in wish.sources:
            sources[f"{machine} {JOURNALS}"] = Journal(there, machine, wish.tail)
    return sources


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
    reasons = (getattr(error, "detail", "") or str(error)).strip().splitlines()
    return f"{name}: {reasons[-1] if reasons else error}"


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
                yield from self._until(Deadline.after(CELL_LOOK_SECONDS))
            yield from self._rest()
        finally:
            self._end()

    def _look(self) -> bool:
        """Have every source read; tell whether the cell is still there."""
        there = self.there
        cells = find(there.infra.cluster, CellSelector(run=there.run, cell=there.cell, namespace=there.infra.namespace))
        if not any(cell.attempt == there.number for cell in cells):
            return False
        for name, source in sources_of(there, self.wish, self._stop).items():
            if name not in self._readers:
                work = threading.Thread(target=self._read, args=(name, source), name=f"log of {name}", daemon=True)
                self._readers[name] = work
                work.start()
        return True

    def _read(self, name: str, source: LogSource) -> None:
        """Read a source, again whenever it ends, until nobody listens any more."""
        told, failures = "", 0
        with threads.stoppable(self._stop):
            while not self._stop.is_set():
                try:
                    source.follow(self._lines.put)
                    failures = 0
                except threads.NotWanted:
                    return
                except (VmatrixError, OSError) as error:
                    failures, why = failures + 1, _why(name, error)
                    if failures >= FAILURES and why != told:
                        self._lines.put(why)
                        told = why
                self._stop.wait(AGAIN_SECONDS)

    def _until(self, deadline: Deadline) -> Iterator[LogLine]:
        while deadline.remaining():
            try:
                line = self._lines.get(timeout=deadline.remaining())
            except queue.Empty:
                return
            if isinstance(line, LogLine):
                yield line
            else:
                self.note(line)

    def _rest(self) -> Iterator[LogLine]:
        """Yield what the sources have still said."""
        self._end()
        while not self._lines.empty():
            line = self._lines.get_nowait()
            if isinstance(line, LogLine):
                yield line

    def _end(self) -> None:
        """Let readers end: commands that they started are killed; a silent console's answer is left to the process."""
        self._stop.set()
        for name, reader in self._readers.items():
            if not name.endswith(CONSOLES):
                reader.join(DRAIN_SECONDS)
