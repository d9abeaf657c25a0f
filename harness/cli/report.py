"""`vmatrix report`: what failed, since when, whose it is, and what did not run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.errors import BadInput
from harness.history.file import replace_file
from harness.history.lines import History, Skipped
from harness.paths import project_dir
from harness.report.analysis.analyse import Analysis
from harness.report.output.files import FORMATS, files
from harness.report.output.note import lines_of
from harness.report.output.numbers import summary
from harness.report.output.serve import server
from harness.session.reporting import ALL, DAYS, NIGHTLY, Asked, days_of, looked_at
from harness.spec import load_spec
from harness.spec.settings import load_settings

NAMED = 5  # lines that could not be read, of which each is said


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(report)


def report(
    history: Annotated[
        list[Path] | None, typer.Option(help="History files or runs' directories; the store of the settings without.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Where to write; report/ in the runs' directory without.")] = None,
    formats: Annotated[str, typer.Option("--format", help=f"Some of {','.join(FORMATS)}; all without.")] = ",".join(
        FORMATS
    ),
    days: Annotated[float | None, typer.Option(min=0.01, help=f"Look so many days back; {DAYS:g} without.")] = None,
    since: Annotated[str | None, typer.Option(help="Look back to this date (2026-11-21), instead of --days.")] = None,
    tier: Annotated[
        str | None, typer.Option(help=f"Only runs of this tier, or `{ALL}`; {NIGHTLY} without, if there are any.")
    ] = None,
    branch: Annotated[
        str | None, typer.Option(help=f"Only this branch, or `{ALL}`; CI_DEFAULT_BRANCH without, if it is set.")
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(help="Look at this pipeline (or run) as the last night; a merge request's own in its pipeline."),
    ] = None,
    infra_profile: Annotated[
        str | None,
        typer.Option(
            "--infra-profile",
            "--infra-kind",
            help=f"Only runs on this infra profile, or `{ALL}`; the one that ran last without.",
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "vmatrix",
    url: Annotated[str, typer.Option(help="Where the page will be published, for links to it.")] = "",
    serve: Annotated[bool, typer.Option(help="Serve it on this machine, and write nothing.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="For --serve; 0: any that is free.")] = 8765,
) -> None:
    """Say what failed, since when, whose it is and what did not run: a page, a note, JSON, badges."""
    wanted = _formats(formats)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    settings = load_settings(Path.cwd()).settings
    spec = load_spec(project_dir() / "matrix")
    looked = days_of(days, since, datetime.now(UTC))
    asked = Asked(tuple(history or ()), tier, branch, infra_profile, pipeline, looked)

    def made() -> tuple[Analysis, History]:
        return looked_at(
            asked,
            spec,
            settings,
            environment=os.environ,
            now=datetime.now(UTC),
            warn=lambda said: console.print(said, markup=False),
        )

    if serve:
        _serve(lambda: files(*made(), title=title, url=url), port)
        return
    analysis, found = made()
    folder = output if output is not None else settings.runs / "report"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot write to {folder}: {error.strerror}", hint="pass another --output") from error
    _tell(analysis, found)
    for name, text in files(analysis, found, formats=wanted, title=title, url=url).items():
        replace_file(folder / name, text)
        Console(highlight=False, soft_wrap=True).print(str(folder / name), markup=False)


def _formats(given: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in given.split(",") if name.strip())
    wrong = next((name for name in names if name not in FORMATS), None)
    if wrong is not None or not names:
        raise BadInput(f"--format {given!r}: no format {wrong or ''}", hint=f"known: {', '.join(FORMATS)}")
    return names


def _tell(analysis: Analysis, history: History) -> None:
    """Say what a person wants to know before opening anything."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    tell_skipped(history.skipped, console)
    night = analysis.last
    if night is None:
        where = ", ".join(history.sources) or "nothing"
        console.print(
            f"no run is looked at: {len(history.records)} cell runs in {where}; `--tier {ALL} --branch {ALL}` looks at "
            "every one; `vmatrix run` and `vmatrix history add` make more",
            markup=False,
        )
        return
    found = summary(analysis)
    counts = ", ".join(f"{number} {word}" for word, number in found["outcomes"].items())
    console.print(f"last night {night.start:%Y-%m-%d %H:%M} UTC: {counts}", markup=False)
    for line in lines_of(analysis.tonight):
        console.print(f"  {line}", markup=False)
    if analysis.freshness.stale:
        console.print(f"a night is missing: the last began {analysis.freshness.hours_ago:g} hours ago", markup=False)


def tell_skipped(skipped: tuple[Skipped, ...], console: Console) -> None:
    """Name the first lines that could not be read, and count them all."""
    for one in skipped[:NAMED]:
        console.print(f"not read: {one.source}:{one.line}: {one.why}", markup=False)
    if len(skipped) > NAMED:
        console.print(f"not read: {len(skipped) - NAMED} more lines", markup=False)


def _serve(make: Callable[[], Mapping[str, bytes]], port: int) -> None:
    """Serve until Ctrl-C; the first report is made before, so that what is wrong with it is said here."""
    make()
    made = server(make, port)
    Console(highlight=False).print(f"http://127.0.0.1:{made.server_port}/ (Ctrl-C ends it)", markup=False)
    try:
        made.serve_forever()
    except KeyboardInterrupt:
        return
    finally:
        made.server_close()
