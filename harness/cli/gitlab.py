"""`vmatrix gitlab generate | cell | after | reap | note | doctor`: what the jobs of .gitlab-ci.yml call."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, get_args

import typer

import harness
from harness import proc, providers
from harness.cli import doctor, run
from harness.cli.doctor import show, use_of_plan
from harness.cli.options import CLUSTER
from harness.cli.output import show_rows, wide_console
from harness.cli.plain import CommandSet
from harness.errors import EXIT_BAD_INPUT, EXIT_OK, BadInput, InfraError, NothingSelected
from harness.files import read_text
from harness.gitlab import child, job_end, note
from harness.gitlab import issues as issue_tracker
from harness.gitlab.access import forget, without_authority
from harness.gitlab.child import PipelineScope, Tiers, changed_checks, compared, job_times, on_change, scope_of
from harness.gitlab.doctor import (
    USUAL_MIB,
    clock_findings,
    job_findings,
    refuse_other_release,
    time_findings,
    token_findings,
    upload_findings,
)
from harness.gitlab.job import (
    CellContext,
    Pipeline,
    ending_context,
    job_context,
    read_job,
    read_pipeline,
    refuse_other_checkout,
    refuse_overridden,
)
from harness.gitlab.job_end import annotate, put_aside
from harness.gitlab.limits import broken
from harness.infra.findings import Finding, fatal
from harness.interpreter import vmatrix_call
from harness.paths import settings_dir
from harness.plan.changed import Changes, changed_since
from harness.plan.select import PlanSelection, Selected, selected
from harness.plan.tiers import night_of, tier_cells
from harness.report.output.files import NOTE
from harness.report.results import load
from harness.schedule.durations import Durations
from harness.session import refusals
from harness.session.exit_codes import worst
from harness.session.recheck import OF_PHASES
from harness.session.reporting import Asked, looked_at
from harness.session.selection import profile_of
from harness.spec import Spec
from harness.spec.project import Project
from harness.spec.settings import Settings, load_settings
from harness.spec.suites import LIFE

app = CommandSet(no_args_is_help=True, help="Commands for the jobs of a GitLab pipeline.")
MARK = "vmatrix"
NIGHT = "MATRIX_NIGHT"  # the date whose cells are run, where a tier has other cells every night
# Variables of a pipeline that its child's jobs need, too.
PASSED_ON = tuple(f"MATRIX_{word}" for word in ("INFRA", "NAMESPACE", "FROM", "REF", "PRODUCT", "ONLY"))
out = wide_console()


@app.command()
def generate(
    output: Annotated[Path, typer.Option(help="File of the child pipeline.")] = Path("matrix.yml"),
    smoke: Annotated[str, typer.Option(envvar="MATRIX_SMOKE_TIER", help="Tier of the smoke job.")] = "smoke",
    change: Annotated[str, typer.Option(envvar="MATRIX_CHANGE_TIER", help="Tier for merge requests.")] = "mr",
    nightly: Annotated[str, typer.Option(envvar="MATRIX_NIGHTLY_TIER", help="Tier for nightly pipelines.")] = "nightly",
    image: Annotated[str, typer.Option(envvar="MATRIX_IMAGE", help="Container image of the jobs.")] = "",
    tag: Annotated[str, typer.Option(envvar="MATRIX_RUNNER_TAG", help="Runner tag of the jobs.")] = "",
    history: Annotated[str, typer.Option(envvar="MATRIX_HISTORY", help="Setting report_history of the jobs.")] = "",
) -> None:
    """Select the pipeline's cells and write a child pipeline with a job for each."""
    refuse_other_release(os.environ, version=harness.__version__)
    _refuse_wrong({"--image": image, "--tag": tag}, history)
    pipeline, context = read_pipeline(os.environ), _context_of_plan()
    asked = scope_of(pipeline, Tiers(smoke, change, nightly), context.project.spec)
    wish, changes = compared(context.job.directory, asked)
    spec = context.project.spec
    night = _night(spec, wish.tier, pipeline)
    cells, nothing = _cells(context, wish, changes, night)
    jobs = [(wish.tier, planned) for planned in cells] + _more(context, wish, changes)
    parts = child.Child(
        name=wish.why,
        image=image,
        tag=tag,
        merge_request=pipeline.merge_request,
        variables={
            **{name: os.environ[name] for name in PASSED_ON if os.environ.get(name)},
            **({NIGHT: str(night)} if night is not None else {}),
        },
        expiry_hours=context.settings.expiry_hours,
        history=history,
        prefix=context.job.prefix,
    )
    kept = {"report_history": history} if history else {}
    durations = Durations.load(context.settings.model_copy(update=kept), os.environ)
    document = child.render(parts, [_job(context, tier, planned, durations) for tier, planned in jobs], nothing=nothing)
    text = child.text(document)
    problems = broken(document, size=len(text.encode()))
    if problems:
        raise BadInput(
            "the child pipeline exceeds limits of GitLab", detail="\n".join(problems), hint="choose a smaller tier"
        )
    output.write_text(text, encoding="utf-8")
    out.print(f"{wish.why}: {len(jobs)} cells")
    if not jobs:
        out.print(nothing)
        return
    rows = [(planned.cell.id, str(len(planned.cell.machines)), planned.why) for _, planned in jobs]
    show_rows(out, ("cell", "machines", "why"), rows)


STORES = get_args(Settings.model_fields["report_history"].annotation)
UNFIT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def _refuse_wrong(words: Mapping[str, str], history: str) -> None:
    """Refuse what no job of the child pipeline could use: it would fail there, one job after another."""
    if history and history not in STORES:
        raise BadInput(
            f"MATRIX_HISTORY (--history) is {history!r}, which keeps no history",
            hint=f"use {' or '.join(STORES)}; it is the template's input `history`",
        )
    given = {**words, **{name: os.environ.get(name, "") for name in PASSED_ON}}
    for name, value in given.items():
        if UNFIT.search(value):
            raise BadInput(
                f"{name} {value!r} is more than one line of text", hint="remove what is not a letter or sign"
            )


def _context_of_plan() -> CellContext:
    """Read what a plan needs, and say what CI/CD variables override."""
    overridden = refuse_overridden(os.environ)
    context = job_context(os.environ, infra=False)
    refuse_other_checkout(os.environ, context.job.directory)
    for line in overridden:
        out.print(f"warning: {line}")
    return context


def _night(spec: Spec, tier: str, pipeline: Pipeline) -> date | None:
    """Return the night of a pipeline; BadInput by the name of its variable."""
    typed = os.environ.get(NIGHT) or (pipeline.created if spec.tiers[tier].rotates else None)
    try:
        return night_of(spec, tier, typed)
    except BadInput as wrong:  # which speaks of the option
        hint = wrong.hint.replace("--night ", f"{NIGHT}=")
        raise BadInput(wrong.summary.replace("--night", NIGHT), hint=hint) from wrong


def _cells(
    context: CellContext, wish: PipelineScope, changes: Changes | None, night: date | None
) -> tuple[tuple[Selected, ...], str]:
    """Return the cells that are wanted; without any, why."""
    spec, infra = context.project.spec, profile_of(context.project.spec, context.settings)
    done = {cell.id for cell in tier_cells(spec, wish.besides, infra)} if wish.besides else set()
    try:
        chosen = selected(spec, infra, PlanSelection(tier=wish.tier, changed=changes, night=night))
    except NothingSelected as nothing:
        return (), "\n".join(line for line in (nothing.summary, nothing.detail) if line)
    left = tuple(one for one in chosen if one.cell.id not in done)
    return left, "" if left else f"every cell of tier {wish.tier} has run in tier {wish.besides} of this pipeline"


def _more(context: CellContext, wish: PipelineScope, changes: Changes | None) -> list[tuple[str, Selected]]:
    """Return the cells of further tiers: all that a schedule runs, the pinned ones that a change asks for."""
    spec, infra = context.project.spec, profile_of(context.project.spec, context.settings)
    asked = on_change(spec, changes) if changes is not None else {}
    more: list[tuple[str, Selected]] = []
    for tier in (*wish.also, *(name for name in asked if name not in (wish.tier, wish.besides))):
        try:
            cells = selected(spec, infra, PlanSelection(tier=tier))
        except NothingSelected as nothing:
            out.print(f"tier {tier}: {nothing.summary}")
            continue
        if tier in asked:
            pinned = (planned for planned in cells if planned.cell.values in spec.tiers[tier].pinned)
            cells = tuple(replace(planned, why=f"{asked[tier]} changed") for planned in pinned)
        more += [(tier, planned) for planned in cells]
    return more


def _job(context: CellContext, tier: str, planned: Selected, durations: Durations) -> child.CellJob:
    timeouts = context.timeouts
    suites = context.project.spec.tiers[tier].suites
    times = job_times(planned.cell, suites, timeouts, durations.expected(planned.cell).seconds)
    return child.CellJob(planned.cell.id, tier, times, planned.why)


@app.command()
def cell() -> None:
    """Run the cell MATRIX_CELL, or all cells of tier MATRIX_TIER."""
    refuse_other_release(os.environ, version=harness.__version__)
    context = job_context(os.environ)
    name, tier, only = (os.environ.get(f"MATRIX_{word}") or None for word in ("CELL", "TIER", "ONLY"))
    if name is None and tier is None:
        raise BadInput("neither MATRIX_CELL nor MATRIX_TIER is set", hint="set one of them in the job's `variables`")
    refuse_other_checkout(os.environ, context.job.directory)
    for finding in time_findings(os.environ):
        out.print(f"warning: {finding.what}: {finding.why}; {finding.remedy}")
    try:
        _refuse(refusals.Wish(context.project))
        put_aside(context, console=out)
        _run_cell(context, name, tier, only)
    except BadInput:
        forget(context.job.run)
        raise


def _refuse(wish: refusals.Wish) -> None:
    refusals.refuse(refusals.CELL, wish, refusals.Cost.HOST)
    try:
        refusals.refuse(refusals.CELL, wish)
    except BadInput as error:
        raise without_authority(error, os.environ) from None


def _run_cell(context: CellContext, name: str | None, tier: str | None, only: str | None) -> None:
    annotate(context)
    if providers.of(context.settings).per_job:
        _ready(context.settings.provider)
    settings = context.settings
    if settings.namespace is not None:
        os.environ["VMATRIX_NAMESPACE"] = settings.namespace
    passed_on = ("provider", "infra_profile", "infra_name", "kubeconfig", "runs")
    rotates = tier is not None and tier in context.project.spec.tiers and context.project.spec.tiers[tier].rotates
    night = (os.environ.get(NIGHT) or None) if rotates else None
    options = {
        "tier": tier,
        "night": night,
        "run_id": context.job.run,
        **{name: getattr(settings, name) for name in passed_on},
    }
    run.run(options, cells=[name] if name else [], select=only, parallel="1" if name else run.AUTO)


def _ready(provider: str) -> None:
    """Install what the job's own infra cluster needs of this host."""
    try:
        doctor.doctor({"provider": provider}, install=True)
    except typer.Exit as ended:
        if ended.exit_code != EXIT_OK:
            raise


STEPS = "test_life"  # of tests/cells/life: a cell comes, and no check is run
OF_CELLS = (*CLUSTER, "runs")  # settings that lead to a cell of a run


@app.command("checks")
def checks_(
    repeat: Annotated[int, typer.Option(min=1, max=1000, help="How often the checks run.", metavar="N")] = 20,
) -> None:
    """Run the checks that a merge request changes many times over a cell of tier MATRIX_TIER; say how often they fail.

    Exit code 1: one of them failed.
    """
    context, pipeline = job_context(os.environ), read_pipeline(os.environ)
    refuse_other_checkout(os.environ, context.job.directory)
    if not pipeline.base:
        raise BadInput(f"no check is known to have changed: {pipeline.no_base}", hint="run it in a merge request")
    paths = changed_since(context.job.directory, pipeline.base).paths
    changed = changed_checks(path for path in paths if (context.job.directory / path).is_file())  # not deleted
    for suite in (LIFE, OF_PHASES):
        if changed.pop(suite, ()):
            out.print(f"suite {suite} cannot be repeated over a cell: the smoke cell and others run it")
    if not changed:
        out.print("no module of checks changed that can be repeated")
        return
    put_aside(context, console=out)
    annotate(context)
    if providers.of(context.settings).per_job:
        _ready(context.settings.provider)
    words = [*run.options_of({name: getattr(context.settings, name) for name in OF_CELLS})]
    profile = [*run.options_of({"infra_profile": context.settings.infra_profile})]
    kept = [*run.options_of({"keep": "always"})]
    tier = os.environ.get("MATRIX_TIER") or "smoke"
    steps = ["-k", STEPS]  # the pipeline's smoke cell has the tier's checks
    done = proc.attend(
        vmatrix_call("run", "--tier", tier, *steps, *kept, "--run-id", context.job.run, *profile, *words)
    )
    cells = [one.id for one in load(context.files.path).cells]
    if proc.by_signal(done) or not cells:
        raise typer.Exit(done)
    cell = cells[0]
    codes = []
    for suite, modules in changed.items():
        what = ["--run", context.job.run, "--suite", suite, "-k", " or ".join(modules), "--repeat", str(repeat)]
        out.print(f"{suite}: {', '.join(modules)}, {repeat} times over {cell}")
        codes.append(proc.attend(vmatrix_call("check", cell, *what, *words)))
    raise typer.Exit(worst(codes))


@app.command()
def after(
    wait: Annotated[
        float | None, typer.Option(help="Seconds to wait for a running run; default: from matrix/timeouts.yml.")
    ] = None,
) -> None:
    """Clean up after a job: wait for its run, collect logs, delete what is left, write the job's links."""
    context = ending_context(os.environ)
    job_end.end(context, wait=wait, console=out)


@app.command()
def reap() -> None:
    """Delete expired cells in the infra cluster, or expired embedded infrastructures of jobs on this host."""
    context = ending_context(os.environ)
    job_end.reap(context, console=out)


@app.command("note")
def note_(
    report: Annotated[Path, typer.Argument(metavar="REPORT", help="Directory of the report, with summary.md.")] = Path(
        "public"
    ),
) -> None:
    """Write the report's summary as a note on the merge request; later pipelines update it.

    Without a token, the pipeline's page shows what is missing and the job succeeds.
    """
    job = read_job(os.environ)
    file = report / NOTE
    if not file.is_file():
        raise BadInput(f"{file} does not exist", hint=f"`vmatrix report --output {report}` writes it")
    reached, missing = note.merge_request(os.environ)
    if reached is not None:
        try:
            mark = f"{MARK} {job.prefix}".strip()
            done = note.put(reached, read_text(file), mark=mark, token=os.environ[note.TOKEN])
            out.print(f"the note on merge request !{reached.number} is {done}")
        except InfraError as error:  # a note that cannot be written fails nobody's change
            missing = f"{error.summary}; {error.hint}"
    if missing:
        out.print(f"no note: {missing}")
    settings = f"{os.environ.get('CI_PROJECT_URL', '')}/-/settings/access_tokens"
    hints = [job_end.Link(f"no note on the merge request: {missing}", settings)] if missing and job.url else []
    shown = [job_end.Link("report", job_end.artifact_url(job, f"{report}/index.html"))] if job.url else []
    job_end.add_links(report, {MARK: [*shown, *hints]})


@app.command()
def issues(
    url: Annotated[str, typer.Option(help="URL of the published report, for links to it.")] = "",
) -> None:
    """Open, update and close an issue for each suspect, and a merge request for each check that is flaky.

    MATRIX_ISSUE_TOKEN has a project access token with the scope api; without it nothing is tried.
    """
    where, missing = issue_tracker.forge(os.environ)
    if where is None:
        out.print(f"no issues: {missing}")
        return
    project = Project.load(load_settings(settings_dir()).settings, expired_ok=True)
    now = datetime.now(UTC)
    analysis, _ = looked_at(Asked(), project.spec, project.settings, environment=os.environ, now=now, warn=out.print)
    rate = project.settings.quarantine_rate
    try:
        done = issue_tracker.sync_suspects(where, analysis, url)
        done += issue_tracker.sync_quarantine(where, analysis, rate=rate, project=project.directory, today=now.date())
    except (InfraError, BadInput) as error:  # neither GitLab nor its file's form changes the night's result
        out.print(f"not all issues are up to date: {error.summary}; {error.hint}")
        return
    for line in done or ["no issue changed"]:
        out.print(line)


@app.command("doctor")
def gitlab_doctor(
    tag: Annotated[str, typer.Option(envvar="MATRIX_RUNNER_TAG", help="Tag of the runners for cells.")] = "vmatrix",
    artifacts_limit: Annotated[int, typer.Option(min=1, help="GitLab's maximum artifacts size (MiB).")] = USUAL_MIB,
) -> None:
    """Check what a job needs of GitLab, its runner, its image and the infra cluster, and print how to fix it.

    Run it in a job of the pipeline, or with a job's variables. Exits with code 2 if something is missing.
    """
    job = read_job(os.environ)
    findings = [
        *job_findings(os.environ, tag=tag, version=harness.__version__),
        *token_findings(os.environ),
        *clock_findings(os.environ),
        *upload_findings(job.directory, limit_mib=artifacts_limit, prefix=job.prefix),
        *_infra(os.environ, job.run),
    ]
    show("this job", findings)
    raise typer.Exit(EXIT_BAD_INPUT if fatal(findings) else EXIT_OK)


def _infra(environment: Mapping[str, str], run: str) -> Iterator[Finding]:
    """Yield what the infra cluster lacks, the job's rights among it, or this host."""
    try:
        context = ending_context(environment)
        settings = context.settings
        yield from providers.of(settings).check(settings, None, lambda: use_of_plan(settings, None, pods=False))[1]
    except BadInput as wrong:
        yield Finding(wrong.summary, "the job cannot run cells", wrong.hint or wrong.summary)
    finally:
        forget(run)
