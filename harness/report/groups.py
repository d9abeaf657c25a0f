"""A cell's checks by stage and suite, counted."""

from __future__ import annotations

from dataclasses import dataclass

from harness.report.cell import CellResult
from harness.report.step import FAILED, NOT_RUN, PASSED, Check


@dataclass(frozen=True)
class Group:
    """The checks of one suite after one stage of one attempt."""

    title: str
    passed: int
    failed: int
    quarantined: int
    not_run: int
    not_judged: int
    left_out: int
    seconds: float

    @property
    def said(self) -> str:
        """Return the numbers that are not zero."""
        words = {
            "passed": self.passed,
            "failed": self.failed,
            "quarantined": self.quarantined,
            "not judged": self.not_judged,
            "left out": self.left_out,
            "not run": self.not_run,
        }
        return ", ".join(f"{number} {word}" for word, number in words.items() if number)


def groups_of(cell: CellResult, attempt: int) -> list[Group]:
    """Return an attempt's checks by stage (when the cell has several) and suite."""
    checks = cell.checks_of(attempt)
    keys = dict.fromkeys((c.stage, c.suite) for c in checks)
    ordered = sorted(keys, key=lambda key: cell.stages.index(key[0]))
    return [_group(cell, key, [c for c in checks if (c.stage, c.suite) == key]) for key in ordered]


def _group(cell: CellResult, key: tuple[str, str], checks: list[Check]) -> Group:
    stage, suite = key
    failed = [c for c in checks if c.outcome == FAILED]
    return Group(
        title=f"after {stage}: {suite}" if len(cell.stages) > 1 else suite,
        passed=sum(c.outcome == PASSED for c in checks),
        failed=sum(not c.quarantine for c in failed),
        quarantined=sum(bool(c.quarantine) for c in failed),
        not_run=sum(c.outcome == NOT_RUN and not (c.not_judged or c.left_out) for c in checks),
        not_judged=sum(c.not_judged for c in checks),
        left_out=sum(c.left_out for c in checks),
        seconds=sum(c.seconds for c in checks),
    )
