"""From what a person asked for to cells: the infra profile by the settings, failures and changes looked up."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import proc, providers
from harness.errors import EXIT_NOTHING_SELECTED, EXIT_OK, BadInput
from harness.interpreter import PYTEST, call
from harness.paths import packaged_dir, project_dir
from harness.plan.changed import changed_since
from harness.plan.select import Failed, PlanSelection, Selected, selected
from harness.rundir import RunDir
from harness.schedule.sizes import Sizes
from harness.spec import Spec
from harness.spec.models.space import MeasuredMemory
from harness.spec.options import RunRequest
from harness.spec.project import Project
from harness.spec.settings import Settings, Sourced
from harness.spec.suites import CHECKS, own_suites

if TYPE_CHECKING:
    from harness.report.results import RunResult

LAST = "last"
SHOWN = 5  # lines of a results file that are named; more are counted
MOST_CELLS = 20  # whose checks are looked at before a run: conditions differ by phases and few values
LOADING_SECONDS = 300.0  # against hanging: a file of checks may do anything when it is loaded


def project_of(values: Mapping[str, Any], resolved: Sourced | None = None) -> Project:
    """Return the project with the settings that were given as options, unless they are resolved already.

    It is for what is asked about cells that there are: a run of new ones judges by itself what has expired.
    """
    return Project.load(RunRequest.of(values, resolved=resolved).sourced().settings, expired_ok=True)


def choose(
    spec: Spec,
    settings: Settings,
    filters: Sequence[str] = (),
    *,
    tier: str | None = None,
    failed: str | None = None,
    changed: str | None = None,
    night: date | None = None,
) -> tuple[Selected, ...]:
    """Return the cells that are meant, on the infra profile that the settings lead to.

    Args:
        filters: ids, globs, AXIS=VALUE.  failed: a run's id or "last": only its cells that did not pass.
        changed: a git revision: only cells that the files changed since can affect, and one more.
        night: that of a tier whose planned cells differ from night to night; None for the cells of the lock.

    Raises:
        BadInput: one of them is wrong.  NothingSelected: no cell is left.
    """
    selection = PlanSelection(
        filters=tuple(filters),
        tier=tier,
        failed=None if failed is None else failures(spec, settings.runs, failed),
        changed=None if changed is None else changed_since(project_dir(), changed),
        night=night,
    )
    return selected(spec, profile_of(spec, settings), selection)


def words_of_own(project: Path, suites: Collection[str] | None) -> list[str]:
    """Return the words of a pytest call that are about a project's own checks; none where no suite of them is meant.

    Raises:
        BadInput: pytest would read another path for the project's: it fills in variables.
    """
    own = project / CHECKS
    if not any(suites is None or suite.name in suites for suite in own_suites(project)):
        return []
    if (read := os.path.expandvars(project)) != str(project):
        raise BadInput(
            f"the project's path {project} has a variable in it, and pytest, which runs {own}, would read {read}",
            hint="rename that folder, so that no variable's name comes after '$'",
        )
    settings = ["-c", str(packaged_dir() / "pyproject.toml"), "--rootdir", str(project), "--confcutdir", str(own)]
    return [str(own), *settings]


def refuse_wrong_checks(project: Project, chosen: Sequence[Selected], tier: str | None) -> None:
    """End this process if own checks of some cells cannot be used, with all mistakes, as a run of the cells does.

    Raises:
        SystemExit: there are mistakes; they are printed.
    """
    suites = project.spec.tiers[tier].suites if tier else None
    words = words_of_own(project.directory, suites)
    if not words or not chosen:
        return
    words += ["-p", "no:cacheprovider", "--collect-only", "-q", "--own-checks", *(["--tier", tier] if tier else [])]
    words += [word for selected in chosen[:MOST_CELLS] for word in ("--cell", selected.cell.id)]
    words += ["--provider", project.settings.provider]
    words += ["--infra-profile", profile_of(project.spec, project.settings)]
    done = proc.run(call(PYTEST, *words), timeout=LOADING_SECONDS, check=False)
    if done.returncode not in (EXIT_OK, EXIT_NOTHING_SELECTED):
        sys.stderr.write(done.stderr)
        raise SystemExit(done.returncode)


def profile_of(spec: Spec, settings: Settings) -> str:
    """Return the infra profile (matrix/infras.yml) that the settings lead to.

    Raises:
        BadInput: no profile is that of the provider.
    """
    if settings.infra_profile is not None:
        return settings.infra_profile
    provider = providers.machines_like(settings)
    profiles = [name for name, infra in spec.infras.items() if infra.provider == provider]
    if not profiles:
        raise BadInput(
            f"matrix/infras.yml has no infra profile for provider {settings.provider}",
            hint="set `provider` of one of them, or choose one with --infra-profile",
        )
    return profiles[0]


def measured_memory(spec: Spec, settings: Settings) -> MeasuredMemory | None:
    """Return how cells are admitted by what machines took before; None where they are by what these declare."""
    profile = spec.infras.get(profile_of(spec, settings))
    return profile.measured_memory if profile is not None else None


def sizes_of(spec: Spec, settings: Settings) -> Sizes:
    """Return what the history says that the machines of cells take, where that counts."""
    sizes = Sizes.load(settings, os.environ, measured_memory(spec, settings))
    return replace(sizes, others=lambda cell: spec.product_of(cell.values).makes_machines)


def failures(spec: Spec, runs: Path, run: str) -> Failed:
    """Return the cells of a run that did not pass; what is in quarantine did as far as it can.

    Raises:
        BadInput: there is no such run, or what is known of it does not say that every cell passed.
    """
    from harness.model import Outcome
    from harness.report.results import excused  # results are only read where somebody asks for a run

    result = find_run(runs, run)
    cells = (excused(cell, result.values.get(cell.id, {}), spec.quarantine) for cell in result.cells)
    failed = tuple(cell.id for cell in cells if cell.outcome not in (Outcome.PASSED, Outcome.QUARANTINED))
    if not failed:
        _refuse_unknown(result)
    return Failed(result.run, failed)


def _refuse_unknown(result: RunResult) -> None:
    """Refuse a run of whose cells none failed, if its results may lack one."""
    results = RunDir(result.directory).results
    begun = bool(result.sessions and result.sessions[0].cells)
    if begun and not result.foreign:
        return
    known = f"all {len(result.cells)} cells with results passed" if result.cells else "no cell has results"
    lines = f"no run wrote line {', '.join(map(str, result.foreign[:SHOWN]))} of it" if result.foreign else ""
    more = f" and {len(result.foreign) - SHOWN} more" if len(result.foreign) > SHOWN else ""
    start = "" if begun else "it does not say which cells the run had"
    why = "; ".join(part for part in (known, start, f"{lines}{more}", result.error) if part)
    raise BadInput(
        f"{results} does not say whether every cell of run {result.run} passed: {why}",
        hint="run the cells again: `vmatrix list` shows them",
        paths=[results],
    )


def find_run(runs: Path, run: str) -> RunResult:
    """Load a run by its id, or the one that was written to last. Raises BadInput when there is none."""
    from harness.report.results import load

    if run == LAST:
        newest = max(RunDir.all_in(runs), key=lambda run: run.results.stat().st_mtime, default=None)
        if newest is None:
            raise BadInput(f"there is no run in {runs}", hint="give the directory of run results with --runs")
        return load(newest.path.resolve())
    named = RunDir.of(runs, run)
    if not named.results.is_file():
        raise BadInput(
            f"there is no run {run!r} in {runs}",
            hint="its directories are run ids; `last` is the newest run",
        )
    return load(named.path)
