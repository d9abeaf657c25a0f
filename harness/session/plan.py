"""What a run will do, decided before anything is touched: its id, its cells, its settings, its directory."""

from __future__ import annotations

import secrets
import shlex
import string
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from harness import providers
from harness.cell.network import refuse_masquerade
from harness.cell.product.cached import refuse_release
from harness.cell.product.kinds import refuse_chaos, refuse_shared
from harness.errors import BadInput, NothingSelected
from harness.model import Cell
from harness.plan import PlanSelection, make_cell
from harness.plan.cells import cell_named
from harness.plan.goal import goal_of
from harness.plan.tiers import night_of
from harness.report.cell import CellResult
from harness.rundir import RunDir
from harness.schedule.shards import parse_shard, shard
from harness.schedule.sizes import CellSize
from harness.session import refusals
from harness.session.refusals import Cost, Wish
from harness.session.selection import LAST, choose, failures, find_run, measured_memory, profile_of, sizes_of
from harness.spec.models.space import MeasuredMemory
from harness.spec.options import RunRequest
from harness.spec.project import Project
from harness.spec.rules import needed
from harness.spec.settings import Settings
from harness.spec.suites import CONFORMANCE
from harness.validate.conformance.curated import load_curated
from harness.validate.expected import minor_of

RUN_ID_LENGTH = 6
ALPHABET = string.ascii_lowercase + string.digits


@dataclass(frozen=True)
class RunPlan:
    """A run before it starts.

    attempts: the number of each cell's first attempt in this run; 1 but for cells that are run again.
    rerun: whether the run's directory already holds results, to which new ones are added.
    asked: the memory (MiB) that machines of cells request, by the cells' ids, where that is not what they declare.
    only: the suites that are meant, whatever the tier says.  after: the index of the one phase whose checks are meant.
    night: which cells of the tier were meant, where its planned cells differ from night to night.
    fail_fast: whether no further cell begins once one has failed.  shell: whether a failed cell opens one.
    """

    run: str
    tier: str | None
    cells: tuple[Cell, ...]
    project: Project
    directory: Path
    command: str = ""
    attempts: Mapping[str, int] = field(default_factory=dict)
    rerun: bool = False
    fail_fast: bool = False
    shell: bool = False
    asked: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    only: frozenset[str] | None = None
    after: int | None = None
    night: date | None = None

    @property
    def files(self) -> RunDir:
        """Return what lies where in the run's directory."""
        return RunDir(self.directory)

    @property
    def provider_options(self) -> list[str]:
        """Return the options that name the run's infra cluster to another vmatrix command."""
        settings = self.project.settings
        return providers.of(settings).options(settings)

    @property
    def cleanup(self) -> str:
        """Return the command that removes everything of this run."""
        return shlex.join(["vmatrix", "reap", "--run", self.run, *self.provider_options])

    def most_at_once(self) -> int:
        """Return how many workers are worth starting: admission decides how many of them have a cell at a time."""
        settings = self.project.settings
        provider = providers.of(settings)
        pods_mib = provider.pods_mib(settings, needed(self.project.spec, self.cells))
        sizes = [CellSize(self.asked.get(cell.id, {}), "").memory_mib(cell) for cell in self.cells]
        return max(1, min(len(self.cells), provider.most_cells(sizes, pods_mib)))

    @property
    def measured(self) -> MeasuredMemory | None:
        """Return how cells are admitted by what machines took before; None where they are by what these declare."""
        return measured_memory(self.project.spec, self.project.settings)

    def suites(self) -> frozenset[str] | None:
        """Return the suites that are meant: those of the tier; None (all but those on request) without a tier."""
        if self.only is not None:
            return self.only
        return frozenset(self.project.spec.tiers[self.tier].suites) if self.tier else None

    def first_attempt(self, cell: Cell) -> int:
        """Return the number of the cell's first attempt in this run."""
        return self.attempts.get(cell.id, 1)

    def for_workers(self) -> dict[str, Any]:
        """Return what another process needs to come to the same plan, as plain data."""
        return {
            "run": self.run,
            "tier": self.tier,
            "cells": [dict(cell.values) for cell in self.cells],
            "directory": str(self.directory),
            "settings": self.project.settings.model_dump(mode="json"),
            "attempts": dict(self.attempts),
            "asked": {cell: dict(machines) for cell, machines in self.asked.items()},
        }


def refuse_unlisted(plan: RunPlan) -> None:
    """Refuse upstream's curated specs, where they are meant, for a minor that has no list of them.

    Raises:
        BadInput: as `load_curated`, for the first such cell.
    """
    for cell in plan.cells if CONFORMANCE in (plan.suites() or ()) else ():
        for phase in cell.phases:
            if version := phase.vars.get("cluster_kubernetes_version"):
                load_curated(minor_of(str(version)))


def plan_run(request: RunRequest) -> RunPlan:
    """Load and check everything that was asked for, touching nothing.

    Raises:
        BadInput: settings, matrix, tier, cell, shard or run id are wrong.  NothingSelected: no cell is left.
    """
    sourced = request.sourced()
    project = Project.load(sourced.settings)
    made = _made(project, request)
    made = replace(made, fail_fast=bool(request.fail_fast), shell=bool(request.shell))
    if made.shell:
        _refuse_without_terminal()
    refuse_unlisted(made)
    refuse_masquerade(sourced, made.cells)
    refuse_shared(project.spec, made.cells, project.settings.namespace)
    refuse_chaos(project.spec, made.cells, project.settings.chaos, on_host=providers.of(project.settings).on_host)
    refusals.refuse(refusals.RUN, Wish(project, made.cells), Cost.GIVEN)
    refuse_release(project.spec.product, project.directory, made.cells)
    providers.refuse_unusable(project, made.cells)
    return replace(made, asked=sizes_of(project.spec, project.settings).of_all(made.cells))


def plan_checks(request: RunRequest) -> RunPlan:
    """Plan to look at the checks of some cells alone: whether they could be run here does not matter.

    Raises:
        BadInput: settings, matrix, tier or cell are wrong.  NothingSelected: no cell is left.
    """
    project = Project.load(request.sourced().settings, expired_ok=True)
    return _fresh(project, request)


def _made(project: Project, request: RunRequest) -> RunPlan:
    if request.rerun_failed is not None:
        return _rerun(project, request)
    return _further(project, request) if request.into is not None else _fresh(project, request)


def _further(project: Project, request: RunRequest) -> RunPlan:
    """Plan to add cells to a run that has ended; they have its tier's suites and are of its night.

    Those that it has and that were cut off are run again.
    """
    asked = (request.tier, request.failed, request.changed_since, request.night, request.shard, request.run_id)
    if not request.cells or any(option is not None for option in asked):
        raise BadInput("--into adds cells by their ids", hint="name the cells alone: vmatrix run CELL --into RUN")
    result = find_run(project.settings.runs, request.into or LAST)
    made = _fresh(project, replace(request, run_id=result.run))
    known = {cell.id: cell for cell in result.cells if cell.id in {planned.id for planned in made.cells}}
    judged = sorted(name for name, cell in known.items() if not cell.incomplete)
    if judged:
        raise BadInput(
            f"run {result.run} has {', '.join(judged)} already",
            hint=f"leave the cells out, or try failed ones again: --rerun-failed {result.run}",
        )
    night = date.fromisoformat(result.night) if result.night else None
    attempts = _next_attempts(known.values())
    return replace(made, tier=result.tier, directory=result.directory, attempts=attempts, rerun=True, night=night)


def _next_attempts(cells: Iterable[CellResult]) -> dict[str, int]:
    """Return the number of the next attempt at each of some cells of a run."""
    return {cell.id: cell.last_attempt + bool(cell.attempts) for cell in cells}


def _fresh(project: Project, request: RunRequest) -> RunPlan:
    night = night_of(project.spec, request.tier, request.night)
    if request.night is None and request.cells and PlanSelection(request.cells).named == request.cells:
        night = None  # cells by their ids are of no night
    chosen = choose(
        project.spec,
        project.settings,
        request.cells,
        tier=request.tier,
        failed=request.failed,
        changed=request.changed_since,
        night=night,
    )
    cells = tuple(selected.cell for selected in chosen)
    if request.shard is not None:
        cells = shard(cells, parse_shard(request.shard))
    if not cells:
        raise NothingSelected(f"shard {request.shard} has no cell", hint="there are fewer cells than shards")
    run = _run_id(request.run_id)
    directory = RunDir.of(project.settings.runs, run).path
    return RunPlan(run, request.tier, cells, project, directory, request.command, night=night)


def _refuse_without_terminal() -> None:
    """Refuse a shell that nobody could type in. Raises BadInput."""
    if not (sys.stdin is not None and sys.stdin.isatty()):
        raise BadInput("--shell needs a terminal", hint="leave it out, or keep failed cells: --keep failed")


def random_id() -> str:
    """Return the id of a new run."""
    return "".join(secrets.choice(ALPHABET) for _ in range(RUN_ID_LENGTH))


def _run_id(name: str | None) -> str:
    run = name if name is not None else random_id()
    if len(run) != RUN_ID_LENGTH or not set(run) <= set(ALPHABET):
        raise BadInput(
            f"run id {run!r} is not 6 lower-case letters or digits", hint="leave out --run-id to get a random one"
        )
    return run


def plan_from(sent: Mapping[str, Any]) -> RunPlan:
    """Return the plan of the process that sent `for_workers()`."""
    project = Project.load(Settings.model_validate(sent["settings"]), expired_ok=True)  # the run has begun
    cells = tuple(make_cell(project.spec, values) for values in sent["cells"])
    directory, attempts, asked = Path(sent["directory"]), sent["attempts"], sent["asked"]
    return RunPlan(sent["run"], sent["tier"], cells, project, directory, attempts=attempts, asked=asked)


def _rerun(project: Project, request: RunRequest) -> RunPlan:
    """Plan to run the failed cells of a run again; their next attempts go into the same directory."""
    spec, settings, rerun = project.spec, project.settings, request.rerun_failed or LAST
    if request.cells or request.night is not None or request.into is not None:
        raise BadInput(
            "--rerun-failed takes the failed cells of its run", hint="leave out the cells, and the night that it had"
        )
    result = find_run(settings.runs, rerun)
    failed = set(failures(spec, settings.runs, rerun).cells)
    goal = goal_of(spec, None, profile_of(spec, settings))
    named = {name: cell for name in failed if (cell := cell_named(spec, name)) is not None}
    known = {name: cell for name, cell in named.items() if goal.allows(cell.values)}
    gone = sorted(failed - set(known))
    if gone:
        raise BadInput(
            f"the matrix no longer has {', '.join(gone)}", hint="start a new run: `vmatrix list` shows cells"
        )
    if not failed:
        raise NothingSelected(f"every cell of run {result.run} passed", hint="there is nothing to run again")
    reruns = [cell for cell in result.cells if cell.id in failed]
    return RunPlan(
        run=result.run,
        tier=result.tier,
        cells=tuple(known[cell.id] for cell in reruns),
        project=project,
        directory=result.directory,
        command=request.command,
        attempts=_next_attempts(reruns),
        rerun=True,
        night=date.fromisoformat(result.night) if result.night else None,
    )
