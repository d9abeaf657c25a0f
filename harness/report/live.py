"""A cell's steps while they run: a moving line on a terminal; plain lines, foldable in GitLab, elsewhere."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable

from rich.console import Console
from rich.status import Status

from harness.cell.steps import StepEvent

NOT_IN_A_SECTION = re.compile(r"[^a-z0-9_.-]")


class Live:
    """Shows step events; one instance per process.

    gitlab: whether steps become foldable sections; those of cells side by side would overlap and do not.
    """

    def __init__(self, console: Console, *, gitlab: bool, parallel: bool = False) -> None:
        self._console = console
        self._parallel = parallel
        self._sections = gitlab and not parallel
        self._status: Status | None = None
        self._current: dict[str, str] = {}  # by cell

    def on_step(self, event: StepEvent) -> None:
        """Show that a step began or ended."""
        name = " / ".join(event.path)
        if event.outcome is None:
            self._begin(event, name)
        else:
            self._end(event, name)

    def on_task(self, task: str) -> None:
        """Show which of the playbook's tasks is running (on a terminal only)."""
        if self._status is not None:
            self._status.update(f"{self._under_way()}: {task}")

    def on_waiting(self, cell: str, reason: str) -> None:
        """Show why a cell waits (with no cell: why all of them do)."""
        self._line(f"{cell}: waits: {reason}" if cell else f"waits: {reason}")

    def on_progress(self, text: str) -> None:
        """Show how far something long has come; it replaces what was shown before."""
        if self._console.is_terminal:
            self.on_task(text)
        else:
            self._console.print(f"  {text}", highlight=False, markup=False)

    def _begin(self, event: StepEvent, name: str) -> None:
        if self._sections and len(event.path) == 1:
            self._section("start", event, name)
        self._current[event.cell] = f"{event.cell} {name}"
        if self._console.is_terminal:
            if self._status is None:
                self._status = self._console.status(self._under_way())
                self._status.start()
            self._status.update(self._under_way())
        elif len(event.path) == 1 and not self._parallel:
            self._line(f"{event.cell}: {name} ...")

    def _under_way(self) -> str:
        first, *others = [*self._current.values()] or [""]
        return f"{first} and {len(others)} more" if others else first

    def _end(self, event: StepEvent, name: str) -> None:
        mark = {"passed": "ok", "failed": "FAILED", "interrupted": "interrupted"}[event.outcome or "passed"]
        tail = f": {event.summary}" if event.summary and len(event.path) == 1 else ""
        if len(event.path) == 1 or not self._parallel:
            self._line(f"{event.cell}: {name} {mark} ({event.seconds:.1f} s){tail}")
        if len(event.path) == 1:
            self._current.pop(event.cell, None)
            if self._status is not None and not self._current:
                self._status.stop()
                self._status = None
            if self._sections:
                self._section("end", event, name)

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _section(self, edge: str, event: StepEvent, name: str) -> None:
        """Print a marker of a collapsible section (GitLab docs, "Custom collapsible sections")."""
        key = NOT_IN_A_SECTION.sub("_", f"{event.cell}_{event.path[0]}".lower())
        title = f"{event.cell}: {name}" if edge == "start" else ""
        self._console.file.write(f"\x1b[0Ksection_{edge}:{int(time.time())}:{key}\r\x1b[0K{title}\n")
        self._console.file.flush()


def in_gitlab() -> bool:
    """Tell whether this is a GitLab job."""
    return os.environ.get("GITLAB_CI") == "true"


OnProgress = Callable[[str], None]
