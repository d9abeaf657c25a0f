"""The reports that every run leaves in its directory: a file name and the function that renders it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from harness.files import write_atomically
from harness.report import junit, summary
from harness.report.results import RunResult
from harness.rundir import JUNIT, SUMMARY, RunDir

OUTPUTS: Mapping[str, Callable[[RunResult], str | bytes]] = {
    SUMMARY: summary.render,
    JUNIT: junit.render,
}


def write_all(result: RunResult, files: RunDir) -> None:
    """Write every report of a run."""
    for path, render in zip(paths(files), OUTPUTS.values(), strict=True):
        write_atomically(path, render(result))


def paths(files: RunDir) -> list[Path]:
    """Return where the reports of a run lie."""
    return [files.path / name for name in OUTPUTS]
