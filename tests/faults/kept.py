"""What became of faults in earlier calls: faults.json in the directory of results, which every verdict is added to."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from harness.report.output.badges import FILE
from tests.faults.fault import Fault
from tests.faults.trial import Verdict


def read(directory: Path, faults: Iterable[Fault]) -> list[Verdict]:
    """Return the verdicts that are kept of these faults; one of a fault that has changed since is none."""
    file = directory / FILE
    there = json.loads(file.read_text(encoding="utf-8"))["faults"] if file.is_file() else {}
    pairs = ((fault, there[fault.id]) for fault in faults if fault.id in there)
    return [
        Verdict(
            fault,
            one["layout"],
            detected=one["became"] in ("detected", "explained"),
            explained=one["became"] == "explained",
            trouble=one["trouble"],
            on=one["on"],
        )
        for fault, one in pairs
        if one["digest"] == fault.digest
    ]


def together(earlier: Iterable[Verdict], later: Iterable[Verdict]) -> list[Verdict]:
    """Return the last verdict of each fault."""
    return list({one.fault.id: one for one in (*earlier, *later)}.values())


def record(verdict: Verdict) -> dict[str, str]:
    """Return what is kept of a verdict."""
    return {
        "suite": verdict.fault.suite,
        "layout": verdict.layout,
        "became": verdict.became,
        "trouble": verdict.trouble,
        "on": verdict.on,
        "digest": verdict.fault.digest,
    }
