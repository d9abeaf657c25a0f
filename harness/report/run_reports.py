"""The reports that every run leaves in its directory: a file name and the function that renders it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from harness.files import write_atomically
from harness.report import junit, summary
from harness.report.results import RunResult
from harness.rundir import JUNIT, SUMMARY, RunDir
from harness.sanitize import encoded

OUTPUTS: Mapping[str, Callable[[RunResult], str | bytes]] = {
    SUMMARY: summary.render,
    JUNIT: junit.render,
}


def write_all(result: RunResult, files: RunDir) -> dict[Path, Exception]:
    """Write every report of a run; return those that could not be written, which keep no other from being so."""
    failed: dict[Path, Exception] = {}
    for path, render in zip(paths(files), OUTPUTS.values(), strict=True):
        try:
            content = render(result)
            write_atomically(path, encoded(content) if isinstance(content, str) else content)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are to be written
            failed[path] = error
    return failed


def paths(files: RunDir) -> list[Path]:
    """Return where the reports of a run lie."""
    return [files.path / name for name in OUTPUTS]
