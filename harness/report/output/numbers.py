"""The numbers of the last night, and what changed since the last good one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from harness.report.analysis.analyse import Analysis
from harness.report.analysis.nights import Night
from harness.report.analysis.streaks import Range


def summary(analysis: Analysis) -> dict[str, Any]:
    """Return the numbers of the last night."""
    tonight = analysis.tonight
    quarantined = [cell for cell in tonight if cell.last is not None and cell.last.outcome == "quarantined"]
    failing = [cell for cell in tonight if cell.failing and cell not in quarantined]
    failed = [cell.last for cell in failing if cell.last is not None and cell.last.outcome == "failed"]
    return {
        "cells": len(analysis.planned.cells) if analysis.planned.cells is not None else len(analysis.cells),
        "ran": len(tonight),
        "outcomes": analysis.last.counts if analysis.last is not None else {},
        "blames": dict(Counter(record.blame or "unknown" for record in failed)),
        "new": sum(cell.news == "new" for cell in failing),
        "known": sum(cell.news == "known" for cell in failing),
        "fixed": sum(cell.news == "fixed" for cell in tonight),
        "sometimes": sum(cell.habit == "sometimes" for cell in tonight),
        "slower": len({slower.cell for slower in analysis.slower}),
        "not_run": len(analysis.not_run),
        "quarantined": len(quarantined),
    }


def commits(nights: Sequence[Night], found: Range) -> tuple[str, str]:
    """Return the last good and the first bad commit; an empty text for what is not known."""
    good = nights[found.good].where.commit if found.good >= 0 else ""
    return good, nights[found.bad].where.commit


def compare_url(night: Night, good: str, bad: str) -> str:
    """Return GitLab's page of what changed between two commits; empty when there is none."""
    if not (night.where.project_url and good and bad) or good == bad:
        return ""
    return f"{night.where.project_url}/-/compare/{good}...{bad}"
