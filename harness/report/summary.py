"""summary.md of a run: what ran, what failed and whose fault it is, where to look."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.report import controls, interruption, specs, words
from harness.report.cell import CellResult
from harness.report.groups import groups_of
from harness.report.results import RunResult, alike
from harness.report.step import FAILED, NOT_RUN, PASSED, Check, Step
from harness.sanitize import sanitized

MACHINES = (
    "| machine | after the first phase | most | admitted with | declared | disk, new | disk, last |",
    "|---|--:|--:|--:|--:|--:|--:|",
)
# What begins with one of these is more than text.
MARKUP = re.compile(r"<(?=[a-zA-Z/!?])|&(?=#?\w+;)|(?<=\])\((?=\S)|(?<!\\)\||(?<=\])\[")
ESCAPED = {"<": "&lt;", "&": "&amp;"}
INDENT = "&nbsp;&nbsp;"  # of a step inside another


def render(result: RunResult) -> str:
    """Return the summary as Markdown."""
    blames = words.blames(result)
    lines = [f"# vmatrix run {result.run}", "", f"**{interruption.headline(result)}**", ""]
    lines += [f"- {_prose(line.strip())}" for line in interruption.told(result)]
    lines += [f"- {_prose(sentence)}" for sentence in (*words.sessions(result), *words.foreign(result))]
    lines += [f"- product: {_prose(result.product)}"] if result.product else []
    lines += [f"- tier: {_prose(result.tier)}"] if result.tier else []
    lines += [f"- infra cluster: {_prose(said)}" for said in result.infra]
    lines += [f"- blame: {blames}"] if blames else []
    lines += [f"- failed outside of any cell: {_prose(result.error)}"] if result.error else []
    if result.kept:
        lines.append(f"- kept for inspection, to delete with `{result.cleanup}`: {', '.join(sorted(result.kept))}")
    lines += ["", *_fenced(result.command, "sh"), *_cells(result), ""]
    measured = words.measured(result)
    lines += ["Measured:", "", *(f"- {_prose(line)}" for line in measured), ""] if measured else []
    lines += _specs(result)
    lines += controls.told(result.cells)
    many = len(result.cells) >= words.MANY_CELLS
    for cell in words.worth_showing(result):
        lines += _cell(cell, many=many, kept=cell.id in result.kept)
    return "\n".join(lines).rstrip() + "\n"


def _specs(result: RunResult) -> list[str]:
    """Return what upstream's whole sets came to, and which specs fail with one value and pass with another."""
    found = specs_of(result)
    apart = specs.differences(found, result.values)
    lines = specs.table(specs.counted(found))
    said = [f"- {_prose(one.told)}" for one in apart]
    return [*lines, *said, ""] if said else lines


def specs_of(result: RunResult) -> list[specs.SpecItem]:
    """Return the specs of the attempts that count."""
    return [
        specs.SpecItem(cell.id, check.suite, name, check.outcome, check.detail)
        for cell in result.cells
        for check in cell.last_checks
        if (name := specs.spec_name(check.suite, check.name)) is not None
    ]


def _cells(result: RunResult) -> list[str]:
    """Return the table of cells."""
    lines = [
        "| cell | outcome | attempts | checks | not run | waited | time | expected |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for cell in result.cells:
        checks, *times = words.counts(cell)
        not_run = sum(c.outcome == NOT_RUN for c in cell.last_checks)
        said = words.outcome(cell, kept=cell.id in result.kept)
        columns = (_code(cell.id), _prose(said), str(len(cell.attempts)), checks, str(not_run or ""), *times)
        lines.append(f"| {' | '.join(columns)} |")
    return lines


def _cell(cell: CellResult, *, many: bool, kept: bool) -> list[str]:
    lines = [f"## {cell.id}", "", words.outcome(cell, kept=kept), ""]
    placed = words.placed(cell)
    lines += [f"It ran {placed}.", ""] if placed else []
    last, *before = reversed(cell.attempts)
    lines += _attempt(cell, last, many=many)
    for attempt in before:
        lines += [f"### Attempt {attempt}: {words.came_to(cell, attempt)} (does not count)", ""]
        lines += _attempt(cell, attempt, many=many)
    return lines


def _attempt(cell: CellResult, attempt: int, *, many: bool) -> list[str]:
    lines = _steps(cell, attempt, many=many)
    lines += _checks(cell, attempt)
    lines += _machines(cell) if attempt == cell.last_attempt else []
    failures, checks = cell.failures_of(attempt), [c for c in cell.checks_of(attempt) if c.outcome == FAILED]
    for step in failures:
        lines += _failed_step(step)
    for check, others in alike(sorted(checks, key=lambda c: bool(c.quarantine))):
        lines += _failed_check(cell, check, others)
    for title, said in words.not_run(cell, cell.checks_of(attempt)).items():
        lines += [f"{title}:", "", *(f"- {_prose(line)}" for line in said), ""]
    if cell.outcome_of(attempt) != PASSED:
        lines += [f"Logs: `{cell.logs(attempt)}/`", ""]
    return lines


def _steps(cell: CellResult, attempt: int, *, many: bool) -> list[str]:
    steps = [s for s in cell.steps_of(attempt) if s.top or not many]
    if not steps:
        return []
    rows = []
    if cell.admitted is not None and attempt == cell.last_attempt:
        rows = [f"| waiting for room and a worker | | {words.duration(cell.admitted.after)} |"]
    rows += [
        f"| {INDENT * (len(s.path) - 1)}{_prose(s.title)} | {_prose(s.said)} | {words.duration(s.seconds)} |"
        for s in steps
    ]
    return ["| step | outcome | time |", "|---|---|--:|", *rows, ""]


def _checks(cell: CellResult, attempt: int) -> list[str]:
    groups = groups_of(cell, attempt)
    if not groups:
        return []
    rows = [f"| {_prose(group.title)} | {_prose(group.said)} | {words.duration(group.seconds)} |" for group in groups]
    return ["| checks | | time |", "|---|---|--:|", *rows, ""]


def _machines(cell: CellResult) -> list[str]:
    """Return what the machines of the last attempt took of their node."""
    rows = [f"| {' | '.join(row)} |" for row in words.machines(cell)]
    return [*MACHINES, *rows, ""] if rows else []


def _failed_step(step: Step) -> list[str]:
    lines = [f"**{_prose(step.name)}** failed ({_whose(step)}): {_prose(step.summary)}", ""]
    told = [f"- hint: {_prose(step.hint)}"] if step.hint else []
    told += [f"- {_code(path)}" for path in step.paths]
    lines += [*told, ""] if told else []
    return lines + _fenced(step.detail)


def _failed_check(cell: CellResult, check: Check, others: Sequence[Check]) -> list[str]:
    lines = [f"**{_prose(cell.label(check))}** failed ({_whose(check)})", "", *_fenced(check.detail)]
    names = [f"- {_prose(cell.label(other).removeprefix(f'{other.suite}: '))}" for other in others]
    return lines + (["Failed the same way:", "", *names, ""] if names else [])


def _whose(failure: Step | Check) -> str:
    if failure.quarantine:
        return f"quarantined: {_prose(failure.quarantine)}; does not count"
    return failure.blame


def _prose(text: str) -> str:
    """Return a text of others as one line of words: no tag, entity, link or column of a table begins in it."""
    line = " ".join(sanitized(text).splitlines())
    return MARKUP.sub(lambda found: ESCAPED.get(found[0], f"\\{found[0]}"), line)


def _code(text: str) -> str:
    """Return a text as a code span that nothing in it can end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks, room = "`" * (longest + 1), " " if longest else ""
    return f"{ticks}{room}{' '.join(text.splitlines())}{room}{ticks}"


def _fenced(text: str, language: str = "text") -> list[str]:
    """Return a text as a block that no line of it can end."""
    if not text.strip() and language == "text":
        return []
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", text.strip("\n"), fence, ""]
