"""Recheck of a kept cell: which attempt it is, its life as it was left, which checks run, and what they come to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import providers, yaml_text
from harness.cell.existing import Existing, InfraAccess, existing
from harness.cell.life import Life
from harness.cell.provision import Attempt
from harness.cell.site import Site
from harness.cell.steps import Steps
from harness.errors import BadInput
from harness.events import Event, Recorder, recorded
from harness.files import read_text
from harness.machines.reach import ssh
from harness.machines.reach.ssh import control_directory
from harness.model import Cell, Environment, Machine
from harness.plan import make_cell
from harness.report.records import started_fields
from harness.report.results import load
from harness.rundir import AttemptDir, RunDir
from harness.session.cells import inspection_options
from harness.session.exit_codes import checks_code
from harness.session.plan import RunPlan
from harness.session.selection import profile_of
from harness.spec.project import Project
from harness.spec.shape import unknown
from harness.spec.suites import IDEMPOTENCE, LIFE, ON_REQUEST, suites_of


@dataclass(frozen=True)
class KeptCell:
    """A cell that exists, and what its run wrote down of it.

    index: of the phase after which it was left.  suites: those of its run's tier; None: all.
    """

    there: Existing
    cell: Cell
    run: str
    number: int
    index: int
    suites: frozenset[str] | None

    @property
    def stage(self) -> str:
        """Return the phase after which it was left."""
        return self.cell.stage(self.index)


def kept_cell(project: Project, name: str, run: str | None = None) -> KeptCell:
    """Find a cell in the infra cluster, and what its run wrote down. Raises BadInput when it cannot be checked.

    Args:
        run: the run that it is of; None: the newest.
    """
    settings = project.settings
    infra = providers.of(settings).infra(settings)
    cluster = providers.open_cluster(settings, project.timeouts)
    access = InfraAccess(cluster, infra, settings.namespace, settings.access)
    there = existing(access, name, settings.runs, run)
    number = there.number
    directory = RunDir.of(settings.runs, there.run).path
    events = recorded(directory).events
    cell = _cell(project, name, events, directory)
    index = _phase(cell, [e for e in events if e.get("cell") == name and e.get("attempt") == number])
    there.file(there.files.kubeconfig, f"the kubeconfig of {name}, which has no guest cluster without one:")
    there.file(there.files.variables, f"the file of variables of {name}")
    tier = next((e.get("tier") for e in events if e["event"] == "run-start"), None)
    known = project.spec.tiers.get(str(tier))
    return KeptCell(there, cell, there.run, number, index, frozenset(known.suites) if known is not None else None)


def _cell(project: Project, name: str, events: tuple[Event, ...], directory: Path) -> Cell:
    values = next((e["values"][name] for e in reversed(events) if name in (e.get("values") or {})), None)
    if values is None:
        raise BadInput(
            f"{directory} says nothing of cell {name}",
            hint="use the machine and directory that the run was started in, or set VMATRIX_RUNS",
        )
    axes = {axis.name for axis in project.spec.axes}
    if set(values) != axes or (made := make_cell(project.spec, values)).id != name:
        raise BadInput(
            f"the matrix has changed since cell {name} was made", hint="check it with the matrix of then, or run it"
        )
    return made


def _phase(cell: Cell, events: list[Event]) -> int:
    """Return the index of the last phase that was begun."""
    stages = [cell.stage(index) for index in range(len(cell.phases))]
    begun = [e["step"][0] for e in events if e["event"] == "step-start" and len(e["step"]) == 1]
    last = next((stage for stage in reversed(begun) if stage in stages), None)
    if last is None or not cell.phases[stages.index(last)].cluster:
        after = f"was left after {last}" if last is not None else "was left before its first phase"
        raise BadInput(f"cell {cell.id} {after}: it has no guest cluster", hint="run the cell again with --keep always")
    return stages.index(last)


@contextmanager
def joined(kept: KeptCell, site: Site, recorder: Recorder) -> Iterator[Life]:
    """Yield the cell's life as it was left; nothing of it ends with the body."""
    directory = kept.there.files.path
    attempt = Attempt(kept.run, kept.cell, kept.number, directory, site.namespace)
    life = Life(site, attempt, Steps(recorder, kept.cell.id, kept.number))
    owner = ssh.Owner(site.infra_id, time.time() + site.expiry_hours * 3600)
    with ssh.held(control_directory(kept.run, kept.cell.id), owner):
        life.join(_environment(kept, attempt, site.options), kept.index, _variables(kept))
        try:
            yield life
        finally:
            life.leave()


def _environment(kept: KeptCell, attempt: Attempt, options: tuple[str, ...]) -> Environment:
    phase = kept.cell.phases[kept.index]
    names = [name for name in phase.machines if name not in (*phase.removed, *phase.lost)]
    planned = {machine.name: machine for machine in kept.cell.machines}
    machines: list[Machine] = [replace(kept.there.machine(name), planned=planned[name]) for name in names]
    key = kept.there.file(kept.there.files.key, "the cell's private key")
    return Environment(
        run=kept.run,
        cell=kept.cell,
        attempt=kept.number,
        namespace=attempt.namespace,
        machines=tuple(machines),
        directory=attempt.directory,
        private_key=key,
        options=options,
    )


def _variables(kept: KeptCell) -> Mapping[str, Any]:
    file = kept.there.files.variables
    variables = yaml_text.document(read_text(file), file, hint="run the cell again")
    if not isinstance(variables, dict):
        raise BadInput(f"{file} holds no variables", hint="run the cell again")
    return variables


OF_PHASES = "phases"  # what happened during a phase is over


@dataclass(frozen=True)
class Recheck:
    """What is checked again: the cell, and the plan by which pytest collects its checks."""

    kept: KeptCell
    plan: RunPlan
    not_judged: tuple[str, ...]

    @property
    def subject(self) -> str:
        """Return what is checked, for a person."""
        return f"{self.kept.there.which}, as it is after {self.kept.stage}"

    @property
    def started(self) -> dict[str, Any]:
        """Return what the results say at their start; each time counts as a run of its own."""
        plan = self.plan
        return {
            "run": f"{plan.run}-check-{plan.directory.name}",
            **started_fields(
                {cell.id: cell.values for cell in plan.cells},
                infra=profile_of(plan.project.spec, plan.project.settings),
                provider=plan.project.settings.provider,
                checkout=plan.project.directory,
                directory=plan.directory,
            ),
        }

    def connect(self, environment: Environment) -> list[str]:
        """Return how checks connect to the machines."""
        return inspection_options(environment)

    def site(self, progress: Callable[[str], None]) -> Site:
        """Return the infra cluster, which is up, with the images of suites that the run may not have named."""
        return providers.join_site(self.plan.project, self.plan.cells, suites=self.plan.only or (), progress=progress)

    def joined(self, site: Site, recorder: Recorder) -> AbstractContextManager[Life]:
        """Yield the cell's life as it was left; nothing of it ends with the body."""
        return joined(self.kept, site, recorder)


def plan_recheck(project: Project, name: str, suites: Sequence[str] = (), run: str | None = None) -> Recheck:
    """Plan to check a cell again; nothing is written.

    Args:
        run: the run that the cell is of; None: the newest.

    Raises:
        BadInput: there is no such cell or suite, or nothing of the cell to check.
    """
    known = [suite for suite in suites_of(project.directory) if suite not in (LIFE, OF_PHASES)]
    for suite in suites:
        if suite == OF_PHASES:
            raise BadInput(
                "suite phases compares what was seen before and during a phase, which is over",
                hint="run the cell: vmatrix run CELL",
            )
        if suite not in known:
            raise BadInput(unknown("suite", suite, known), hint=f"suites: {', '.join(known)}")
    kept = kept_cell(project, name, run)
    unasked = kept.suites or frozenset(known) - ON_REQUEST
    meant = frozenset(suites) or frozenset(known) & unasked - {IDEMPOTENCE}  # which runs the phase once more
    directory = next_directory(kept.there.files)
    plan = RunPlan(kept.run, None, (kept.cell,), project, directory, only=meant, after=kept.index)
    phases = OF_PHASES in (kept.suites or ()) and not suites
    return Recheck(kept, plan, ("suite phases: what happened during a phase is over",) if phases else ())


def next_directory(files: AttemptDir) -> Path:
    """Return a folder for the results of the next time."""
    taken = (int(path.name) for path in files.again.glob("*") if path.name.isdecimal())
    return files.again / str(max(taken, default=0) + 1)


def verdict(plan: RunPlan) -> int:
    """Return the exit code of what the checks said."""
    return checks_code(load(plan.directory, quarantine=plan.project.spec.quarantine))
