"""How far the cells of a run have come, as their events tell it: under way, done, waiting."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from harness.cell.steps import StepEvent
from harness.report.words import SHORT_ID, duration, plural

LAST_STEPS = {"teardown", "worker"}  # top-level steps with which a cell is over, however they end
BETWEEN = " \N{MIDDLE DOT} "


@dataclass
class Underway:
    """A cell that has begun and is not over. began: of the monotonic clock, in seconds."""

    began: float
    expected: float = 0.0
    step: str = ""
    checks: int = 0
    checks_failed: int = 0
    failed: list[str] = field(default_factory=list)  # names of steps

    def said(self) -> str:
        """Return what the cell is doing."""
        return self.step or (f"{plural(self.checks, 'check')} so far" if self.checks else "...")

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
        found = self.begin(cell)
        found.checks += outcome != "not-run"
        found.checks_failed += outcome == "failed"

    def step(self, event: StepEvent) -> str:
        """Take note of a step that began or ended; return what the cell came to when it is over with it, else ""."""
        found = self.begin(event.cell)
        if event.outcome is None:
            found.step = " / ".join(event.path)
            return ""
        found.step = " / ".join(event.path[:-1])
        if len(event.path) > 1:
            return ""
        (name,) = event.path
        if name == "start over" and event.outcome == "passed":
            found.failed.clear()  # the attempt that follows is the one that counts
        elif event.outcome != "passed":
            found.failed.append(name if event.outcome == "failed" else f"{name} ({event.outcome})")
        over = name in LAST_STEPS or (name == "admission" and event.outcome != "passed")
        return self.end(event.cell) if over else ""

    def end(self, cell: str) -> str:
        """Take note that a cell is over; return what it came to and how long it took, "" when that was said before."""
        found = self.under_way.pop(cell, None)
        if found is None:
            return ""
        self.done.add(cell)
        expected = f"; expected {duration(found.expected)}" if found.expected else ""
        return f"{found.outcome()} ({duration(time.monotonic() - found.began)}{expected})"

    def counts(self) -> str:
        """Return how many cells are done, under way and waiting."""
        of = f" of {self.planned}" if self.planned else ""
        return f"{len(self.done)}{of} done, {len(self.under_way)} running, {self.waiting} waiting"

    def line(self, width: int) -> str:
        """Return all cells under way with what they do, in one line of at most so many characters.

        Ids are cut to their ends when the line would be too long, and then cells are left out.
        """
        head = f"{self.counts()}: "
        whole = [f"{cell} {found.said()}" for cell, found in self.under_way.items()]
        cut = [f"{cell[-SHORT_ID:]} {found.said()}" for cell, found in self.under_way.items()]
        for parts in (whole, cut):
            line = head + BETWEEN.join(parts)
            if len(line) <= width:
                return line
        for number in range(len(cut) - 1, 0, -1):
            line = f"{head}{BETWEEN.join(cut[:number])} and {len(cut) - number} more"
            if len(line) <= width:
                return line
        return head.rstrip(": ")[:width]
