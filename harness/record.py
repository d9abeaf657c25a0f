"""What happened, written down as it happens: one JSON line per event in `results.jsonl` of a run's directory.

Every writer appends whole lines with O_APPEND, so several processes may write to one file.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness import system
from harness.recorded import event_of, recorded
from harness.rundir import RunDir
from harness.sanitize import sanitized, sanitized_data


def now() -> str:
    """Return the present moment as RFC 3339 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Recorder:
    """Appends events of one run to its results file."""

    run_dir: Path

    def write(self, event: str, **fields: Any) -> None:
        """Append one event, its texts sanitized. Field values must be JSON; never pass a secret."""
        told = sanitized_data({"time": now(), "event": event, **fields})
        line = json.dumps(told, default=lambda value: sanitized(str(value)), sort_keys=False) + "\n"
        results = RunDir(self.run_dir).results
        handle = os.open(results, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            with system.naming(results):
                os.write(handle, line.encode())
        finally:
            os.close(handle)


@dataclass
class Follower:
    """Reads a run's events as other processes write them: each once, only whole lines."""

    run_dir: Path
    _offset: int = 0

    def skip(self) -> None:
        """Pass over what is there already."""
        path = RunDir(self.run_dir).results
        self._offset = path.stat().st_size if path.exists() else 0

    def read(self) -> list[dict[str, Any]]:
        """Return the events that were added since the last call."""
        path = RunDir(self.run_dir).results
        if not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(self._offset)
            whole, end, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(end)
        return [event for line in whole.split(b"\n") if (event := event_of(line)) is not None]


def read(run_dir: Path) -> list[dict[str, Any]]:
    """Return all events of a run, oldest first; lines that are none are left out."""
    return list(recorded(run_dir).events)
