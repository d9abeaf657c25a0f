"""What all reports say in the same words: how a cell ended, how a run went, how long something took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from signal import Signals

from harness.check_result import CheckResult, FindingKind, causes
from harness.model import Outcome
from harness.report.cell import CellResult, groups_of
from harness.report.results import RunResult
from harness.rundir import RESULTS

MANY_CELLS = 5  # from here on, cells that passed at once have no section of their own
MOST_NAMES = 6  # of checks that did not run for the same reason; of more, only their number is said
SHORT_ID = 6  # characters at an id's end: the hash that tells it from all others


def duration(seconds: float) -> str:
    """Return seconds as a person reads them."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def plural(number: int, what: str) -> str:
    """Return a number and what it counts."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def came_to(cell: CellResult, attempt: int) -> str:
    """Return an attempt's outcome and whose fault it was."""
    if cell.judged_nothing(attempt):
        return f"{Outcome.UNCHECKED}: the product leaves out every check, or none has anything to judge"
    blames = ", ".join(sorted({f.blame for f in cell.failed_of(attempt) if f.blame and not f.quarantine}))
    return cell.outcome_of(attempt) + (f": {blames}" if blames else "")


def outcome(cell: CellResult, *, kept: bool = False) -> str:
    """Return how a cell ended, and what became of the attempts before: a pass at the second one is not hidden."""
    earlier = "; ".join(f"attempt {number} {came_to(cell, number)}" for number in cell.earlier)
    text = came_to(cell, cell.last_attempt) if cell.outcome != Outcome.NOT_STARTED else Outcome.NOT_STARTED
    text += f" (attempt {cell.last_attempt}; {earlier})" if earlier else ""
    return text + (", kept" if kept else "")


def clean(cell: CellResult) -> bool:
    """Tell whether a cell passed at once: nothing of it needs to be looked at."""
    return cell.outcome == Outcome.PASSED and not cell.earlier


def worth_showing(result: RunResult) -> list[CellResult]:
    """Return the cells that get a section of their own."""
    begun = [cell for cell in result.cells if cell.attempts]
    return begun if len(result.cells) < MANY_CELLS else [cell for cell in begun if not clean(cell)]


def placed(cell: CellResult) -> str:
    """Return where a cell ran and how long it was expected to take, by what; empty in a run without workers."""
    admitted = cell.admitted
    return (
        f"on {admitted.worker}; expected {duration(admitted.expected)} ({admitted.source})"
        if admitted is not None
        else ""
    )


def counts(cell: CellResult) -> tuple[str, str, str, str]:
    """Return an overview's columns of the attempt that counts: checks passed of those that ran, wait, time, expected.

    What there is nothing to say of is empty.
    """
    groups = groups_of(cell, cell.last_attempt)
    passed, ran = sum(g.passed for g in groups), sum(g.passed + g.failed + g.quarantined for g in groups)
    expected = cell.admitted.expected if cell.admitted is not None else 0.0
    waited, took, usual = (duration(s) if s else "" for s in (cell.waited, cell.last_seconds, expected))
    return f"{passed}/{ran}" if ran else "", waited, took, usual


def moment(time: str) -> str:
    """Return an RFC 3339 moment as a person reads it, in UTC."""
    return f"{datetime.fromisoformat(time).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def headline(result: RunResult) -> str:
    """Return how many cells came to what."""
    passed = result.outcomes.get(Outcome.PASSED, 0)
    again = sum(cell.outcome == Outcome.PASSED and bool(cell.earlier) for cell in result.cells)
    parts = [f"{passed} of {len(result.cells)} cells passed" + (f" ({again} only on a later attempt)" if again else "")]
    parts += [f"{number} {word}" for word, number in result.outcomes.items() if word != Outcome.PASSED]
    return ", ".join(parts)


def sessions(result: RunResult) -> list[str]:
    """Return a sentence for each call of the run: when, how long, how many cells at once, how it ended."""
    sentences = []
    for number, session in enumerate(result.sessions):
        what = f"{'started' if number == 0 else 'rerun'} {moment(session.started)}: {plural(session.cells, 'cell')}"
        side = f"up to {session.parallel} in parallel" if session.parallel > 1 else "one at a time"
        ended = "killed or still running" if session.exit_code is None else f"exit code {session.exit_code}"
        sentences.append(f"{what}{f', {side}' if session.cells > 1 else ''}, {duration(session.seconds)}; {ended}")
    return sentences


def foreign(result: RunResult) -> list[str]:
    """Return how many lines of the results file no run wrote, and which; nothing without any."""
    lines = result.foreign
    if not lines:
        return []
    named = ", ".join(map(str, lines[:MOST_NAMES])) + (", ..." if len(lines) > MOST_NAMES else "")
    return [f"{RESULTS}: read past {plural(len(lines), 'line')} that no run wrote ({named})"]


def blames(result: RunResult) -> str:
    """Return whose fault the failures that count are, by cells, equal causes counted once; empty without any."""
    cells: dict[str, set[str]] = {}
    failures: Counter[str] = Counter()
    by_cause: dict[str, set[tuple[str, ...]]] = {}
    for cell in result.cells:
        for failure in cell.failed_of(cell.last_attempt):
            if not failure.quarantine:
                blame = failure.blame or "unknown"
                cells.setdefault(blame, set()).add(cell.id)
                by_cause.setdefault(blame, set()).add(failure.cause)
                failures[blame] += 1
    return "; ".join(
        f"{blame}: {_counted(len(by_cause[blame]), failures[blame])} in {plural(len(cells[blame]), 'cell')}"
        for blame in sorted(cells, key=lambda blame: -len(cells[blame]))
    )


def _counted(number: int, of_failures: int) -> str:
    return (f"{plural(number, 'cause')}, " if number < of_failures else "") + plural(of_failures, "failure")


def measured(result: RunResult) -> list[str]:
    """Return what checks of the attempts that count have measured, passed or not: one line each, with the cell."""
    return [
        f"{cell.id}{f', {check.stage}' if check.stage else ''}: {check.measured}"
        for cell in result.cells
        for check in cell.last_checks
        if check.measured
    ]


def machines(cell: CellResult) -> list[tuple[str, ...]]:
    """Return what each machine of the last attempt took: memory after the first phase, at most, admitted with; disk."""
    return [
        (name, *(f"{amount} MiB" for amount in _memory(told)), *(gib(told.get(disk, 0)) for disk in ("clone", "disk")))
        for name, told in cell.usage.items()
    ]


def _memory(told: Mapping[str, int]) -> tuple[int, ...]:
    deployed, most, asked, declared = (told.get(name, 0) for name in ("deployed", "peak", "asked", "memory"))
    return deployed, most, asked or declared, declared


def gib(mib: int) -> str:
    """Return an amount of MiB in GiB."""
    return f"{mib / 1024:.2f} GiB"


def in_part(result: RunResult) -> list[str]:
    """Return in which cells checks did not judge all that they could: one line each."""
    return [
        f"{cell.id}: {plural(len(parts), 'check')} judged only a part"
        for cell in result.cells
        if (parts := [check for check in cell.last_checks if check.parts])
    ]


TITLES = {
    FindingKind.NOT_JUDGED: "Not judged",
    FindingKind.LEFT_OUT: "Left out by the product",
    FindingKind.NOT_RUN: "Not run",
}


def not_run(cell: CellResult, checks: Iterable[CheckResult]) -> dict[str, list[str]]:
    """Return which checks judged nothing or not all, were left out or did not run, and why, by what became of them.

    Of many for the same reason only how many.
    """
    every = list(checks)
    parts = [f"{cell.label(check)}, in part: {part}" for check in every for part in check.parts]
    lines = {title: _reasons(cell, [c for c in every if c.kind is kind]) for kind, title in TITLES.items()}
    lines[TITLES[FindingKind.NOT_JUDGED]] += parts
    return {title: of_kind for title, of_kind in lines.items() if of_kind}


def _reasons(cell: CellResult, checks: Iterable[CheckResult]) -> list[str]:
    reasons: dict[str, list[CheckResult]] = {}
    for check in checks:
        reasons.setdefault(check.reason, []).append(check)
    lines = []
    for reason, of_reason in reasons.items():
        if len(of_reason) > MOST_NAMES:
            lines.append(f"{plural(len(of_reason), 'check')}: {reason}")
        else:
            lines += [f"{cell.label(check)}: {reason}" for check in of_reason]
    return lines


def failures(checks: Sequence[CheckResult]) -> str:
    """Return how many causes how many failed checks have, "" where that is not news."""
    number = len(causes(checks))
    return f"{plural(number, 'cause')}, {plural(len(checks), 'check')}" if number < len(checks) else ""


MOST_CELLS = 10  # that are named of those that were cut off, and of those that were not begun


def signal_of(result: RunResult) -> str:
    """Return what interrupted a run, "" when nothing did."""
    return f"interrupted by {Signals(result.signal).name}" if result.signal else ""


def interruption_headline(result: RunResult) -> str:
    """Return how many cells came to what, and first that the run was interrupted."""
    return "; ".join(part for part in (signal_of(result), headline(result)) if part)


def interruption_lines(result: RunResult) -> list[str]:
    """Return what ran and what did not, line by line; nothing of a run that was not interrupted."""
    if not result.signal:
        return []
    idle = [cell for cell in result.cells if cell.outcome == Outcome.NOT_STARTED]
    cut = [cell for cell in result.cells if was_cut(cell)]
    ended = len(result.cells) - len(idle) - len(cut)
    head = f"{signal_of(result)}: {ended} of {len(result.cells)} cells ran to the end"
    head += f", {len(cut)} cut off" if cut else ""
    head += f", {len(idle)} not begun" if idle else ""
    return [head, *_few([_cut(cell, result) for cell in cut]), *_few([f"{cell.id}: not begun" for cell in idle])]


def was_cut(cell: CellResult) -> bool:
    """Tell whether a signal ended the attempt that counts."""
    return cell.outcome in (Outcome.INTERRUPTED, Outcome.UNFINISHED) or cell.last_attempt in cell.cut


def _cut(cell: CellResult, result: RunResult) -> str:
    """Return where a cell was cut off, what it had done, and how much it had not."""
    steps = cell.steps_of(cell.last_attempt)
    at = max((s for s in steps if s.outcome == Outcome.INTERRUPTED), key=lambda s: len(s.path), default=None)
    parts = [f"cut off in {at.name}" if at is not None else "cut off between two steps or in a check"]
    parts += [f"{plural(len(cell.last_checks), 'check')} ran"] if cell.last_checks else []
    missing = result.not_run.get(cell.id, 0)
    parts += [f"{missing} steps and checks did not run"] if missing else []
    return f"{cell.id}: {'; '.join(parts)}"


def _few(lines: Sequence[str]) -> list[str]:
    """Return the lines, of many only the first."""
    more = len(lines) - MOST_CELLS
    return [f"  {line}" for line in lines[:MOST_CELLS]] + ([f"  and {more} more"] if more > 0 else [])
