"""What happened, written down as it happens: one JSON line per event in `results.jsonl` of a run's directory.

Every writer appends whole lines with O_APPEND, so several processes may write to one file.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from harness import system
from harness.check_result import Finding
from harness.files import MIB, move_aside, read_bytes
from harness.model import Outcome
from harness.rundir import RunDir
from harness.sanitize import sanitized, sanitized_data

Event = dict[str, Any]
OPENINGS = 5  # of the results file, while others put something else into its place
IN_THE_WAY = (errno.EISDIR, errno.ELOOP, errno.ENXIO)  # of a folder, a link, a FIFO that nobody reads
LARGEST = 512 * MIB  # a run of 200 cells writes some 20 MiB
NEEDED = {
    "step-start": ("cell", "attempt", "step"),
    "step-end": ("cell", "attempt", "step"),
    "check": ("cell", "name", "suite", "outcome", "seconds"),
    "admitted": ("cell",),
    "kept": ("cell",),
    "progress": ("cell", "said"),
    "infra": ("said",),
    "usage": ("cell", "attempt", "took"),
    "placed": ("cell", "attempt", "around"),
    "left-out": ("cell",),
    "run-end": ("exit_code",),
    "signal": ("number",),
    "product": ("said",),
    "own-checks-broken": ("summary",),
    "follow-up": ("cells", "no_further"),
    "culprit": ("cell", "suspect", "checks"),
    "symptoms": ("sightings", "given_up"),
}


# Bounds of what events and records hold: far above what there can be, and so low that sums and clocks do not fail.
MOST_SECONDS = 1e9
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False)]
Number = Annotated[int, Field(ge=0, le=10**9)]
LONGEST_CELL, LONGEST_RUN = 100, 60  # characters of an id
CellId = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_CELL)]
CLOCK_SET = datetime(2020, 1, 1, tzinfo=UTC)  # no run is older: a clock that says less was not set yet
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Recorded:
    """What a results file holds: events, oldest first, and the numbers of the lines that are none."""

    events: tuple[Event, ...]
    foreign: tuple[int, ...] = ()


def recorded(run_dir: Path) -> Recorded:
    """Return all events of a run; a torn last line (a killed writer) is left out and not counted.

    Raises:
        BadInput: there is something else than a regular file, or a far larger one than a run writes.
    """
    path = RunDir(run_dir).results
    if not path.exists():
        return Recorded(())
    lines = read_bytes(path, largest=LARGEST).split(b"\n")
    found = [(number, event_of(line)) for number, line in enumerate(lines, 1) if line.strip()]
    return Recorded(
        tuple(event for _, event in found if event is not None),
        tuple(number for number, event in found if event is None and number < len(lines)),
    )


def event_of(line: bytes) -> Event | None:
    """Return the event in a line, its texts sanitized; None where it is not an event of a run."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return sanitized_data(content) if isinstance(content, dict) and _is_event(content) else None


def _is_event(content: Mapping[str, Any]) -> bool:
    if any(name not in content for name in NEEDED.get(str(content.get("event")), ())):
        return False
    try:
        Fields.model_validate(content)
    except ValidationError:
        return False
    return True


def moment(text: str) -> datetime:
    """Return an RFC 3339 moment with its zone.

    Raises:
        ValueError: it is not one, or so far from the present that no clock is so wrong: sums with it would fail.
    """
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("has no time zone")
    if not EARLIEST <= found < LATEST:
        raise ValueError(f"is not in the years from {EARLIEST.year} to {LATEST.year - 1}")
    return found


def _moment(text: str) -> str:
    moment(text)
    return text


def _outcome(text: str) -> str:
    return Outcome(text).value


def _finding(fields: dict[str, Any]) -> dict[str, Any]:
    try:
        Finding.of(fields)
    except (KeyError, TypeError) as error:
        raise ValueError(f"is not a finding: {error}") from error
    return fields


class Open(BaseModel):
    """Fields of an event, of these types and no others; those that it does not name are of a later version."""

    model_config = ConfigDict(extra="ignore", strict=True, defer_build=True)


class Took(Open):
    """What a machine took, in MiB (harness/history/record.py, MachineRecord)."""

    memory: Number = 0
    asked: Number = 0
    deployed: Number = 0
    peak: Number = 0
    clone: Number = 0
    disk: Number = 0


class Seen(Open):
    """What `harness.report.results.Sighting` has."""

    cell: str
    name: str
    count: Number
    line: str
    file: str
    means: str


class Properties(Open):
    """What a check noted; its own names are its own matter."""

    not_judged: list[Any] = []


class Fields(Open):
    """The fields of all kinds of events. Which of them a kind has: NEEDED, and who writes it."""

    time: Annotated[str, AfterValidator(_moment)]
    event: str
    cell: CellId = "-"
    run: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_RUN)] = "-"
    name: str = ""
    suite: str = ""
    stage: str = ""
    said: str = ""
    summary: str = ""
    hint: str = ""
    detail: str = ""
    blame: str = ""
    worker: str = ""
    source: str = ""
    command: str = ""
    cleanup: str = ""
    infra: str = ""
    provider: str = ""
    logs: str = ""
    claim: str = ""
    look: str = ""
    error: str = ""
    commit: str = ""
    title: str = ""
    author: str = ""
    date: str = ""
    unknown: str = ""
    night: str = ""
    tier: str | None = None
    attempt: Number = 1
    number: Number = 0
    parallel: Number = 1
    pid: Number = 0
    signal: Number = 0
    exit_code: Number = 0
    seconds: Seconds = 0.0
    expected: Seconds = 0.0
    outcome: Annotated[str, AfterValidator(_outcome)] = Outcome.PASSED.value
    step: Annotated[list[str], Field(min_length=1)] = ["-"]
    cells: list[CellId] = []
    paths: list[str] = []
    checks: list[str] = []
    owners: list[str] = []
    no_further: list[str] = []
    given_up: list[str] = []
    together: list[list[str]] = []
    suspect: dict[str, str] = {}
    around: dict[str, str] = {}
    values: dict[str, dict[str, str]] = {}
    not_run: dict[str, Number] = {}
    where: dict[str, Any] = {}
    took: dict[str, Took] = {}
    properties: Properties = Properties()
    findings: list[Annotated[dict[str, Any], AfterValidator(_finding)]] = []
    sightings: list[Seen] = []


def in_sequence(events: Sequence[Event]) -> list[Event]:
    """Return events with the times of those moved whose writer's clock was not set yet, as before NTP's first answer.

    They end where the next event in the file begins, and behind all others begin where these end: so their order and
    the time between them stay. Such an event has `moved`. Where no clock was ever set, all stay as they are.
    """
    times = [moment(event["time"]) for event in events]
    blocks = [(unset, [*block]) for unset, block in groupby(range(len(times)), lambda n: times[n] < CLOCK_SET)]
    if len(blocks) < 2:
        return [*events]
    found: list[Event] = []
    for unset, block in blocks:
        first, last = block[0], block[-1]
        by = times[last + 1] - times[last] if last + 1 < len(times) else times[first - 1] - times[first]
        moved = [{**events[n], "time": (times[n] + by).isoformat(), "moved": True} for n in block] if unset else []
        found += moved or [events[n] for n in block]
    return found


def now() -> str:
    """Return the present moment as RFC 3339 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Recorder:
    """Appends events of one run to its results file."""

    run_dir: Path

    def write(self, event: str, **fields: Any) -> None:
        """Append one event, its texts sanitized. Field values must be JSON; never pass a secret.

        What is not a regular file and has come into the results' place is moved aside: a check may have put it there.
        """
        told = sanitized_data({"time": now(), "event": event, **fields})
        line = json.dumps(told, default=lambda value: sanitized(str(value)), sort_keys=False) + "\n"
        results = RunDir(self.run_dir).results
        handle = _opened(results)
        try:
            with system.naming(results):
                os.write(handle, line.encode())
        finally:
            os.close(handle)


def _opened(results: Path) -> int:
    """Open a results file to append to it; somebody may remove or replace it, or its directory, at any moment."""
    # Without O_NONBLOCK, opening a FIFO waits until somebody reads it.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    for left in reversed(range(OPENINGS)):
        move_aside(results)
        try:
            handle = os.open(results, flags, 0o644)
        except FileNotFoundError:
            results.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno not in IN_THE_WAY or not left:
                raise
        else:
            if stat.S_ISREG(os.fstat(handle).st_mode):
                return handle
            os.close(handle)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(results))


@dataclass
class Follower:
    """Reads a run's events as other processes write them: each once, only whole lines."""

    run_dir: Path
    _offset: int = 0

    def skip(self) -> None:
        """Pass over what is there already."""
        path = RunDir(self.run_dir).results
        self._offset = path.stat().st_size if path.is_file() else 0

    def read(self) -> list[dict[str, Any]]:
        """Return the events that were added since the last call."""
        path = RunDir(self.run_dir).results
        if not path.is_file():
            return []
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < self._offset:  # somebody has emptied it
                self._offset = 0
            file.seek(self._offset)
            whole, end, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(end)
        return [event for line in whole.split(b"\n") if (event := event_of(line)) is not None]


def read(run_dir: Path) -> list[dict[str, Any]]:
    """Return all events of a run, oldest first; lines that are none are left out."""
    return list(recorded(run_dir).events)
