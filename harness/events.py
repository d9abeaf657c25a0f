"""What happened, written down as it happens: one JSON line per event in `results.jsonl` of a run's directory.

Every writer appends whole lines with O_APPEND, so several processes may write to one file.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
    needed = ("time", "event", *NEEDED.get(str(content.get("event")), ()))
    return all(name in content for name in needed) and all(
        fits(content[name]) for name, fits in TYPES.items() if name in content
    )


def _moment(value: object) -> bool:
    try:
        return datetime.fromisoformat(str(value)).tzinfo is not None
    except ValueError:
        return False


def _of(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _properties(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("not_judged", []), list)


def _amounts(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(of, dict) and all(map(WHOLE, of.values())) for of in value.values()
    )


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _names(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def _sightings(value: object) -> bool:
    """Tell whether it is what `harness.report.results.Sighting` has, in a list."""
    kinds = {"cell": str, "name": str, "count": int, "line": str, "file": str, "means": str}
    return isinstance(value, list) and all(
        isinstance(one, dict) and one.keys() == kinds.keys() and all(isinstance(one[k], kinds[k]) for k in kinds)
        for one in value
    )


def _outcome(value: object) -> bool:
    return isinstance(value, str) and value in frozenset(Outcome)


def _findings(value: object) -> bool:
    try:
        return isinstance(value, list) and all(Finding.of(fields) for fields in value)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def _path(value: object) -> bool:
    return _texts(value) and bool(value)


TEXT, WHOLE, NUMBER, TABLE = _of(str), _of(int), _of(int, float), _of(dict)
TYPES: Mapping[str, Callable[[object], bool]] = {
    "time": _moment,
    "took": _amounts,
    **dict.fromkeys(("event", "cell", "run", "name", "suite", "stage", "said", "summary", "hint", "detail"), TEXT),
    **dict.fromkeys(
        ("blame", "worker", "source", "command", "cleanup", "infra", "provider", "logs", "claim", "look", "error"), TEXT
    ),
    **dict.fromkeys(("commit", "title", "author", "date", "unknown"), TEXT),
    **dict.fromkeys(("attempt", "exit_code", "number", "parallel", "pid", "signal"), WHOLE),
    **dict.fromkeys(("seconds", "expected"), NUMBER),
    **dict.fromkeys(("values", "where", "not_run", "around"), TABLE),
    "outcome": _outcome,
    "findings": _findings,
    "properties": _properties,
    **dict.fromkeys(("cells", "paths", "checks", "owners", "no_further", "given_up"), _texts),
    "sightings": _sightings,
    "suspect": _names,
    "step": _path,
    "tier": _of(str, type(None)),
}


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
