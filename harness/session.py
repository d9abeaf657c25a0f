"""One run: its cells, its directory, the site it runs on, the lives it opened, and how it ends.

The pytest plugin calls it; nothing here knows pytest. A run that is interrupted ends through the same `finish`.
"""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import string
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from harness import wiring
from harness.cell.life import Life
from harness.cell.provision import Attempt
from harness.cell.site import Site
from harness.cell.steps import Steps, describe
from harness.cell.teardown import Selection, reap
from harness.errors import (
    EXIT_HARNESS,
    EXIT_INFRA,
    EXIT_LEAKED,
    EXIT_OK,
    EXIT_PRODUCT,
    EXIT_RETRY,
    BadInput,
    Blame,
    HarnessBug,
    Leaked,
    VmatrixError,
)
from harness.model import Cell
from harness.paths import project_dir
from harness.plan import select
from harness.record import RESULTS, Recorder
from harness.report import junit, summary, terminal
from harness.report.live import Live, in_gitlab
from harness.report.results import CellResult, load
from harness.spec import Spec, load_spec
from harness.spec.settings import Settings, load_settings

RUN_ID_LENGTH = 6
ALPHABET = string.ascii_lowercase + string.digits
# Among failures of several kinds, the one that a script must hear of first.
SEVERITY = (EXIT_LEAKED, EXIT_HARNESS, EXIT_PRODUCT, EXIT_INFRA, EXIT_RETRY)
BLAME_EXIT = {
    Blame.PRODUCT.value: EXIT_PRODUCT,
    Blame.INFRA.value: EXIT_INFRA,
    Blame.HARNESS.value: EXIT_HARNESS,
    Blame.USER.value: EXIT_HARNESS,
}


class Interrupted(KeyboardInterrupt):
    """The first SIGINT or SIGTERM of a run; the run ends through teardown."""


@dataclass
class Session:
    """A run in this process."""

    run: str
    tier: str | None
    cells: tuple[Cell, ...]
    spec: Spec
    settings: Settings
    directory: Path
    command: str
    console: Console = field(default_factory=lambda: Console(stderr=True))
    started: bool = False
    signalled: int = 0
    exit_code: int = EXIT_OK
    _site: Site | None = None
    _live: Live | None = None
    _lives: dict[str, Life] = field(default_factory=dict)
    _leak: Leaked | None = None
    _made: list[Path] = field(default_factory=list)

    @staticmethod
    def plan(
        *, tier: str | None, patterns: Sequence[str], options: Mapping[str, Any], run_id: str | None, command: str
    ) -> Session:
        """Load and check everything that was given, touching nothing.

        Raises:
            BadInput: settings, matrix, tier, cell or run id are wrong.
        """
        settings = load_settings(Path.cwd(), options=options).settings
        spec = load_spec(project_dir() / "matrix")
        cells = select(spec, tier=tier, patterns=patterns)
        wiring.refuse_unusable(settings)
        run = run_id if run_id is not None else "".join(secrets.choice(ALPHABET) for _ in range(RUN_ID_LENGTH))
        if len(run) != RUN_ID_LENGTH or not set(run) <= set(ALPHABET):
            raise BadInput(
                f"run id {run!r} is not 6 lower-case letters or digits",
                hint="leave --run-id out, and one is made up",
            )
        directory = (settings.runs / run).resolve()
        return Session(run, tier, cells, spec, settings, directory, command)

    @property
    def site(self) -> Site:
        """Return the infra cluster of the run; only after `start`."""
        if self._site is None:
            raise BadInput("the infra cluster is not up yet", hint="this is a bug: report it")
        return self._site

    @property
    def cleanup(self) -> str:
        """Return the command that takes everything of this run away."""
        return shlex.join(["vmatrix", "reap", "--run", self.run, *wiring.provider_options(self.settings)])

    def _login(self, cell: Cell) -> str:
        options = shlex.join(wiring.provider_options(self.settings))
        return " ".join(word for word in ("vmatrix login", options, cell.id, "MACHINE") if word)

    def console_from(self, file: Any) -> None:
        """Print to this file from now on."""
        self.console = Console(file=file, highlight=False, soft_wrap=True)

    def start(self) -> None:
        """Print the clean-up command, open the run's directory, catch signals, bring the infra cluster up.

        Raises:
            BadInput, InfraError: the infra cluster cannot be had.
        """
        self.console.print(f"to clean up after this run: {self.cleanup}", markup=False)
        self._made = [p for p in (self.directory, *self.directory.parents) if not p.exists()]
        self.directory.mkdir(parents=True, exist_ok=True)
        self.started = True
        self._recorder.write(
            "run-start",
            run=self.run,
            tier=self.tier,
            command=self.command,
            cleanup=self.cleanup,
            cells=[c.id for c in self.cells],
            pid=os.getpid(),
        )
        self._live = Live(self.console, gitlab=in_gitlab())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        self._site = wiring.open_site(self.settings, self.spec, self.cells, progress=self._live.on_progress)

    def abandon(self, error: VmatrixError) -> None:
        """Write down that the run ended before any cell began; input that cannot be used leaves nothing behind."""
        self.exit_code = error.exit_code
        if self.started and isinstance(error, BadInput) and self._made:
            self.started = False
            (self.directory / RESULTS).unlink()
            with suppress(OSError):  # what somebody else put there stays
                for folder in self._made:
                    folder.rmdir()
        elif self.started:
            self._recorder.write("run-error", **describe(error))

    @property
    def _recorder(self) -> Recorder:
        return Recorder(self.directory)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self.signalled:
            os.write(2, f"\nstopped at once; what is left is taken away by: {self.cleanup}\n".encode())
            os._exit(128 + number)
        self.signalled = number
        name = signal.Signals(number).name
        os.write(2, f"\n{name}: tearing down; a second one stops at once\n".encode())
        raise Interrupted(name)

    def cells_for(self, _: str) -> tuple[Cell, ...]:
        """Return the cells that a test module's checks run on."""
        return self.cells

    def suites(self) -> frozenset[str] | None:
        """Return the suites of the tier, None (all) without a tier."""
        return frozenset(self.spec.tiers[self.tier].suites) if self.tier else None

    def life(self, cell: Cell) -> Life:
        """Return the life of a cell, the same one each time."""
        if cell.id not in self._lives:
            steps = Steps(self._recorder, cell.id, 1)
            attempt = Attempt(self.run, cell, 1, self.directory / cell.id)
            life = Life(self.site, attempt, steps)
            if self._live is not None:
                steps.listeners.append(self._live.on_step)
                life.on_task = self._live.on_task
            self._lives[cell.id] = life
        return self._lives[cell.id]

    def artifact(self, name: str, version: str) -> Path:
        """Return the directory of an artifact's files."""
        return wiring.artifact(self.settings, name, version)

    def record_check(
        self,
        cell: Cell,
        suite: str,
        name: str,
        *,
        outcome: str,
        seconds: float,
        detail: str,
        error: BaseException | None,
        asserted: bool,
        properties: Mapping[str, object],
    ) -> None:
        """Write a check's outcome down.

        A failure is the blame of its error if that has one; the product's if the check asserted it; else the harness's.
        """
        blame = ""
        if outcome == "failed":
            blame = Blame.PRODUCT.value if asserted else str(describe(error or HarnessBug(name))["blame"])
            self.life(cell).checks_failed.append(f"{suite}: {name}")
            self.console.print(f"{cell.id}: {suite}: {name.partition('[')[0]} FAILED ({seconds:.1f} s)", markup=False)
        self._recorder.write(
            "check",
            cell=cell.id,
            name=name.replace(f"[{cell.id}]", "").replace(f"[{cell.id}-", "["),
            suite=suite,
            outcome=outcome,
            seconds=round(seconds, 3),
            **({"blame": blame} if blame else {}),
            **({"detail": detail} if detail else {}),
            **({"properties": dict(properties)} if properties else {}),
        )

    def close(self, cell: Cell) -> None:
        """End a cell: collect, then tear down, unless it failed and is to be kept.

        Raises:
            Leaked: something could not be taken away.
        """
        life = self._lives.get(cell.id)
        if life is None or life.torn_down:
            return
        life.collect()
        if life.failed and self.settings.keep_on_failure and not self.signalled:
            life.torn_down = True
            self.console.print(
                f"kept for {self.settings.expiry_hours:g} h: {self._login(cell)}; "
                f"to take it away: {self.cleanup} --cell {cell.id}",
                markup=False,
            )
            self._recorder.write("kept", cell=cell.id, attempt=life.attempt.number)
            return
        life.teardown()

    def finish(self, pytest_status: int) -> int:
        """Tear down whatever is left, write the reports, and return the exit code of the run."""
        try:
            return self._finish(pytest_status)
        except Interrupted:  # the run's first signal; from here on another one ends the process
            return self._finish(pytest_status)

    def _finish(self, pytest_status: int) -> int:
        for life in list(self._lives.values()):
            try:
                self.close(life.cell)
            except Leaked as leak:
                self._leak = leak
        self._reap_strays()
        self.exit_code = self._exit_code(pytest_status)
        self._recorder.write("run-end", exit_code=self.exit_code, signal=self.signalled)
        result = load(self.directory)
        junit.write(result, self.directory / "junit.xml")
        summary.write(result, self.directory / "summary.md")
        return self.exit_code

    def _reap_strays(self) -> None:
        """Take away cells of this run that no life of this process knows (a signal may have hit in mid-creation)."""
        kept = any(life.failed for life in self._lives.values()) and self.settings.keep_on_failure
        if self._site is None or (kept and not self.signalled):
            return
        try:
            reap(self._site.cluster, Selection(run=self.run), seconds=self._site.timeouts.teardown)
        except Leaked as leak:
            self._leak = leak
        except VmatrixError as error:
            self._leak = Leaked(f"cannot tell what is left: {error.summary}", hint=self.cleanup)

    def _exit_code(self, pytest_status: int) -> int:
        if self.signalled:
            return 128 + self.signalled
        codes = {self.exit_code}
        if self._leak is not None:
            codes.add(EXIT_LEAKED)
        for cell in load(self.directory).cells:
            codes |= set(_codes(cell))
        worst = next((code for code in SEVERITY if code in codes), None)
        if worst is not None:
            return worst
        if self.exit_code:
            return self.exit_code
        return EXIT_OK if pytest_status == 0 else EXIT_HARNESS

    def show(self) -> None:
        """Print tables, failures, leaks and the reports' paths."""
        terminal.show(load(self.directory), self.console)
        if self._leak is not None:
            self.console.print(
                f"LEAKED: {self._leak.summary}\n{self._leak.detail}\nhint: {self._leak.hint}", markup=False
            )
        for name in ("summary.md", "junit.xml", "results.jsonl"):
            self.console.print(f"report: {self.directory / name}", markup=False)


def _codes(cell: CellResult) -> list[int]:
    last = max((s.attempt for s in cell.steps), default=1)
    steps = [s for s in cell.failures if s.attempt == last]
    codes = [s.exit_code or EXIT_HARNESS for s in steps]
    return codes + [BLAME_EXIT.get(c.blame, EXIT_PRODUCT) for c in cell.failed_checks]
