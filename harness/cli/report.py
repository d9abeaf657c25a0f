"""`vmatrix report`: what failed, since when, whose it is, what did not run. `vmatrix history`: the records it reads."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness import system
from harness.cli import options
from harness.cli.options import AsJson, former, takes
from harness.cli.output import tell_written
from harness.cli.plain import CommandSet
from harness.errors import BadInput, HarnessBug, VmatrixError
from harness.files import write_atomically
from harness.history.lines import History, Skipped
from harness.history.origin import JOB
from harness.history.store import open_store
from harness.paths import project_dir, settings_dir
from harness.report.alerts import alerts_of, tell
from harness.report.analysis.analyse import Analysis
from harness.report.output.badges import FILE, FaultScore
from harness.report.output.badges import read as read_score
from harness.report.output.document import summary
from harness.report.output.files import FORMATS, Files, Sources, files
from harness.report.output.note import ago, lines_of
from harness.report.output.server import server
from harness.report.records import collect, refuse_without_runs
from harness.session.reporting import ALL, DAYS, NIGHTLY, Asked, days_of, looked_at
from harness.spec.loader import load_part
from harness.spec.project import Project, matrix_dir
from harness.spec.settings import Settings, load_settings
from harness.streams import plain_console
from harness.urls import wrong_url

NAMED = 5  # unreadable lines that are named, not only counted


class AlertAbout(StrEnum):
    """What alerts are about."""

    NIGHT = "night"
    MISSING = "missing"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(takes()(report))


@dataclass(frozen=True)
class ReportOptions:
    """What the report is about."""

    history: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="History file or run directory, repeatable; default: the configured store."),
    ] = None
    days: Annotated[float | None, options.days(f"Days to look back; default: {DAYS:g}.", least=0.01)] = None
    since: Annotated[str | None, typer.Option(help="Date to look back to, instead of --days.", metavar="DATE")] = None
    tier: Annotated[
        str | None,
        typer.Option(
            metavar="TIER",
            help=f"Only runs of this tier, or `{ALL}`; default: {NIGHTLY}, if it has runs.",
            autocompletion=options.tiers,
        ),
    ] = None
    branch: Annotated[
        str | None,
        typer.Option(
            metavar="BRANCH", help=f"Only runs of this branch, or `{ALL}`; default: CI_DEFAULT_BRANCH, if set."
        ),
    ] = None
    pipeline: Annotated[
        str | None,
        typer.Option(help="Pipeline or run to report as the last night; default in a merge request: its pipeline."),
    ] = None
    infra_profile: Annotated[
        str | None,
        typer.Option(
            metavar="PROFILE", help=f"Only runs on this infra profile, or `{ALL}`; default: the one that ran last."
        ),
    ] = None
    former_profile: Annotated[str | None, former("--infra-kind", "--infra-profile")] = None

    def request(self) -> Asked:
        """Return them as a request."""
        return Asked(
            histories=tuple(self.history or ()),
            tier=self.tier,
            branch=self.branch,
            infra=self.infra_profile or self.former_profile,
            pipeline=self.pipeline,
            days=days_of(self.days, self.since, datetime.now(UTC)),
        )


@dataclass(frozen=True)
class PageOptions:
    """What is written, and where."""

    output: Annotated[Path | None, typer.Option(help="Directory to write to; default: report/ in runs.")] = None
    format: Annotated[str, typer.Option(help="Formats to write, separated by commas.")] = ",".join(FORMATS)
    title: Annotated[str, typer.Option(help="Title of the page.")] = "vmatrix"
    url: Annotated[str, typer.Option(help="URL of the published page, for links to it.")] = ""
    faults: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Score of faults to show, or a folder of its parts; default: runs/faults."),
    ] = None

    def score(self, runs: Path) -> FaultScore | None:
        """Return the score of faults to show; None where there is none.

        Args:
            runs: the directory of runs.
        """
        usual = runs / "faults"
        if self.faults is None and not any(usual.rglob(FILE)):
            return None
        return read_score(self.faults or usual)


def report(
    options: ReportOptions,
    page: PageOptions,
    serve: Annotated[bool, typer.Option("--serve", help="Serve the page on this machine; write no files.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port for --serve; 0: any free port.")] = 8765,
    alert: Annotated[
        AlertAbout | None, typer.Option(help="Send alerts about the last night, or only about nights that are missing.")
    ] = None,
) -> None:
    """Report what failed, since when, whose fault it is and what did not run: a page, a note, JSON, badges."""
    formats = _formats(page.format)
    if serve and alert is not None:
        raise BadInput("--serve sends no alerts", hint="leave out --serve or --alert")
    if page.url and (wrong := wrong_url(page.url)):
        raise BadInput(f"--url {page.url!r}: {wrong}", hint="the address of the published page")
    console = plain_console(stderr=True)
    project = Project.load(load_settings(settings_dir()).settings, expired_ok=True)
    asked = options.request()

    def analysed() -> tuple[Analysis, History]:
        now = datetime.now(UTC)
        warn = partial(console.print)
        return looked_at(asked, project.spec, project.settings, environment=os.environ, now=now, warn=warn)

    score = page.score(project.settings.runs)

    def made() -> Sources:
        return Sources(*analysed(), title=page.title, url=page.url, faults=score)

    if serve:
        _serve(lambda: _all_or_nothing(files(made())), port)
        return
    sources = made()
    folder = page.output if page.output is not None else project.settings.runs / "report"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot write to {folder}: {error.strerror}", hint="pass another --output") from error
    _tell(sources.analysis, sources.history)
    if alert is not None:
        sources.unsent = _send(sources.analysis, project.settings, page.url, alert)
    _write(files(sources, formats), folder)


def _send(analysis: Analysis, settings: Settings, url: str, about: AlertAbout) -> tuple[str, ...]:
    """Send alerts; say what could not be sent, which changes nothing else."""
    alerts = alerts_of(
        analysis, infra_rate=settings.alert_infra_rate, url=url, only_missing=about is AlertAbout.MISSING
    )
    problems = tuple(tell(alerts, settings))
    for line in problems:
        plain_console(stderr=True).print(line)
    return problems


def _write(report_files: Files, folder: Path) -> None:
    """Write the files of a report; what cannot be made or written keeps no other file from being written.

    They are named once all are there: standard output may be closed.

    Raises:
        VmatrixError: of what could not be, the first.
    """
    errors = [_not_made(name, error) for name, error in report_files.failures.items()]
    written: list[Path] = []
    for name, content in report_files.contents.items():
        path = folder / name
        try:
            with system.naming(path):
                write_atomically(path, content, durable=True)
        except OSError as error:
            errors.append(_not_made(name, error))
        else:
            written.append(path)
    tell_written(written)
    if errors:
        first, *others = errors
        first.detail = "\n".join(
            part for part in (first.detail, *(f"also: {error.summary}" for error in others)) if part
        )
        raise first


def _not_made(name: str, error: Exception) -> VmatrixError:
    if isinstance(error, VmatrixError):
        return error
    ours = system.of(error) if isinstance(error, OSError) else None
    detail = "".join(traceback.format_exception(error))
    hint = "this is a bug in vmatrix: report it with the traceback; the other formats were written"
    return ours or HarnessBug(f"{name}: could not be made: {type(error).__name__}: {error}", hint=hint, detail=detail)


def _all_or_nothing(report_files: Files) -> Mapping[str, bytes]:
    for name, error in report_files.failures.items():
        raise _not_made(name, error)
    return report_files.contents


def _formats(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    wrong = next((name for name in names if name not in FORMATS), None)
    if wrong is not None or not names:
        raise BadInput(f"--format {text!r}: unknown format {wrong or ''!r}", hint=f"known: {', '.join(FORMATS)}")
    return names


def _tell(analysis: Analysis, history: History) -> None:
    """Print the outcome of the last night."""
    console = plain_console(stderr=True)
    tell_skipped(history.skipped, console)
    night = analysis.last
    if night is None:
        where = ", ".join(history.sources) or "nothing"
        console.print(
            f"no matching runs: {len(history.records)} cell runs in {where}; `--tier {ALL} --branch {ALL}` selects "
            "all, `vmatrix run` and `vmatrix history add` add more"
        )
        return
    found = summary(analysis)
    counts = ", ".join(f"{number} {word}" for word, number in found["outcomes"].items())
    console.print(f"last {analysis.unit} {night.start:%Y-%m-%d %H:%M} UTC: {counts}")
    for line in lines_of(analysis.tonight):
        console.print(f"  {line}")
    if analysis.freshness.stale:
        console.print(f"no recent night: the last began {ago(analysis.freshness.hours_ago)}")


def tell_skipped(skipped: tuple[Skipped, ...], console: Console) -> None:
    """Name the first unreadable lines, and count the others."""
    for line in skipped[:NAMED]:
        console.print(f"not read: {line.source}:{line.line}: {line.why}")
    if len(skipped) > NAMED:
        console.print(f"not read: {len(skipped) - NAMED} more lines")


def _serve(make: Callable[[], Mapping[str, bytes]], port: int) -> None:
    """Serve until Ctrl-C; the first report is made before, so that errors are reported here."""
    make()
    made = server(make, port)
    plain_console().print(f"http://127.0.0.1:{made.server_port}/ (press Ctrl-C to stop)")
    try:
        made.serve_forever()
    except KeyboardInterrupt:
        return
    finally:
        made.server_close()


app = CommandSet(no_args_is_help=True, help="Show and edit the history of cell runs that `vmatrix report` reads.")


@app.command()
def add(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Run directories, directories of them, or history files.")
    ],
) -> None:
    """Add runs to the history; runs that it already has are skipped."""
    settings = load_settings(settings_dir()).settings
    for path in paths if not os.environ.get(JOB) else ():  # a run may have died before it began
        if path != settings.runs:
            refuse_without_runs(path)
    outcomes = collect(paths, quarantine=load_part(matrix_dir(), "quarantine"))
    store = open_store(settings, os.environ)
    added = store.add(outcomes.records)
    console = plain_console()
    tell_skipped(outcomes.skipped, console)
    console.print(f"{store.name}: {added} cell runs added, {len(outcomes.records) - added} skipped")


@app.command()
def compact(
    days: Annotated[float | None, options.days("Age in days; default: report_keep_days.")] = None,
) -> None:
    """Drop the details of old cell runs; outcomes, durations and failures are kept."""
    settings = _settings()
    store = open_store(settings, os.environ)
    kept = days if days is not None else settings.report_keep_days
    dropped = store.compact(days=kept, now=datetime.now(UTC))
    plain_console().print(f"{store.name}: details of {dropped} cell runs older than {kept:g} days dropped")


@app.command()
def show(as_json: AsJson = False) -> None:
    """Print where the history is, its size, and lines that cannot be read."""
    settings = _settings()
    store = open_store(settings, os.environ)
    history = store.load()
    console = plain_console()
    old = sum(record.forgotten for record in history.records)
    if as_json:
        ends = [record.started for record in (*history.records[:1], *history.records[-1:])]
        counts = {"cell_runs": len(history.records), "without_details": old, "duplicates": history.duplicates}
        told = {"store": store.name, **counts, "from": ends[0] if ends else None, "to": ends[-1] if ends else None}
        unreadable = [{"source": line.source, "line": line.line, "why": line.why} for line in history.skipped]
        console.print(json.dumps({**told, "unreadable": unreadable}, indent=2))
        return
    console.print(
        f"{store.name}: {len(history.records)} cell runs ({old} without details), {history.duplicates} duplicates, "
        f"{len(history.skipped)} unreadable lines"
    )
    if history.records:
        console.print(f"from {history.records[0].started} to {history.records[-1].started}")
    tell_skipped(history.skipped, console)


def _settings() -> Settings:
    """Return the project's settings. Raises BadInput outside of a project, which has no history."""
    project_dir()
    return load_settings(settings_dir()).settings
