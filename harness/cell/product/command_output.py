"""What a program prints, read: the task that is under way, and of a failure the line that says most."""

from __future__ import annotations

import re
import signal

TASK = re.compile(r"^TASK \[(?P<name>[^\]]+)\]")
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ERROR = re.compile(r"\b(error|fatal|failed|cannot|denied|refused|timed out)\b", re.IGNORECASE)
MOST_LINES = 40
LONGEST = 400  # characters of a line in a summary


def task_in(line: str) -> str | None:
    """Return the task that a line says is under way now, None when it says nothing of that."""
    match = TASK.match(ANSI.sub("", line))
    return match["name"].strip() or None if match is not None else None


def last_lines(said: str) -> str:
    """Return the end of a program's output, without colours."""
    return "\n".join(_lines(said)[-MOST_LINES:])


def error_line(said: str) -> str:
    """Return the last line that speaks of an error, or else the last one."""
    found = [line.strip() for line in _lines(said)[-MOST_LINES:] if line.strip() and task_in(line) is None]
    speaking = [line for line in found if ERROR.search(line)]
    return (speaking or found or [""])[-1][:LONGEST]


def ended_with(status: int) -> str:
    """Say how a process ended, by its status as subprocess gives it."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def _lines(said: str) -> list[str]:
    return ANSI.sub("", said).splitlines()
