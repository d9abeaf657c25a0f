"""A run of checks on what is there: a kept cell, or a cluster of somebody else. Nothing is made, nothing goes."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial

import pytest
from rich.console import Console

from harness.errors import NothingSelected, VmatrixError
from harness.events import Recorder
from harness.plugin.state import CELLS, EXISTING, OWN, VERDICT, message
from harness.report import terminal
from harness.report.results import load
from harness.session import Cells
from harness.session.recheck import verdict


class ExistingCluster:
    """The hooks of a process that checks what is there already."""

    def __init__(self, config: pytest.Config) -> None:
        self.check = config.stash[EXISTING]
        plan = self.check.plan
        self.console = Console(highlight=False, soft_wrap=True)
        self.cells = Cells(plan, partial(self.check.site, self._say), self.console, connect=self.check.connect)
        config.stash[CELLS] = self.cells
        self.exit_code: int | None = None
        self._held = ExitStack()

    def _nothing(self, keyword: str) -> NothingSelected:
        """Say that there is no check, and why if only suites were named: their checks are for other cells."""
        only = sorted(self.check.plan.only or ()) if not keyword else []
        why = f": this cell does not have what suite {' or '.join(only)} is about" if only else ""
        return NothingSelected(
            f"no check was selected{why}", hint="`vmatrix explain CELL --full` lists a cell's checks"
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Join the cell; without it no check is run."""
        if session.config.option.collectonly or session.testsfailed:
            return None
        own = session.config.stash.get(OWN, None)
        try:
            if own is not None and own.error is not None:
                raise own.error
            if not session.items:
                raise self._nothing(session.config.option.keyword)
            self._join(len(session.items))
        except VmatrixError as error:
            self.exit_code = error.exit_code
            sys.stderr.write(f"error ({error.blame.value}): {message(error)}\n")
            return True
        return None

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False)

    def _join(self, checks: int) -> None:
        plan = self.check.plan
        plan.directory.mkdir(parents=True)
        recorder = Recorder(plan.directory)
        recorder.write("run-start", cells=[cell.id for cell in plan.cells], parallel=1, **self.check.started)
        self.console = self.cells.console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self.console.print(f"{self.check.subject}: {checks} checks", markup=False)
        self.cells.adopt(self._held.enter_context(self.check.joined(self.cells.site, recorder)))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Let go of the cell, say what the checks came to, set the exit code."""
        self._held.close()
        plan = self.check.plan
        if plan.files.results.is_file() and self.exit_code is None:
            self.exit_code = verdict(plan)
            result = load(plan.directory, quarantine=plan.project.spec.quarantine)
            terminal.show_checks(result, self.console)
            for line in self.check.not_judged:
                self.console.print(f"not judged: {line}", markup=False)
            self.console.print(f"results: {plan.files.results}", markup=False)
        if self.exit_code is not None:
            session.exitstatus = session.config.stash[VERDICT] = self.exit_code
        session.config.option.tbstyle = "no"  # the failures are shown with blame and hint instead
