"""The end of a run on a terminal or in a job's log: a table of steps, then each failure with blame, hint and paths."""

from __future__ import annotations

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.report.results import CellResult, RunResult, alike

SUMMARY = "summary.md"
STYLES = {"passed": "green", "failed": "bold red", "not-run": "yellow", "interrupted": "yellow", "unfinished": "yellow"}


def show(result: RunResult, console: Console) -> None:
    """Print the tables and failures of all cells."""
    for cell in result.cells:
        console.print(_table(cell))
        for failure in _failures(cell):
            console.print(failure)


def _table(cell: CellResult) -> Table:
    table = Table(title=cell.id, box=box.SIMPLE, title_justify="left", title_style="bold")
    table.add_column("step")
    table.add_column("outcome")
    table.add_column("time", justify="right")
    for step in cell.steps:
        name = "  " * (len(step.path) - 1) + step.path[-1] + (f" (attempt {step.attempt})" if step.attempt > 1 else "")
        table.add_row(name, Text(step.outcome, STYLES.get(step.outcome, "")), f"{step.seconds:.1f} s")
    for suite in dict.fromkeys(c.suite for c in cell.checks):
        checks = [c for c in cell.checks if c.suite == suite]
        counts = {word: sum(c.outcome == word for c in checks) for word in ("passed", "failed", "not-run")}
        said = ", ".join(f"{n} {word.replace('-', ' ')}" for word, n in counts.items() if n)
        worst = "failed" if counts["failed"] else "passed" if counts["passed"] else "not-run"
        table.add_row(f"checks: {suite}", Text(said, STYLES[worst]), f"{sum(c.seconds for c in checks):.1f} s")
    table.add_section()
    table.add_row("in all", Text(cell.outcome, STYLES.get(cell.outcome, "")), f"{cell.seconds:.1f} s")
    return table


def _failures(cell: CellResult) -> list[RenderableType]:
    shown: list[RenderableType] = []
    for step in cell.failures:
        lines = [Text(f"{step.name} failed; to blame: {step.blame}", "bold red"), Text(f"  {step.summary}")]
        lines += [Text(f"  hint: {step.hint}")] if step.hint else []
        lines += [Text(f"  see: {path}") for path in step.paths]
        lines += [Text(f"    {line}", "dim") for line in step.detail.splitlines()[-12:]]
        shown.append(Group(*lines))
    for check, others in alike(cell.failed_checks):
        head = Text(f"{check.suite}: {check.name} failed; to blame: {check.blame}", "bold red")
        lines = [Text(f"    {line}", "dim") for line in check.detail.strip().splitlines()[-12:]]
        lines += (
            [Text(f"  and {len(others)} more checks failed in the same way; {SUMMARY} names them")] if others else []
        )
        shown.append(Group(head, *lines))
    if cell.outcome != "passed":
        shown.append(Text(f"logs of the cell: {cell.directory}/logs"))
    return shown
