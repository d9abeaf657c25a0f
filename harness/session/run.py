"""The run itself: announced, the infra cluster brought up, signals caught, and at the end strays and reports.

The pytest plugin calls it in the process that a person started; nothing here knows pytest.
"""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from harness import providers, system
from harness.cell.existing import CellSelector
from harness.cell.product.cached import revision_of
from harness.cell.site import Site
from harness.cell.steps import describe
from harness.cell.teardown import reap
from harness.errors import EXIT_HARNESS, EXIT_OK, BadInput, Leaked, VmatrixError
from harness.events import Recorder, recorded
from harness.files import move_aside
from harness.infra.host.instance import infra_command
from harness.machines.reach import ssh
from harness.model import Cell, Outcome
from harness.report import records, run_reports, symptoms, terminal, words
from harness.report.live import Live, in_gitlab
from harness.report.records import keep
from harness.report.results import RunResult, load
from harness.sanitize import sanitized
from harness.session import refusals
from harness.session.cells import Cells
from harness.session.exit_codes import exit_code
from harness.session.plan import RunPlan
from harness.session.refusals import Wish
from harness.session.selection import profile_of
from harness.streams import plain_console


class Interrupted(KeyboardInterrupt):
    """The first SIGINT or SIGTERM; what was under way ends through teardown."""


@dataclass
class Run:
    """A run in the process that was started for it.

    parallel: how many cells can be under way at once.
    on_signal: told the first signal; without it, the signal is raised as Interrupted.
    not_run: how many steps and checks of each cell a signal kept from running.
    """

    plan: RunPlan
    parallel: int = 1
    console: Console = field(default_factory=lambda: plain_console(stderr=True))
    started: bool = False
    signalled: int = 0
    exit_code: int = EXIT_OK
    cells: Cells | None = None
    on_signal: Callable[[int], None] | None = None
    live: Live | None = None
    not_run: Mapping[str, int] = field(default_factory=dict)
    _site: Site | None = None
    _leak: Leaked | None = None
    _made: list[Path] = field(default_factory=list)
    _kept: ExitStack = field(default_factory=ExitStack)  # the infra cluster, from when it is up

    @property
    def site(self) -> Site:
        """Return the infra cluster of the run; only after `start`."""
        if self._site is None:
            raise BadInput("the infra cluster is not up yet", hint="this is a bug: report it")
        return self._site

    @property
    def recorder(self) -> Recorder:
        """Return where results go."""
        return Recorder(self.plan.directory)

    def console_to(self, file: Any) -> None:
        """Print to this file from now on."""
        self.console = plain_console(file=file)

    @system.told()
    def start(self) -> Live:
        """Print the clean-up command, open the run's directory, catch signals, bring the infra cluster up.

        Returns:
            What shows the run's progress.

        Raises:
            BadInput, InfraError: the infra cluster cannot be used.
        """
        plan = self.plan
        refusals.refuse(refusals.RUN, Wish(plan.project, plan.cells))
        self.console.print(f"to clean up after this run: {plan.cleanup}")
        self._made = [p for p in (plan.directory, *plan.directory.parents) if not p.exists()]
        plan.directory.mkdir(parents=True, exist_ok=True)
        self.started = True
        self._write_start()
        self.live = Live(self.console, gitlab=in_gitlab(), parallel=self.parallel > 1, cells=len(plan.cells))
        ssh.sweep()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        for line in providers.coming(plan.project.settings):
            self.console.print(line)
        self.live.on_phase("bringing the infra cluster up")
        self._site = providers.open_site(plan.project, plan.cells, progress=self.live.on_progress, suites=plan.suites())
        self._kept.enter_context(providers.keeper(plan.project.settings, plan.project.timeouts, self._tell_of_infra))
        tested = revision_of(plan.project.spec.product, plan.project.directory)
        if tested is not None:
            self.recorder.write("product", **asdict(tested), said=str(tested))
        self.live.on_phase("starting workers" if self.parallel > 1 else "starting the first cell")
        return self.live

    def _write_start(self) -> None:
        plan = self.plan
        self.recorder.write(
            "rerun-start" if plan.rerun else "run-start",
            run=plan.run,
            tier=plan.tier,
            night=str(plan.night or ""),
            together=plan.project.spec.together,
            command=plan.command,
            cleanup=plan.cleanup,
            cells=[c.id for c in plan.cells],
            parallel=self.parallel,
            pid=os.getpid(),
            **records.started_fields(
                {cell.id: cell.values for cell in plan.cells},
                infra=profile_of(plan.project.spec, plan.project.settings),
                provider=plan.project.settings.provider,
                checkout=plan.project.directory,
                directory=plan.directory,
            ),
        )

    def _restore_results(self) -> None:
        """Say that what this run had written was removed meanwhile; what was found before that is lost.

        A check of the project's own that deletes files may have done it. Without its beginning, the rest would be read
        as a run that passed.
        """
        files = self.plan.files
        move_aside(files.results)
        names = {event["event"] for event in recorded(self.plan.directory).events}
        if names & {"run-start", "rerun-start"}:
            return
        lost = BadInput(
            f"{files.results} was removed, emptied or replaced while the run was under way: "
            "what was found before that is lost",
            hint="see what deletes files there, perhaps one of your own checks, and run the cells again",
            paths=(files.results,),
        )
        self._write_start()
        self.recorder.write("run-error", **describe(lost))
        self.console.print(f"error ({lost.blame.value}): {lost.summary}\nhint: {lost.hint}")
        self.exit_code = self.exit_code or lost.exit_code

    def _tell_of_infra(self, message: str) -> None:
        """Print and write down what became of a part of the infra cluster."""
        self.console.print(message)
        self.recorder.write("infra", said=message)

    def leave_out(self, cells: Iterable[Cell]) -> None:
        """Write down that nothing of some cells was selected: they are no part of this run."""
        for cell in cells:
            self.recorder.write("left-out", cell=cell.id)
            if self.live is not None:
                self.live.on_left_out()

    def abandon(self, error: VmatrixError) -> None:
        """Write down that the run ended before any cell began; input that cannot be used leaves nothing behind."""
        self.exit_code = error.exit_code
        if self.started and isinstance(error, BadInput) and self._made:
            self.started = False
            self.plan.files.results.unlink()
            with suppress(OSError):  # what somebody else put there stays
                for folder in self._made:
                    folder.rmdir()
        elif self.started:
            self.recorder.write("run-error", **describe(error))

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self.signalled:
            os.write(2, f"\nstopped at once; to remove what is left: {self.plan.cleanup}\n".encode())
            os._exit(128 + number)
        self.signalled = number
        with suppress(OSError):  # a full disk must not keep anybody from tearing down
            self.recorder.write("signal", number=number)
        if self.cells is not None:
            self.cells.keep = False
        name = signal.Signals(number).name
        os.write(2, f"\n{name}: tearing down; a second signal stops at once\n".encode())
        if self.on_signal is None:
            raise Interrupted(name)
        self.on_signal(number)

    def finish(self, pytest_status: int) -> int:
        """Tear down whatever is left, write the reports, and return the exit code of the run."""
        with self._kept:
            try:
                return self._finish(pytest_status)
            except Interrupted:  # the run's first signal; from here on another one ends the process
                return self._finish(pytest_status)

    def _finish(self, pytest_status: int) -> int:
        self.on_signal = None
        if self.cells is not None:
            self.cells.close_all()
            self._leak = self.cells.leak
        self._restore_results()
        self._phase("removing what is left of this run")
        self._reap_strays()
        self._phase("looking for symptoms")
        self._look_for_symptoms()
        self._phase("writing reports")
        if self.signalled:
            self.exit_code = 128 + self.signalled
        else:
            leaked = self._leak is not None
            self.exit_code = exit_code(
                self._result(), before=self.exit_code, leaked=leaked, pytest_status=pytest_status
            )
        more = {"not_run": self.not_run} if self.signalled else {}
        self.recorder.write("run-end", exit_code=self.exit_code, signal=self.signalled, **more)
        self._write_reports(more)
        self._keep_records()
        return self.exit_code

    def _look_for_symptoms(self) -> None:
        """Write down the symptoms that failed cells show, where the matrix knows any."""
        sightings, given_up = symptoms.look(self._result(), self.plan.project.spec.symptoms, datetime.now(UTC).date())
        if sightings or given_up:
            self.recorder.write("symptoms", sightings=[asdict(sighting) for sighting in sightings], given_up=given_up)

    def _phase(self, what: str) -> None:
        if self.live is not None:
            self.live.on_phase(what)

    def _write_reports(self, more: Mapping[str, Any]) -> None:
        """Write the reports; one that cannot be written is said, and counts where all else was well."""
        for path, error in run_reports.write_all(self._result(), self.plan.files).items():
            ours = system.of(error) if isinstance(error, OSError) else None
            message = ours.summary if ours is not None else f"{path}: {type(error).__name__}: {error}; a bug in vmatrix"
            self.console.print(sanitized(f"this report could not be written: {message}"))
            self.recorder.write("report-failed", path=str(path), said=message)
            if self.exit_code == EXIT_OK:
                self.exit_code = ours.exit_code if ours is not None else EXIT_HARNESS
                self.recorder.write("run-end", exit_code=self.exit_code, signal=self.signalled, **more)

    def _result(self) -> RunResult:
        return load(self.plan.directory, quarantine=self.plan.project.spec.quarantine)

    def _keep_records(self) -> None:
        """Add this run's cells to the history; when that fails, print so and leave the run as it was."""
        try:
            plan, project = self.plan, self.plan.project
            keep(plan.directory, project.settings, quarantine=project.spec.quarantine, cells=plan.cells)
        except Exception as error:  # noqa: BLE001 - the results are written; nothing here may change what they say
            message = (
                f"this run is not in the history: {error}; add it with `vmatrix history add {self.plan.directory}`"
            )
            self.console.print(message)

    def _reap_strays(self) -> None:
        """Remove cells of this run that nobody tears down (a signal or a crash may have hit in mid-creation)."""
        if self._site is None:
            return
        kept = self._result().kept if not self.signalled else frozenset()
        try:
            selection = CellSelector(run=self.plan.run, besides=kept, namespace=self.plan.project.settings.namespace)
            reap(self._site.cluster, selection, seconds=self._site.timeouts.teardown)
        except Leaked as leak:
            self._leak = leak
        except VmatrixError as error:
            self._leak = Leaked(f"cannot tell what is left: {error.summary}", hint=self.plan.cleanup)

    def show(self) -> None:
        """Print tables, failures, leaks and the reports' paths."""
        terminal.show(self._result(), self.console)
        if self._leak is not None:
            self.console.print(f"LEAKED: {self._leak.summary}\n{self._leak.detail}\nhint: {self._leak.hint}")
        files = self.plan.files
        for report in (*run_reports.paths(files), files.results):
            self.console.print(f"report: {report}")

    def show_interruption(self) -> None:
        """Print as the last lines of a run that a signal ended: what ran, what did not, and how to run that."""
        result = self._result()
        for line in words.interruption_lines(result):
            self.console.print(line)
        settings = self.plan.project.settings
        provider, name = providers.of(settings), settings.infra_name
        if self._site is None and provider.has_instance(name):
            down = infra_command("down", name, provider.name)
            self.console.print(f"infra {name} was not up yet, and the next run goes on with it; to delete it: {down}")
        if all(cell.outcome == Outcome.PASSED for cell in result.cells):
            return
        again = ["vmatrix", "run", "--rerun-failed", self.plan.run, *self.plan.provider_options]
        self.console.print(f"to run what did not pass: {shlex.join(again)}")
