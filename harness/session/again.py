"""The checks of a cell that was kept, once more: which, where what they say goes, and what they come to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import providers
from harness.cell.life import Life
from harness.cell.site import Site
from harness.errors import BadInput
from harness.model import Environment
from harness.record import Recorder
from harness.report.records import started_fields
from harness.report.results import load
from harness.rundir import AttemptDir
from harness.session.choice import profile_of
from harness.session.kept import KeptCell, joined, kept_cell
from harness.session.plan import RunPlan
from harness.session.verdict import checks_code
from harness.session.witness import inspection_options
from harness.spec.project import Project
from harness.spec.shape import unknown
from harness.spec.suites import IDEMPOTENCE, LIFE, ON_REQUEST, suites_of

OF_PHASES = "phases"  # what happened during a phase is over


@dataclass(frozen=True)
class CheckAgain:
    """What is checked again: the cell, and the plan by which pytest collects its checks."""

    kept: KeptCell
    plan: RunPlan
    not_judged: tuple[str, ...]

    @property
    def subject(self) -> str:
        """Return what is checked, for a person."""
        return f"{self.kept.cell.id} as it is after {self.kept.stage}"

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


def plan_again(project: Project, name: str, suites: Sequence[str] = ()) -> CheckAgain:
    """Plan to check a cell again; nothing is written.

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
    kept = kept_cell(project, name)
    unasked = kept.suites or frozenset(known) - ON_REQUEST
    meant = frozenset(suites) or frozenset(known) & unasked - {IDEMPOTENCE}  # which runs the phase once more
    directory = next_directory(kept.there.files)
    plan = RunPlan(kept.run, None, (kept.cell,), project, directory, {}, only=meant, after=kept.index)
    phases = OF_PHASES in (kept.suites or ()) and not suites
    return CheckAgain(kept, plan, ("suite phases: what happened during a phase is over",) if phases else ())


def next_directory(files: AttemptDir) -> Path:
    """Return a folder for the results of the next time."""
    taken = (int(path.name) for path in files.again.glob("*") if path.name.isdecimal())
    return files.again / str(max(taken, default=0) + 1)


def verdict(plan: RunPlan) -> int:
    """Return the exit code of what the checks said."""
    return checks_code(load(plan.directory, quarantine=plan.project.spec.quarantine))
