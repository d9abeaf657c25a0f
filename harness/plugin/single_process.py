"""A run in one process: one cell at a time, or checks on what is there; and what an interrupted one did not get to."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from signal import Signals
from typing import Any

import pytest
from rich.console import Console

from harness import proc
from harness.cell.life import Life
from harness.errors import NothingSelected, VmatrixError
from harness.events import Recorder
from harness.plugin.own_checks import OwnChecks
from harness.plugin.state import CELLS, EXISTING, OWN, RUN, VERDICT, cell_of, message, planned
from harness.report import terminal
from harness.report.results import load
from harness.session import Cells, Run
from harness.session.admit import Waiting
from harness.session.recheck import verdict
from harness.streams import plain_console

SHELL = "/bin/sh"


class SingleProcess:
    """The hooks of a run without workers."""

    def __init__(self, config: pytest.Config) -> None:
        plan = planned(config)
        self.run = Run(plan)
        config.stash[RUN] = self.run
        self.cells = Cells(plan, lambda: self.run.site, self.run.console)
        self.run.cells = config.stash[CELLS] = self.cells
        self.waiting: Waiting | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Print how to clean up before anything exists, then bring the infra up; without it no item is run."""
        own = session.config.stash.get(OWN, None)
        if own is not None and own.error is not None:
            return refuse(self.run, own.error)
        if session.config.option.collectonly or session.testsfailed:
            return None  # pytest reports what it could not collect
        if not session.items:
            nothing = NothingSelected("no check was selected", hint="`--collect-only` lists the checks")
            return refuse(self.run, nothing)
        self.run.console_to(sys.stdout)
        try:
            live = self.run.start()
            tell_unused(self.run, own)
            here = {its_cell.id for item in session.items if (its_cell := cell_of(item)) is not None}
            self.run.leave_out(cell for cell in self.run.plan.cells if cell.id not in here)
            self.waiting = Waiting.on(self.run.site, self.run.plan, live.on_waiting)
        except VmatrixError as error:
            return refuse(self.run, error)
        self.cells.console = self.run.console
        self.cells.admit = self.waiting.admit
        self.cells.listeners += [live.on_step, self.waiting.on_step]
        self.cells.on_task = live.on_task
        if self.run.plan.shell:
            self.cells.shell = partial(open_shell, self.run.console)
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Leave out the items of a cell that is not to begin any more."""
        cell = cell_of(item)
        return True if cell is not None and self.cells.stopped and not self.cells.begun(cell) else None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Tear down what is left, write the reports, set the exit code."""
        note_unreached(self.run, session.config, [item.nodeid for item in session.items])
        finish(self.run, session, exitstatus)
        if self.waiting is not None:
            self.waiting.stop()

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Give Ctrl-C its exit code before the run has begun, too."""
        interrupted_early(self.run, excinfo)


def open_shell(console: Console, life: Life) -> None:
    """Open a shell in the cell's folder that knows the guest cluster, the inventory and the machines' key."""
    files = life.attempt.files
    console.print(f"{life.cell.id} failed. This shell is in its folder; leave it to go on: exit")
    there = life.environment
    for machine in life.cell.machines if there is not None else ():
        options = there.options if there is not None else ()
        console.print(f"  {shlex.join(['vmatrix', 'login', *options, life.cell.id, machine.name])}")
    for name, value in variables(life).items():
        console.print(f"  {name}={value}")
    folder = life.attempt.directory if life.attempt.directory.is_dir() else files.path.parent
    proc.attend([os.environ.get("SHELL") or SHELL], env=variables(life), cwd=folder)


def variables(life: Life) -> dict[str, str]:
    """Return the variables of the shell: of what is there."""
    files = life.attempt.files
    guest = life.guests[-1].kubeconfig if life.guests else files.kubeconfig
    known = {"KUBECONFIG": guest, "ANSIBLE_INVENTORY": files.hosts, "MACHINES_KEY": files.key}
    return {name: str(path) for name, path in known.items() if path.is_file()}


class ExistingCluster:
    """The hooks of a process that checks what is there already."""

    def __init__(self, config: pytest.Config) -> None:
        self.check = config.stash[EXISTING]
        plan = self.check.plan
        self.console = plain_console()
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
        self.console.print(line)

    def _join(self, checks: int) -> None:
        plan = self.check.plan
        plan.directory.mkdir(parents=True)
        recorder = Recorder(plan.directory)
        recorder.write("run-start", cells=[cell.id for cell in plan.cells], parallel=1, **self.check.started)
        self.console = self.cells.console = plain_console(file=sys.stdout)
        self.console.print(f"{self.check.subject}: {checks} checks")
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
                self.console.print(f"not judged: {line}")
            self.console.print(f"results: {plan.files.results}")
        if self.exit_code is not None:
            session.exitstatus = session.config.stash[VERDICT] = self.exit_code
        session.config.option.tbstyle = "no"  # the failures are shown with blame and hint instead


def refuse(run: Run, error: VmatrixError) -> bool:
    """End a run before any item; return what pytest's loop hook returns."""
    run.abandon(error)
    sys.stderr.write(f"error ({error.blame.value}): {message(error)}\n")
    return True


def tell_unused(run: Run, own: OwnChecks | None) -> None:
    """Say which of the project's own checks this run leaves out, and why: it may be meant so, or not."""
    for name, why in own.unused.items() if own is not None else ():
        run.console.print(f"not run: {name}: {why}")


def interrupted_early(run: Run, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Give Ctrl-C before a run's start its exit code; pytest's own is that of bad input.

    pytest's own interruptions, such as a module that cannot be imported, are of a class below it.
    """
    if excinfo.type is KeyboardInterrupt and not run.started:
        run.exit_code = 128 + signal.SIGINT


def finish(run: Run, session: pytest.Session, exitstatus: int) -> None:
    """End a run and give pytest its exit code."""
    if session.config.option.collectonly and not run.exit_code:
        return
    own = session.config.stash.get(OWN, None)
    broke = own.broken() if own is not None else None
    if broke is not None:
        run.exit_code = run.exit_code or broke.exit_code
    session.exitstatus = run.finish(int(exitstatus)) if run.started else run.exit_code or exitstatus
    if run.started or run.exit_code:
        session.config.stash[VERDICT] = int(session.exitstatus)
    if session.config.option.verbose < 2:
        session.config.option.tbstyle = "no"  # the failures are shown with blame and hint instead


@dataclass
class Unreached:
    """An item without a result among pytest's counts, whose other entries are reports."""

    nodeid: str


def note_unreached(run: Run, config: pytest.Config, collection: Sequence[str]) -> None:
    """Count the items without a result, if a signal ended the run; `collection`: the names of all of them."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    if not run.signalled or terminal is None:
        return
    reached = {report.nodeid for reports in terminal.stats.values() for report in reports if hasattr(report, "when")}
    left = [name for name in collection if name not in reached]
    run.not_run = by_cell([cell.id for cell in run.plan.cells], left)
    if left:
        entries = [Unreached(name) for name in left]
        terminal._add_stats(f"not run (interrupted by {Signals(run.signalled).name})", entries)


def by_cell(cells: Iterable[str], names: Iterable[str]) -> dict[str, int]:
    """Return how many of the items are each cell's; cells without any are left out."""
    names = list(names)
    counts = {cell: sum(f"[{cell}]" in name or f"[{cell}-" in name for name in names) for cell in cells}
    return {cell: count for cell, count in counts.items() if count}
