"""`vmatrix plan`: the cells of each tier on each infra profile, what they provably cover, the files that keep them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import providers
from harness.cell.product.cached import refuse_release
from harness.cli import options
from harness.cli.options import AsJson, Verbose, former, takes
from harness.cli.output import show_left_out, show_rows, tell_idle, wide_console
from harness.errors import BadInput
from harness.files import read_text
from harness.paths import MATRIX, overlaid, settings_dir
from harness.plan import coverage
from harness.plan.build import TierPlan, lock_text, measured, plan_tier, refuse_long, refuse_unsound
from harness.plan.coverage import counts_in_words, coverage_text, impossible_by_reason, left_out
from harness.plan.goal import infra_of, tier_of
from harness.plan.lock import FILE, WRITE, current, load_lock
from harness.schedule.durations import estimate
from harness.session.selection import choose, profile_of, refuse_wrong_checks
from harness.spec import Spec, load_spec
from harness.spec.project import Project, matrix_dir, write_in_project
from harness.spec.settings import load_settings

SHOWN = 5  # impossible combinations of one reason
out = wide_console()


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(takes()(plan))


@dataclass(frozen=True)
class PlanRequest:
    """What is planned."""

    tier: Annotated[
        str | None,
        typer.Option(metavar="TIER", help="Plan only this tier, and list its cells.", autocompletion=options.tiers),
    ] = None
    infra_profile: Annotated[str | None, typer.Option(metavar="PROFILE", help="Plan only for this infra profile.")] = (
        None
    )
    former_profile: Annotated[str | None, former("--infra", "--infra-profile")] = None
    repack: Annotated[bool, typer.Option("--repack", help="Plan from scratch: ignore the cells in plan.lock.yml.")] = (
        False
    )
    nights: Annotated[
        bool, typer.Option("--nights", help="With --write, count the triples of 7 and 30 nights; takes minutes.")
    ] = False


def plan(
    request: PlanRequest,
    seed: Annotated[int, typer.Option(help="Seed for planning new cells.")] = 0,
    as_json: AsJson = False,
    write: Annotated[bool, typer.Option("--write", help="Write matrix/plan.lock.yml and matrix/COVERAGE.md.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Fail if these files are out of date; change nothing.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Plan the cells of each tier and prove what they cover."""
    tier, repack = request.tier, request.repack
    if request.nights and not write:
        raise BadInput("--nights counts what --write writes", hint="add --write")
    infra = request.infra_profile or request.former_profile
    if check and (write or repack or tier or infra):
        raise BadInput("--check covers all tiers and excludes other options", hint="leave out the other options")
    directory = matrix_dir()
    spec = load_spec(directory)
    tell_idle(spec)
    chosen = _chosen(spec, tier, infra)
    lock = load_lock(directory, replacing=write)
    plans = tuple(
        plan_tier(spec, t, i, lock, repack=repack and (t, i) in chosen, seed=seed)
        for i in spec.infras
        for t in spec.tiers
        if write or check or (t, i) in chosen
    )
    if write or repack:
        plans = tuple(measured(spec, p, lock, nights=request.nights) for p in plans)
    shown = [p for p in plans if (p.tier, p.infra) in chosen]
    if not check:
        _show(spec, shown, as_json=as_json, cells=tier is not None)
        if not as_json:
            notes = list(dict.fromkeys(line for tier_plan in shown for line in _notes(tier_plan)))
            show_left_out(out, notes, "vmatrix plan", verbose=verbose)
    refuse_unsound(spec, plans, directory, estimate)
    if write:
        cells = [cell for plan in plans for cell in plan.cells]
        project = Project.load(load_settings(settings_dir()).settings)
        refuse_release(spec.product, project.directory, cells)
        providers.refuse_unprovided(project, cells)
    texts = {FILE: lock_text(spec, plans), coverage.FILE: coverage_text(spec, plans)} if write or check else {}
    if check:
        _check(directory, texts, plans)
        refuse_long(plans)
    for name, text in texts.items() if write else ():
        write_in_project(directory / name, text)
        out.print(f"written: {directory / name}")
    _refuse_wrong_checks(directory, shown)


def _refuse_wrong_checks(directory: Path, plans: Sequence[TierPlan]) -> None:
    """End this process if own checks of cells that can be run now cannot be used; a plan that is out of date has none.

    Raises:
        SystemExit: there are mistakes; they are printed.
    """
    project, lock = Project.load(load_settings(settings_dir()).settings), load_lock(directory)
    profile = profile_of(project.spec, project.settings)
    for plan in plans:
        there = plan.infra == profile and (plan.pinned or plan.planned)
        if there and (plan.proof is None or current(project.spec, plan.tier, plan.infra, lock, plan.goal)):
            cells = choose(project.spec, project.settings, tier=plan.tier)
            refuse_wrong_checks(project, cells, plan.tier)


def _chosen(spec: Spec, tier: str | None, infra: str | None) -> frozenset[tuple[str, str]]:
    if tier is not None:
        tier_of(spec, tier)
    if infra is not None:
        infra_of(spec, infra)
    return frozenset((t, i) for t in spec.tiers for i in spec.infras if tier in (None, t) and infra in (None, i))


def _check(directory: Path, texts: dict[str, str], plans: Sequence[TierPlan]) -> None:
    present = {name: overlaid(MATRIX, name) for name in texts}  # a project without plans of its own has the packaged
    stale = [n for n, t in texts.items() if not (f := present[n]).exists() or read_text(f) != t]
    if stale:
        changes = [
            f"{p.tier} on {p.infra}: {len(p.new)} new cells, {len(p.dropped)} dropped"
            for p in plans
            if p.new or p.dropped
        ]
        raise BadInput(
            f"out of date: {', '.join(str(directory / name) for name in stale)}",
            detail="\n".join(changes),
            hint=WRITE,
        )
    out.print(f"{', '.join(texts)} are up to date")


def _show(spec: Spec, plans: Sequence[TierPlan], *, as_json: bool, cells: bool) -> None:
    if as_json:
        out.print_json(json.dumps([_as_json(tier_plan) for tier_plan in plans]))
        return
    headings = (
        *("infra", "tier", "pinned", "planned", "kept", "new", "dropped"),
        *("from scratch", "at least", "possible combinations covered"),
    )
    show_rows(out, headings, [_numbers(tier_plan) for tier_plan in plans], whole=("infra", "tier"))
    if cells:
        for tier_plan in plans:
            _print_cells(spec, tier_plan)
    else:
        out.print("--tier TIER shows a tier's cells; matrix/COVERAGE.md has all of them")


def _notes(tier_plan: TierPlan) -> Iterator[str]:
    yield from (f"{tier_plan.tier} on {tier_plan.infra}: {sentence}" for sentence in tier_plan.absent)
    for why, values in left_out(tier_plan, "infra").items():
        yield f"left out on {tier_plan.infra}: {'; '.join(values)}: {why}"
    for why, values in (left_out(tier_plan, "product") | left_out(tier_plan, "tier")).items():
        yield f"left out: {'; '.join(values)}: {why}"
    for reasons, combinations in impossible_by_reason(tier_plan).items():
        more = f" and {len(combinations) - SHOWN} more" if len(combinations) > SHOWN else ""
        some = ", ".join(map(str, combinations[:SHOWN]))
        yield f"no cell on {tier_plan.infra} can have {some}{more}: {'; '.join(reasons)}"


def _numbers(p: TierPlan) -> tuple[str, ...]:
    numbers = (len(p.pinned), len(p.planned), len(p.kept), len(p.new), len(p.dropped))
    return (p.infra, p.tier, *map(str, numbers), p.figures.scratch or "", p.figures.least or "", counts_in_words(p))


def _print_cells(spec: Spec, tier_plan: TierPlan) -> None:
    rows = [
        (
            cell.id,
            _state(tier_plan, cell.id),
            str(len(cell.machines)),
            f"{estimate(cell) / 60:.0f}",
            *cell.values.values(),
        )
        for cell in tier_plan.cells
    ]
    dropped = [(cell_id, "dropped") for cell_id in tier_plan.dropped]
    out.print(f"{tier_plan.tier} on {tier_plan.infra}", style="italic")
    show_rows(out, ("cell", "is", "machines", "minutes", *(axis.name for axis in spec.axes)), [*rows, *dropped])


def _state(tier_plan: TierPlan, cell_id: str) -> str:
    if cell_id in tier_plan.kept:
        return "kept"
    return "new" if cell_id in tier_plan.new else "pinned"


def _as_json(tier_plan: TierPlan) -> dict[str, Any]:
    counts = tier_plan.proof.counts if tier_plan.proof is not None else ()
    impossible = tier_plan.proof.impossible if tier_plan.proof is not None else ()
    return {
        "infra": tier_plan.infra,
        "tier": tier_plan.tier,
        "cells": [
            {
                "id": cell.id,
                "state": _state(tier_plan, cell.id),
                "values": dict(cell.values),
                "machines": len(cell.machines),
                "seconds": estimate(cell),
            }
            for cell in tier_plan.cells
        ],
        "dropped": list(tier_plan.dropped),
        "from_scratch": int(tier_plan.figures.scratch) if tier_plan.figures.scratch is not None else None,
        "at_least": int(tier_plan.figures.least) if tier_plan.figures.least is not None else None,
        "left_out": [{"axis": o.axis, "value": o.value, "why": o.why} for o in tier_plan.goal.left_out],
        "not_runnable": list(tier_plan.absent),
        "covered": [{"what": c.what, "feasible": c.feasible, "covered": c.covered} for c in counts],
        "impossible": [{"values": dict(i.combination.values), "why": list(i.why)} for i in impossible],
    }
