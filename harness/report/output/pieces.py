"""The small parts of the document: plain values of what the analysis found."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from harness.history.lines import History
from harness.history.record import Record
from harness.report.analysis.analyse import Analysis
from harness.report.analysis.nights import Night
from harness.report.analysis.trend import Trend

MOST_SKIPPED = 100  # lines that could not be read, of which each is named
ARTIFACTS = "/artifacts/browse/"  # of a job's page


def axes(analysis: Analysis) -> dict[str, tuple[str, ...]]:
    """Return the axes and those of their values that some cell has, in the matrix's order."""
    used: dict[str, dict[str, None]] = {axis: {} for axis in analysis.planned.axes}
    for cell in analysis.cells:
        for axis, value in cell.axes.items():
            used.setdefault(axis, {})[value] = None
    ordered: dict[str, tuple[str, ...]] = {}
    for axis, values in used.items():
        known = [v for v in analysis.planned.axes.get(axis, ()) if v in values]
        ordered[axis] = (*known, *sorted(v for v in values if v not in known))
    return {axis: values for axis, values in ordered.items() if values}


def night(night: Night) -> dict[str, Any]:
    """Return a night: when, of which commit, how many cells ended how."""
    where = night.where
    return {
        "date": night.start.date().isoformat(),
        "started": night.started,
        "finished": night.finished,
        "commit": where.commit,
        "branch": where.branch,
        "pipeline": where.pipeline,
        "url": where.pipeline_url,
        "project_url": where.project_url,
        "run": night.run,
        "tier": night.tier,
        "counts": night.counts,
        "infra_outage": night.outage,
    }


def history(history: History) -> dict[str, Any]:
    """Return how much of the history was read, and what could not be."""
    return {
        "records": len(history.records),
        "duplicates": history.duplicates,
        "skipped": [asdict(line) for line in history.skipped[:MOST_SKIPPED]],
        "skipped_total": len(history.skipped),
        "sources": list(history.sources),
        "forgotten": sum(r.forgotten for r in history.records),
    }


def attempts(record: Record) -> list[dict[str, Any]]:
    """Return how each attempt of a cell ended."""
    return [{"number": a.number, "outcome": a.outcome, "blame": a.blame} for a in record.attempts]


def logs(record: Record) -> list[dict[str, str]]:
    """Return where a cell's logs are: a page of its job, or a folder."""
    relative = record.where.job_url and not record.logs.startswith("/")
    url = f"{record.where.job_url}{ARTIFACTS}{record.logs}" if relative else ""
    return [{"label": "logs", "url": url, "path": record.logs}]


def index(values: Sequence[str], value: str | None) -> int:
    """Return a value's place among its axis' values; -1 when it is none of them."""
    return values.index(value) if value in values else -1


def rounded(seconds: float | None) -> float | None:
    """Return seconds, whole from 10 on: nobody reads more, and the page is smaller."""
    return None if seconds is None else round(seconds) if seconds >= 10 else round(seconds, 1)


def trend(trend: Trend | None) -> dict[str, Any] | None:
    """Return how long it takes now against usually, in seconds; nothing when too little is known."""
    if trend is None:
        return None
    return {**asdict(trend), "ratio": round(trend.ratio, 2), "notable": trend.notable}


def reproduce(cell: str, record: Record | None) -> str:
    """Return the command that runs a cell at a desk, with the suites of its tier."""
    argv = ["vmatrix", "run", cell]
    if record is not None and record.tier:
        argv += ["--tier", record.tier]
    return shlex.join(argv)
