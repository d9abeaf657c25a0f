"""The lives of the cells in one process: opened on demand, their checks written down, each closed in its turn.

Used by a run that goes cell by cell, and by each worker of one that goes side by side.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from harness import providers
from harness.artifacts.catalogue import KUBERNETES
from harness.artifacts.refs import tested
from harness.cell.life import Life
from harness.cell.network import mirror_of
from harness.cell.provision import Attempt
from harness.cell.site import Site
from harness.cell.steps import Listener, Steps, describe
from harness.check_result import CheckResult
from harness.errors import Blame, HarnessBug, Leaked, VmatrixError
from harness.events import Recorder
from harness.kube.failures import ApiFailure, Unreachable
from harness.machines.reach.portforward import lost_since
from harness.machines.reach.ssh import DIES_WITH_US, control_directory, ssh_command, ssh_options
from harness.model import Cell, Environment, Outcome
from harness.session.plan import RunPlan
from harness.until import TimedOut
from harness.validate.phases.monitor import PhaseMonitor

RECENT_SECONDS = 10.0  # looks back, not a wait: a tunnel that failed this recently explains a silent API
OVERLOAD_SECONDS = 10.0  # for so long is what hosts said of their load the truth


def of_the_guest(error: BaseException | None, *, asserted: bool) -> bool:
    """Tell whether a check found the failure in the guest.

    It did so by its assertion, because it waited there in vain, or because the guest's API, the only one that checks
    ask, refused it or did not answer.
    """
    return asserted or isinstance(error, TimedOut | ApiFailure | Unreachable)


def blame_of(error: BaseException | None, *, asserted: bool, own: bool = False, check: str = "a check") -> Blame:
    """Return whose fault a failed check is while machines and the way to them are what they were.

    Args:
        asserted: whether the check itself found the failure.
        own: whether the error came out of the project's own code.
    """
    if of_the_guest(error, asserted=asserted):
        return Blame.PRODUCT
    if own and not _known(error):
        return Blame.USER
    return Blame(str(describe(error or HarnessBug(check))["blame"]))


def _known(error: BaseException | None) -> bool:
    """Tell whether an error, or one of a group, says by itself whose fault it is."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_known, error.exceptions))
    return isinstance(error, VmatrixError)


def cut_off(tunnels: Path | None) -> str:
    """Say why the way to the machines was just cut; "" where it was not."""
    broken = lost_since(tunnels, time.time() - RECENT_SECONDS)
    return f"the tunnel to a machine broke: {broken[-1].why}" if broken else ""


def monitor_of(life: Life) -> PhaseMonitor:
    """Return the monitor of a cell's phases; the life calls it around each of them."""
    monitor = PhaseMonitor(
        cell=life.cell,
        registry=mirror_of(life.site.mirror, life.cell.vars).images,
        timeouts=life.site.timeouts,
        leaves=life.site.product_of(life.cell).cluster,
        ssh_options=inspection_options,
        ssh_command=lambda environment, machine: [*DIES_WITH_US, *ssh_command(machine, environment.private_key)],
        step=life.steps.step,
    )
    life.watch = monitor.watch
    return monitor


def inspection_options(environment: Environment) -> list[str]:
    """Return how checks connect to a cell's machines: over shared connections, whose directory is there then."""
    control = control_directory(environment.run, environment.cell.id)
    control.mkdir(mode=0o700, exist_ok=True)
    seconds = max(machine.connect_seconds for machine in environment.machines)
    return ssh_options(environment.private_key, control, environment.tunnels, connect_seconds=seconds)


@dataclass
class Cells:
    """Cells under way.

    open_site: gives the infra cluster, which is up by the time that a cell asks for it.
    admit: waits until there is room for a cell; raises when there will be none.
    """

    plan: RunPlan
    open_site: Callable[[], Site]
    console: Console
    admit: Callable[[Cell, Steps], None] = lambda _cell, _steps: None
    listeners: list[Listener] = field(default_factory=list)
    on_task: Callable[[str], None] = lambda _: None
    keep: bool = True  # whether a cell may be kept at all: not once the run was interrupted
    connect: Callable[[Environment], list[str]] = inspection_options  # ssh's options for checks
    shell: Callable[[Life], None] | None = None  # opened for a failed cell before it ends
    leak: Leaked | None = None
    _site: Site | None = None
    _lives: dict[str, Life] = field(default_factory=dict)
    _monitors: dict[str, PhaseMonitor] = field(default_factory=dict)
    _overloads: dict[str, tuple[float, str]] = field(default_factory=dict)  # when it was asked, by cell

    @property
    def site(self) -> Site:
        """Return the infra cluster of the run."""
        if self._site is None:
            self._site = self.open_site()
        return self._site

    @property
    def stopped(self) -> bool:
        """Tell whether no further cell is to begin: one has failed, and that is enough."""
        return self.plan.fail_fast and any(life.failed for life in self._lives.values())

    def begun(self, cell: Cell) -> bool:
        """Tell whether anything of a cell was asked for."""
        return cell.id in self._lives

    @property
    def recorder(self) -> Recorder:
        """Return where results go."""
        return Recorder(self.plan.directory)

    def life(self, cell: Cell) -> Life:
        """Return the life of a cell, the same one each time."""
        if cell.id not in self._lives:
            number = self.plan.first_attempt(cell)
            steps = Steps(self.recorder, cell.id, number)
            steps.listeners += self.listeners
            directory = self.plan.files.attempt(cell.id, number).path
            asked = self.plan.asked.get(cell.id, {})
            attempt = Attempt(self.plan.run, cell, number, directory, self.site.namespace, asked=asked)
            life = Life(self.site, attempt, steps, measured=self.plan.measured is not None)
            life.on_task = self.on_task
            self._lives[cell.id] = life
            self._monitors[cell.id] = monitor_of(life)
        return self._lives[cell.id]

    def adopt(self, life: Life) -> None:
        """Take the life of a cell that is there already."""
        self._lives[life.cell.id] = life
        self._monitors[life.cell.id] = monitor_of(life)

    def monitor(self, cell: Cell) -> PhaseMonitor:
        """Return the monitor of a cell's phases, the same one each time."""
        self.life(cell)
        return self._monitors[cell.id]

    def begin(self, cell: Cell) -> Life:
        """Open a cell's life once there is room for it. Raises InfraError when there is none in time."""
        life = self.life(cell)
        if life.environment is None and life.failure is None:
            try:
                self.admit(cell, life.steps)
            except VmatrixError as refused:
                life.failure = refused
                raise
        return life

    def artifact(self, name: str, version: str) -> Path:
        """Return the directory of an artifact's files.

        Of a Kubernetes version that no catalogue knows, those of the newest release of its minor. Raises BadInput
        where there is none.
        """
        project = self.plan.project
        store = providers.store_of(project.settings, project.timeouts)
        if store.catalogue.program(name).versions == KUBERNETES:
            version = tested(store.catalogue, version) or version
        return store.obtain(name, version).directory / "files"

    def record_check(
        self, cell: Cell, check: CheckResult, error: BaseException | None = None, *, asserted: bool, own: bool = False
    ) -> None:
        """Write a check's result down, and whose fault a failure is.

        It is the infra's if the machines are not what they were, the way to them was cut, or their host was too busy
        for a cluster to be in time.

        Args:
            error: what failed.  asserted, own: as `blame_of` takes them.
        """
        life = self.life(cell)
        check = replace(check, attempt=life.attempt.number)
        if check.outcome is Outcome.FAILED:
            blame = blame_of(error, asserted=asserted, own=own, check=check.name)
            infra = ""
            if of_the_guest(error, asserted=asserted) and (changed := life.machines_changed(_there(life))):
                infra = f"the infra cluster changed machines in the meantime: {changed}"
            elif isinstance(error, Unreachable):
                infra = cut_off(_tunnels(life))
            if not infra and blame is Blame.PRODUCT and (busy := self._overload(life)):
                infra = f"not judged, because the host was too busy: {busy}"
            check = replace(check, blame=(Blame.INFRA if infra else blame).value, infra=infra)
            life.checks_failed.append(check.title)
            failed = f"{cell.id}: {check.title} FAILED ({check.seconds:.1f} s)"
            self.console.print(failed)
        self.recorder.write("check", cell=cell.id, **check.event())

    def record_step(self, cell: Cell, name: str, error: Exception) -> None:
        """Record the error of an item about a step as a step of its own, unless a step had it: it is a bug of ours."""
        life = self._lives.get(cell.id)
        if life is not None and life.steps.error is not error:
            with suppress(type(error)), life.steps.step(name):
                raise error

    def _overload(self, life: Life) -> str:
        """Say where a cell's hosts were too busy, as of the last seconds: many checks fail at once."""
        asked, overload = self._overloads.get(life.cell.id, (-OVERLOAD_SECONDS, ""))
        if time.monotonic() - asked >= OVERLOAD_SECONDS:
            overload = life.overload()
            self._overloads[life.cell.id] = time.monotonic(), overload
        return overload

    def close(self, cell: Cell) -> None:
        """End a cell: collect, then tear down, unless it is to be kept.

        Raises:
            Leaked: something could not be removed.
        """
        life = self._lives.get(cell.id)
        if life is None or life.torn_down or life.kept:
            return
        life.collect()
        if life.failed and self.shell is not None and self.keep:
            self.shell(life)
        settings = self.plan.project.settings
        if self.keep and settings.keeps in ("always", "failed" if life.failed else "always"):
            life.kept = True
            message = (
                f"kept for {settings.expiry_hours:g} h: {self._login(cell)}; "
                f"to remove it: {self.plan.cleanup} --cell {cell.id}"
            )
            self.console.print(message)
            self.recorder.write("kept", cell=cell.id, attempt=life.attempt.number, said=message)
            return
        life.teardown()

    def close_all(self) -> None:
        """End every cell that is still open; what cannot be removed is remembered in `leak`."""
        for life in list(self._lives.values()):
            try:
                self.close(life.cell)
            except Leaked as leak:
                self.leak = leak
            except (VmatrixError, OSError) as error:  # an API that is gone, a full disk: the others have to end, too
                self.leak = Leaked(
                    f"cell {life.cell.id} could not be removed: {error}",
                    hint=f"once that is repaired: {self.plan.cleanup}",
                    detail=getattr(error, "detail", ""),
                )

    def _login(self, cell: Cell) -> str:
        options = shlex.join(self.plan.provider_options)
        return " ".join(word for word in ("vmatrix login", options, cell.id, "MACHINE") if word)


def _tunnels(life: Life) -> Path | None:
    """Return the file of the tunnels to a cell's machines; None where they are reached directly."""
    return life.guests[-1].environment.tunnels if life.guests else None


def _there(life: Life) -> set[str]:
    """Return the machines that a cell should have now."""
    return {machine.name for machine in life.guests[-1].environment.machines} if life.guests else set()
