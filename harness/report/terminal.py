"""The end of a run on a terminal or in a job's log: tables of cells and steps, then failures with blame and hint."""

from __future__ import annotations

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.check_result import LINE, CheckResult, causes, failure_text, shortened
from harness.model import Outcome
from harness.report import words
from harness.report.cell import CellResult, Step, groups_of
from harness.report.results import RunResult
from harness.report.words import interruption_headline
from harness.rundir import SUMMARY

BAD, ODD = "bold red", "yellow"
STYLES = {"passed": "green", "failed": BAD}
COLUMNS = ("checks", "waited", "time", "expected")
TABLE_WIDTH = 130  # columns that the table of cells takes, with ids and outcomes in one line each
DETAIL_LINES = 12  # of a failure's text, from its end; the reports have all of it
MOST_FINDINGS = 8  # of a failed check


def show(result: RunResult, console: Console) -> None:
    """Print the tables and failures of all cells."""
    shown = words.worth_showing(result)
    many = len(result.cells) >= words.MANY_CELLS
    if len(result.cells) > 1:
        console.print(_cells(result) if console.width >= TABLE_WIDTH else _list(result))
    for cell in shown:
        console.print(Text(f"\n{cell.id}: {words.outcome(cell)}", "bold"))
        if not many:
            console.print(_table(cell))
        for failure in _failures(cell):
            console.print(failure)
    if result.cells:
        console.print()
    for figures in words.measured(result):
        console.print(Text(f"measured in {figures}"), soft_wrap=True)
    for sentence in words.in_part(result):
        console.print(Text(f"{sentence}; see {SUMMARY}"), soft_wrap=True)
    for line in _run(result):
        console.print(line, soft_wrap=True)


def show_checks(result: RunResult, console: Console) -> None:
    """Print what the checks of cells came to, which nobody made or took away."""
    for cell in result.cells:
        for group in groups_of(cell, cell.last_attempt):
            console.print(Text(f"checks: {group.title}: {group.said} ({words.duration(group.seconds)})"))
        for check, others in causes([c for c in cell.checks if c.outcome == Outcome.FAILED]):
            console.print(_failed_check(cell, check, len(others), ""))
    for sentence in words.in_part(result):
        console.print(Text(sentence), soft_wrap=True)


def _run(result: RunResult) -> list[Text]:
    blames = words.blames(result)
    lines = [Text(interruption_headline(result), "bold")]
    lines += [Text(sentence) for sentence in (*words.sessions(result), *words.foreign(result))]
    lines += [Text(f"infra cluster: {infra}", ODD) for infra in result.infra]
    return lines + ([Text(f"blame: {blames}", BAD)] if blames else [])


def _styled(text: str, outcome: str) -> Text:
    return Text(text, STYLES.get(outcome, ODD))


def _cells(result: RunResult) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("cell", no_wrap=True)
    table.add_column("outcome")
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for cell in result.cells:
        text = words.outcome(cell, kept=cell.id in result.kept)
        table.add_row(cell.id, _styled(text, cell.outcome), *words.counts(cell))
    return table


def _list(result: RunResult) -> Group:
    """Return what the table says, two lines per cell: for a job's log, which has 80 columns."""
    lines = []
    for cell in result.cells:
        text = _styled(words.outcome(cell, kept=cell.id in result.kept), cell.outcome)
        lines.append(Text.assemble(f"{cell.id}: ", text))
        columns = [f"{name} {value}" for name, value in zip(COLUMNS, words.counts(cell), strict=True) if value]
        lines += [Text(f"    {', '.join(columns)}", "dim")] if columns else []
    return Group(*lines)


def _table(cell: CellResult) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("step")
    table.add_column("outcome")
    table.add_column("time", justify="right", no_wrap=True)
    for attempt in cell.attempts:
        if len(cell.attempts) > 1:
            table.add_row(Text(f"attempt {attempt}", "bold"), "", "")
        for step in cell.steps_of(attempt):
            style: str = Outcome.QUARANTINED if step.quarantine else step.outcome
            name = "  " * (len(step.path) - 1) + step.title
            table.add_row(name, _styled(step.said, style), words.duration(step.seconds))
        for group in groups_of(cell, attempt):
            worst = "failed" if group.failed else "quarantined" if group.quarantined else ""
            style = worst or (Outcome.PASSED if group.passed else Outcome.NOT_RUN)
            table.add_row(f"checks: {group.title}", _styled(group.said, style), words.duration(group.seconds))
    table.add_section()
    table.add_row("total", _styled(cell.outcome, cell.outcome), words.duration(cell.seconds))
    return table


def _failures(cell: CellResult) -> list[RenderableType]:
    """Return what failed in the attempt that counts, and of those before only what failed first."""
    shown: list[RenderableType] = []
    for attempt in cell.attempts:
        last = attempt == cell.last_attempt
        number = "" if last else f"attempt {attempt}: "
        failed = [c for c in cell.checks_of(attempt) if c.outcome == Outcome.FAILED]
        steps = [_failed_step(step, number) for step in cell.failures_of(attempt)]
        checks = [_failed_check(cell, c, len(o), number) for c, o in causes(failed)]
        number_of_causes = [Text(f"failed: {count}")] if last and (count := words.failures(failed)) else []
        shown += [*steps, *number_of_causes, *checks] if last else [*steps, *checks][:1]
    if cell.outcome != Outcome.PASSED:
        shown.append(Text(f"logs: {cell.logs(cell.last_attempt)}", overflow="fold"))
    return shown


def _failed_step(step: Step, lead: str) -> RenderableType:
    lines = [_head(f"{lead}{step.name}", step), Text(f"  {step.summary}")]
    lines += [Text(f"  hint: {step.hint}")] if step.hint else []
    lines += [Text(f"  see: {path}", overflow="fold") for path in step.paths]
    return Group(*lines, *_dim(step.detail))


def _failed_check(cell: CellResult, check: CheckResult, others: int, lead: str) -> RenderableType:
    more = f"  {words.plural(others, 'more check')} failed by the same cause; see {SUMMARY}"
    if check.wrong and not check.infra:
        text = failure_text(check.wrong, check.claim, check.look, check.command, most=MOST_FINDINGS)
        told = [Text(f"    {line}", "dim") for line in text.splitlines()]
    else:
        told = _dim(check.detail, check.headline)
    return Group(_head(lead + cell.label(check), check), *told, *([Text(more)] if others else []))


def _head(name: str, failure: Step | CheckResult) -> Text:
    if failure.quarantine:
        return Text(f"{name} failed; quarantined, does not count: {failure.quarantine}", ODD)
    return Text(f"{name} failed; blame: {failure.blame}", BAD)


def _dim(text: str, headline: str = "") -> list[Text]:
    """Return the end of a text, which says what went wrong; above it the line that says so where that is not part."""
    lines = text.strip().splitlines()[-DETAIL_LINES:]
    if not (lines or headline):
        return []
    lines = lines if any(headline in line for line in lines) else [headline, "[...]", *lines]
    return [Text(f"    {shortened(line, LINE)}", "dim") for line in lines]
