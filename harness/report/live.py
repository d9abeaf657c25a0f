"""A run's cells while they run: a moving line on a terminal; plain lines, foldable in GitLab, elsewhere."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.text import Text

from harness.cell.steps import StepEvent
from harness.model import Outcome
from harness.report.words import SHORT_ID, duration, plural
from harness.sanitize import sanitized
from harness.until import under_way

LAST_STEPS = {"teardown", "worker"}  # top-level steps with which a cell is over, however they end
BETWEEN = " \N{MIDDLE DOT} "


@dataclass
class Underway:
    """A cell that has begun and is not over. began: of the monotonic clock, in seconds."""

    began: float
    expected: float = 0.0
    step: str = ""
    step_began: float = 0.0
    task: str = ""  # what is under way in it, in the product's words
    checks: int = 0
    checks_failed: int = 0
    failed: list[str] = field(default_factory=list)  # names of steps

    def said(self) -> str:
        """Return what the cell is doing."""
        return self.step or (f"{plural(self.checks, 'check')} so far" if self.checks else "...")

    def doing(self, check: str = "") -> str:
        """Return what the cell is doing, in what, and for how long."""
        return doing(
            ": ".join(part for part in (self.step or check or self.said(), self.task) if part),
            self.step_began or self.began,
        )

    def outcome(self) -> str:
        """Return what the cell came to, as far as is known here: quarantine is the reports' business."""
        checks = f", {self.checks_failed} of {plural(self.checks, 'check')} failed" if self.checks_failed else ""
        if self.failed:
            return f"FAILED in {', '.join(self.failed)}{checks}"
        return f"FAILED{checks}" if checks else f"passed {plural(self.checks, 'check')}"


@dataclass
class Progress:
    """The cells of a run. planned: how many there are in all; 0 when nobody said."""

    planned: int = 0
    under_way: dict[str, Underway] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)

    @property
    def waiting(self) -> int:
        """Return how many cells have not begun."""
        return max(0, self.planned - len(self.done | self.under_way.keys()))

    def begin(self, cell: str, expected: float = 0.0) -> Underway:
        """Take note that a cell is under way; a second time changes nothing."""
        return self.under_way.setdefault(cell, Underway(time.monotonic(), expected))

    def check(self, cell: str, outcome: str) -> None:
        """Count a check of a cell that has ended."""
        progress = self.begin(cell)
        progress.checks += outcome != Outcome.NOT_RUN
        progress.checks_failed += outcome == Outcome.FAILED

    def step(self, event: StepEvent) -> str:
        """Take note of a step that began or ended; return what the cell came to when it is over with it, else ""."""
        progress = self.begin(event.cell)
        progress.step_began, progress.task = time.monotonic(), ""
        if event.outcome is None:
            progress.step = " / ".join(event.path)
            return ""
        progress.step = " / ".join(event.path[:-1])
        if len(event.path) > 1:
            return ""
        (name,) = event.path
        if name == "start over" and event.outcome == "passed":
            progress.failed.clear()  # the attempt that follows is the one that counts
        elif event.outcome != "passed":
            progress.failed.append(name if event.outcome == "failed" else f"{name} ({event.outcome})")
        over = name in LAST_STEPS or (name == "admission" and event.outcome != "passed")
        return self.end(event.cell) if over else ""

    def end(self, cell: str) -> str:
        """Take note that a cell is over; return what it came to and how long it took, "" when that was said before."""
        progress = self.under_way.pop(cell, None)
        if progress is None:
            return ""
        self.done.add(cell)
        expected = f"; expected {duration(progress.expected)}" if progress.expected else ""
        return f"{progress.outcome()} ({duration(time.monotonic() - progress.began)}{expected})"

    def counts(self) -> str:
        """Return how many cells are done, under way and waiting."""
        of = f" of {self.planned}" if self.planned else ""
        return f"{len(self.done)}{of} done, {len(self.under_way)} running, {self.waiting} waiting"

    def line(self, width: int) -> str:
        """Return all cells under way with what they do, in one line of at most so many characters.

        Ids are cut to their ends when the line would be too long, and then cells are left out.
        """
        head = f"{self.counts()}: "
        whole = [f"{cell} {progress.said()}" for cell, progress in self.under_way.items()]
        cut = [f"{cell[-SHORT_ID:]} {progress.said()}" for cell, progress in self.under_way.items()]
        for parts in (whole, cut):
            line = head + BETWEEN.join(parts)
            if len(line) <= width:
                return line
        for number in range(len(cut) - 1, 0, -1):
            line = f"{head}{BETWEEN.join(cut[:number])} and {len(cut) - number} more"
            if len(line) <= width:
                return line
        return head.rstrip(": ")[:width]


def doing(what: str, began: float) -> str:
    """Return what is done, and for how long; `began` is of the monotonic clock."""
    return f"{what} ({duration(time.monotonic() - began)} so far)"


NOT_IN_A_SECTION = re.compile(r"[^a-z0-9_.-]")
NUMBERS = re.compile(r"[0-9.]+")
PLAIN_EVERY_SECONDS = 30.0  # between two lines of progress that differ by numbers alone: display
MARKS = {"passed": "ok", "failed": "FAILED", "interrupted": "interrupted"}
SPINNER_WIDTH = 2


class Live:
    """Shows what cells do; one instance per process.

    gitlab: whether steps become foldable sections; those of cells side by side would overlap and do not.
    parallel: whether cells run side by side; then each line stands for itself, and only top-level steps have one.
    cells: how many the run has.
    """

    def __init__(self, console: Console, *, gitlab: bool, parallel: bool = False, cells: int = 0) -> None:
        self._console = console
        self._parallel = parallel
        self._sections = gitlab and not parallel
        self._status: Status | None = None
        self._progress = Progress(cells)
        self._said: dict[str, float] = {}  # lines of progress without their numbers, and when each was printed
        self._now = ""  # the cell and step that began last
        self._idle = "starting", time.monotonic()  # what is done while no cell is under way, and since when

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Show what a worker wrote down, other than steps."""
        kind = event["event"]
        if kind == "admitted":
            worker, source = event.get("worker", "a worker"), event.get("source", "nobody")
            self.on_admitted(event["cell"], worker, float(event.get("expected", 0.0)), source)
        elif kind == "check":
            self._progress.check(event["cell"], event["outcome"])
            if event["outcome"] == Outcome.FAILED:
                self._line(f"{event['cell']}: {event['suite']}: {event['name']} FAILED ({event['seconds']:.1f} s)")
            self._update()
        elif kind == "progress" and (cell := self._progress.under_way.get(event["cell"])):
            cell.task = event["said"]
        elif kind == "kept":
            self._line(event.get("said", ""))
            self._over(event["cell"], self._progress.end(event["cell"]), "kept, ")

    def on_admitted(self, cell: str, worker: str, expected_seconds: float, source: str) -> None:
        """Show that a cell starts in a worker, and how long it is expected to take by what."""
        self._progress.begin(cell, expected_seconds)
        expected = f"expected {duration(expected_seconds)} ({source})"
        self._line(f"{cell}: starts on {worker}; {expected}; {self._progress.counts()}")
        self._update()

    def on_left_out(self) -> None:
        """Count one cell less: nothing of it was selected."""
        self._progress.planned -= 1

    def on_step(self, event: StepEvent) -> None:
        """Show that a step began or ended."""
        name = " / ".join(event.path)
        over = self._progress.step(event)
        if event.outcome is None:
            self._begin(event, name)
        else:
            self._end(event, name, over)

    def on_task(self, task: str) -> None:
        """Show which of the playbook's tasks is running: on a terminal at once, elsewhere when all is silent."""
        for cell in self._progress.under_way.values():
            cell.task = task
        self._update(task)

    def on_phase(self, what: str) -> None:
        """Take note of what the run does while no cell is under way."""
        self._idle = what, time.monotonic()

    def doing(self, check: str = "") -> str:
        """Return what is under way, and for how long: step, phase, task of each cell, and what this process waits for.

        Args:
            check: that is under way in this process.
        """
        under_way_now = list(self._progress.under_way.items())  # cells come and go while another thread asks
        cells = [f"{cell}: {progress.doing(check)}" for cell, progress in under_way_now]
        return sanitized("; ".join(part for part in (*(cells or [doing(*self._idle)]), under_way()) if part))

    def on_waiting(self, cell: str, reason: str) -> None:
        """Show why a cell waits (with no cell: why all of them do)."""
        self._line(f"{cell}: waiting: {reason}" if cell else f"waiting: {reason}")
        self.on_phase(f"waiting: {reason}")

    def on_progress(self, text: str) -> None:
        """Show how far something long has come; on a terminal it replaces what was shown before.

        Elsewhere it is a line at every change and twice a minute.
        """
        self._idle = text, self._idle[1]
        if self._console.is_terminal:
            self.on_task(text)
            return
        same = NUMBERS.sub("", text)
        if time.monotonic() - self._said.get(same, -PLAIN_EVERY_SECONDS) >= PLAIN_EVERY_SECONDS:
            self._said[same] = time.monotonic()
            self._console.print(sanitized(f"  {text}"), highlight=False)

    def _begin(self, event: StepEvent, name: str) -> None:
        self._now = f"{event.cell} {name}"
        if self._sections and len(event.path) == 1:
            self._section("start", event, name)
        if self._console.is_terminal:
            if self._status is None:
                self._status = self._console.status("")
                self._status.start()
            self._update()
        elif len(event.path) == 1 and not self._parallel:
            self._line(f"{event.cell}: {name} ...")

    def _end(self, event: StepEvent, name: str, over: str) -> None:
        top = len(event.path) == 1
        if top or not self._parallel:
            tail = f": {event.summary}" if event.summary and top else ""
            self._line(f"{event.cell}: {name} {MARKS[event.outcome or 'passed']} ({event.seconds:.1f} s){tail}")
        if self._parallel:
            self._over(event.cell, over)
        elif top:
            self._stop()  # what pytest prints between steps must not run into a moving line
        if top and self._sections:
            self._section("end", event, name)
        self._update()

    def _over(self, cell: str, came_to: str, kept: str = "") -> None:
        if came_to:
            self._line(f"{cell}: done: {kept}{came_to}; {self._progress.counts()}")
        if not self._progress.under_way:
            self._stop()

    def _update(self, task: str = "") -> None:
        """Renew the moving line; a text of its own keeps brackets in it from being taken for markup."""
        if self._status is None:
            return
        width = self._console.width - SPINNER_WIDTH
        line = self._progress.line(width) if self._parallel else self._now
        whole = sanitized(f"{line}: {task}" if task else line)
        self._status.update(Text(whole if len(whole) <= width else f"{whole[: width - 1]}\N{HORIZONTAL ELLIPSIS}"))

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _line(self, text: str) -> None:
        self._console.print(sanitized(text), highlight=False, soft_wrap=True)

    def _section(self, edge: str, event: StepEvent, name: str) -> None:
        """Print a marker of a collapsible section (GitLab docs, "Custom collapsible sections")."""
        key = NOT_IN_A_SECTION.sub("_", f"{event.cell}_{event.path[0]}".lower())
        title = sanitized(f"{event.cell}: {name}").replace("\n", " ") if edge == "start" else ""
        self._console.file.write(f"\x1b[0Ksection_{edge}:{int(time.time())}:{key}\r\x1b[0K{title}\n")
        self._console.file.flush()


def in_gitlab() -> bool:
    """Tell whether this is a GitLab job."""
    return os.environ.get("GITLAB_CI") == "true"
