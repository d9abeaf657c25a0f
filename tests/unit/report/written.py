"""Writes results.jsonl line by line as a run would, with a clock that the test sets."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.rundir import RESULTS

START = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
ISSUE = "https://issues.invalid/7"


@dataclass
class Written:
    """A run's results, as far as the test has told them."""

    directory: Path
    seconds: float = 0.0
    attempt: dict[str, int] = field(default_factory=dict)

    def event(self, event: str, **fields: Any) -> Written:
        """Write an event at the clock's time."""
        moment = (START + timedelta(seconds=self.seconds)).isoformat(timespec="milliseconds")
        with (self.directory / RESULTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"time": moment, "event": event, **fields}) + "\n")
        return self

    def start(self, *cells: str, parallel: int = 1, rerun: bool = False) -> Written:
        """Begin the run, or a rerun of some of its cells as their next attempt."""
        if rerun:
            self.attempt |= {cell: self.attempt.get(cell, 1) + 1 for cell in cells}
        command = "pytest tests/cells --tier pr" + (" --rerun-failed last" if rerun else "")
        more = {"command": command, "cells": list(cells), "parallel": parallel, "tier": "pr"}
        return self.event("rerun-start" if rerun else "run-start", run="r00001", cleanup="vmatrix reap", **more)

    def end(self, exit_code: int, signal: int = 0) -> Written:
        """End the run."""
        return self.event("run-end", exit_code=exit_code, signal=signal)

    def admitted(self, cell: str, worker: str = "gw0", expected: int = 95) -> Written:
        """Give a cell to a worker."""
        source = "the median of 3 runs of this cell"
        number = self.attempt.get(cell, 1)
        return self.event("admitted", cell=cell, attempt=number, worker=worker, expected=expected, source=source)

    def begin(self, cell: str, *step: str) -> Written:
        """Begin a step."""
        return self.event("step-start", cell=cell, attempt=self.attempt.get(cell, 1), step=list(step))

    def over(self, cell: str, *step: str, seconds: float = 1.0, outcome: str = "passed", **error: Any) -> Written:
        """End a step that lasted so long; the clock moves on."""
        self.seconds += seconds
        more = {"step": list(step), "outcome": outcome, "seconds": seconds, **error}
        return self.event("step-end", cell=cell, attempt=self.attempt.get(cell, 1), **more)

    def step(self, cell: str, *step: str, seconds: float = 1.0, outcome: str = "passed", **error: Any) -> Written:
        """Begin and end a step."""
        return self.begin(cell, *step).over(cell, *step, seconds=seconds, outcome=outcome, **error)

    def fails(self, cell: str, *step: str, blame: str = "infra", summary: str = "no room", code: int = 75) -> Written:
        """Begin and end a step that fails."""
        return self.step(cell, *step, outcome="failed", blame=blame, summary=summary, exit_code=code)

    def check(
        self, cell: str, name: str = "test_ready", outcome: str = "passed", stage: str = "deploy", **more: Any
    ) -> Written:
        """End a check."""
        given = {"suite": "nodes", "seconds": 0.5, "stage": stage, "name": name, "outcome": outcome, **more}
        return self.event("check", cell=cell, attempt=self.attempt.get(cell, 1), **given)

    def passes(self, cell: str, *later: str) -> Written:
        """Write a whole attempt that passes: deployment and later phases, one check after each."""
        self.step(cell, "provision", seconds=11.0)
        for stage in ("deploy", *later):
            self.step(cell, stage, seconds=40.0).check(cell, stage=stage)
        return self.gone(cell)

    def gone(self, cell: str) -> Written:
        """Write the end of a cell's attempt."""
        return self.step(cell, "collect").step(cell, "teardown", seconds=8.0)
