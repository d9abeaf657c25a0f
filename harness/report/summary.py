"""summary.md of a run: what ran, what failed and whose fault it is, where to look."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.check_result import CheckResult, causes
from harness.model import Outcome
from harness.report import suspects, symptoms, words
from harness.report.cell import CellResult, Step, groups_of
from harness.report.markup import code, fenced, prose, row
from harness.report.results import RunResult
from harness.spec.controls import Control, controls
from harness.spec.suites import UPSTREAM
from harness.validate.conformance import upstream
from harness.validate.conformance.verdicts import SpecOutcome

SUITE = "hardening"
MET, UNMET, UNSEEN = "met", "not met", "not checked"


def told(cells: Iterable[CellResult]) -> list[str]:
    """Return the section of a summary about controls, nothing where no cell has checks of them."""
    looked = [
        cell
        for cell in cells
        if any(c.suite == SUITE and c.outcome in (Outcome.PASSED, Outcome.FAILED) for c in cell.last_checks)
    ]
    if not looked:
        return []
    known = controls()
    lines = ["## Controls of the CIS Kubernetes Benchmark", ""]
    lines += ["| cell | met | not met | not checked | not met by choice | need a person |", "|---|--:|--:|--:|--:|--:|"]
    became = {cell.id: states(known.values(), cell.last_checks) for cell in looked}
    choices = [control for control in known.values() if control.not_met]
    persons = [control for control in known.values() if control.person]
    for name, state_by_control in became.items():
        counts = [sum(state == word for state in state_by_control.values()) for word in (MET, UNMET, UNSEEN)]
        lines.append(row(code(name), *map(str, [*counts, len(choices), len(persons)])))
    lines.append("")
    for name, state_by_control in became.items():
        for word in (UNMET, UNSEEN):
            rows = [_row(known[number]) for number, state in state_by_control.items() if state == word]
            lines += [f"{word.capitalize()} in {code(name)}:", "", *rows, ""] if rows else []
    lines += ["Not met by choice:", "", *(_row(control, control.not_met) for control in choices), ""]
    lines += ["A person has to look:", "", *(_row(control, control.person) for control in persons), ""]
    return [*lines, "Met, by the checks that show it:", "", *_shown(known.values()), ""]


def states(known: Iterable[Control], checks: Sequence[CheckResult]) -> Mapping[str, str]:
    """Return what became of each control that checks look at, by its number."""
    outcomes: dict[str, list[str]] = {}
    for check in checks:
        outcomes.setdefault(check.title, []).append(check.outcome)
    return {
        control.id: _state([o for name in control.met for o in outcomes.get(name, ())])
        for control in known
        if control.met
    }


def _state(outcomes: Sequence[str]) -> str:
    if Outcome.FAILED in outcomes:
        return UNMET
    return MET if Outcome.PASSED in outcomes else UNSEEN


def _shown(known: Iterable[Control]) -> list[str]:
    by_check: dict[str, list[str]] = {}
    for control in known:
        for check in control.met:
            by_check.setdefault(check, []).append(control.id)
    return [f"- {code(check)}: {prose(', '.join(numbers))}" for check, numbers in by_check.items()]


def _row(control: Control, why: str = "") -> str:
    return f"- {prose(f'{control.id} {control.title}' + (f': {why}' if why else ''))}"


SPEC_PASSED, SPEC_FAILED, SPEC_SKIPPED, SPEC_NOT_STARTED = "passed", "failed", "skipped by the spec itself", "not run"
SPEC_ITEM = "test_spec["
AXES = ("kubernetes", "network")  # of which a spec's failure is most often a matter


@dataclass(frozen=True)
class SpecItem:
    """One spec in one cell. outcome: a check's; reason: why it did not run; skipped: whether it skipped itself."""

    cell: str
    suite: str
    name: str
    outcome: str
    reason: str = ""
    skipped: bool = False

    @property
    def came_to(self) -> str:
        """Return the word under which it is counted."""
        if self.outcome in (SPEC_PASSED, SPEC_FAILED):
            return self.outcome
        return SPEC_SKIPPED if self.skipped else SPEC_NOT_STARTED


@dataclass(frozen=True)
class SpecCount:
    """The specs of one suite in one cell: how many came to what, and why some were not run, with how many each."""

    cell: str
    suite: str
    counts: Mapping[str, int]
    reasons: Mapping[str, int]


@dataclass(frozen=True)
class SpecDifference:
    """A spec that fails with some values of an axis and with none of those with which it passes."""

    suite: str
    name: str
    axis: str
    fails: tuple[str, ...]
    passes: tuple[str, ...]

    @property
    def told(self) -> str:
        """Return it as a sentence."""
        return f"{self.name} fails on {self.axis} {', '.join(self.fails)}, and passes on {', '.join(self.passes)}"


def spec_name(suite: str, item: str) -> str | None:
    """Return the spec that an item of a suite is about, by the item's name; None where it is about none."""
    return item.removeprefix(SPEC_ITEM).removesuffix("]") if suite in UPSTREAM and item.startswith(SPEC_ITEM) else None


def counted(items: Iterable[SpecItem]) -> tuple[SpecCount, ...]:
    """Count specs by cell and suite, in the order in which these come."""
    items_by_suite: dict[tuple[str, str], list[SpecItem]] = defaultdict(list)
    for item in items:
        items_by_suite[item.cell, item.suite].append(item)
    return tuple(
        SpecCount(
            cell,
            suite,
            Counter(item.came_to for item in specs),
            Counter(item.reason for item in specs if item.came_to == SPEC_NOT_STARTED),
        )
        for (cell, suite), specs in items_by_suite.items()
    )


def differences(items: Iterable[SpecItem], axes: Mapping[str, Mapping[str, str]]) -> tuple[SpecDifference, ...]:
    """Return the specs whose failure goes with a Kubernetes version or a network plugin.

    Args:
        axes: the values of each cell.
    """
    outcomes_by_value: dict[tuple[str, str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for item in items:
        for axis in AXES:
            value = axes.get(item.cell, {}).get(axis)
            if value is not None and item.came_to in (SPEC_PASSED, SPEC_FAILED):
                outcomes_by_value[item.suite, item.name, axis][value].add(item.came_to)
    spec_differences = []
    for (suite, name, axis), values in outcomes_by_value.items():
        fails = tuple(sorted(value for value, came in values.items() if came == {SPEC_FAILED}))
        passes = tuple(sorted(value for value, came in values.items() if came == {SPEC_PASSED}))
        if fails and passes:
            spec_differences.append(SpecDifference(suite, name, axis, fails, passes))
    return tuple(spec_differences)


def table(counts: Iterable[SpecCount]) -> list[str]:
    """Return a Markdown table of the counts, and a line for each reason for which specs were not run."""
    words = (SPEC_PASSED, SPEC_FAILED, SPEC_SKIPPED, SPEC_NOT_STARTED)
    every = tuple(counts)
    rows = [
        row(code(count.cell), prose(count.suite), *(str(count.counts.get(word, 0)) for word in words))
        for count in every
    ]
    lines = [f"| cell | specs | {' | '.join(words)} |", f"|---|---|{'--:|' * len(words)}", *rows, ""] if rows else []
    reasons: Counter[str] = Counter()
    for count in every:
        reasons.update(count.reasons)
    reason_lines = [f"- not run, {number}: {prose(reason)}" for reason, number in reasons.most_common()]
    return [*lines, *reason_lines, ""] if reason_lines else lines


MACHINES = (
    "| machine | after the first phase | most | admitted with | declared | disk, new | disk, last |",
    "|---|--:|--:|--:|--:|--:|--:|",
)
INDENT = "&nbsp;&nbsp;"  # of a step inside another


def render(result: RunResult) -> str:
    """Return the summary as Markdown."""
    blames = words.blames(result)
    lines = [f"# vmatrix run {prose(result.run)}", "", f"**{words.interruption_headline(result)}**", ""]
    lines += [f"- {prose(line.strip())}" for line in words.interruption_lines(result)]
    lines += [f"- {prose(sentence)}" for sentence in (*words.sessions(result), *words.foreign(result))]
    lines += [f"- product: {prose(result.product)}"] if result.product else []
    lines += [f"- tier: {prose(result.tier)}"] if result.tier else []
    lines += [f"- cells of the night {prose(result.night)}: {code(f'--night {result.night}')}"] if result.night else []
    lines += [f"- infra cluster: {prose(infra_line)}" for infra_line in result.infra]
    lines += [f"- blame: {prose(blames)}"] if blames else []
    lines += [f"- failed outside of any cell: {prose(result.error, spans=True)}"] if result.error else []
    if result.kept:
        kept = ", ".join(map(code, sorted(result.kept)))
        lines.append(f"- kept for inspection, to delete with {code(result.cleanup)}: {kept}")
    lines += ["", *_fenced(result.command, "sh"), *_suspects(result), *_symptoms(result), *_cells(result), ""]
    measured = words.measured(result)
    lines += ["Measured:", "", *(f"- {prose(line)}" for line in measured), ""] if measured else []
    lines += _specs(result)
    lines += told(result.cells)
    many = len(result.cells) >= words.MANY_CELLS
    for cell in words.worth_showing(result):
        lines += _cell(cell, many=many, kept=cell.id in result.kept)
    return "\n".join(lines).rstrip() + "\n"


def _suspects(result: RunResult) -> list[str]:
    """Return what may explain the failures, with the evidence; nothing where there is nothing to compare with."""
    explanations = suspects.worth_showing(suspects.explained(suspects.of_run(result), together=result.together))
    rows = [
        f"- {prose(line)}"
        for explained in explanations
        for line in (*suspects.lines_of(explained), *_culprits(result, explained))
    ]
    rows += [f"- further cells: {', '.join(map(code, result.further))}"] if result.further else []
    rows += [f"- no further cell: {prose(why)}" for why in result.no_further]
    return ["## Suspects", "", *rows, ""] if rows else []


def _symptoms(result: RunResult) -> list[str]:
    rows = [f"- {prose(line)}" for line in (*symptoms.lines_of(result.symptoms), *result.given_up)]
    return ["## Symptoms", "", *rows, ""] if rows else []


def _culprits(result: RunResult, explained: suspects.Explained) -> list[str]:
    named = explained.named.values if explained.named is not None else None
    return [
        f"{explained.named.said}: {culprit.said}"
        for culprit in result.culprits
        if explained.named and culprit.values == named
    ]


def _specs(result: RunResult) -> list[str]:
    """Return what upstream's whole sets came to, and which specs fail with one value and pass with another."""
    items = specs_of(result)
    apart = differences(items, result.values)
    lines = table(counted(items))
    difference_lines = [f"- {prose(difference.told)}" for difference in apart]
    return [*lines, *difference_lines, ""] if difference_lines else lines


def specs_of(result: RunResult) -> list[SpecItem]:
    """Return the specs of the attempts that count."""
    return [
        SpecItem(cell.id, check.suite, name, check.outcome, check.reason, skipped=_skipped_itself(check))
        for cell in result.cells
        for check in cell.last_checks
        if (name := spec_name(check.suite, check.name)) is not None
    ]


def _skipped_itself(check: CheckResult) -> bool:
    return check.properties.get(upstream.OUTCOME) == SpecOutcome.SKIPPED


def _cells(result: RunResult) -> list[str]:
    """Return the table of cells."""
    lines = [
        "| cell | outcome | attempts | checks | not run | waited | time | expected |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for cell in result.cells:
        checks, *times = words.counts(cell)
        not_run = sum(c.outcome == Outcome.NOT_RUN for c in cell.last_checks)
        outcome_text = words.outcome(cell, kept=cell.id in result.kept)
        numbers = str(len(cell.attempts)), checks, str(not_run or ""), *times
        lines.append(row(code(cell.id), prose(outcome_text), *numbers))
    return lines


def _cell(cell: CellResult, *, many: bool, kept: bool) -> list[str]:
    lines = [f"## {prose(cell.id)}", "", prose(words.outcome(cell, kept=kept)), ""]
    placed = words.placed(cell)
    lines += [f"It ran {prose(placed)}.", ""] if placed else []
    last, *before = reversed(cell.attempts)
    lines += _attempt(cell, last, many=many)
    for attempt in before:
        lines += [f"### Attempt {attempt}: {prose(words.came_to(cell, attempt))} (does not count)", ""]
        lines += _attempt(cell, attempt, many=many)
    return lines


def _attempt(cell: CellResult, attempt: int, *, many: bool) -> list[str]:
    lines = _steps(cell, attempt, many=many)
    lines += _checks(cell, attempt)
    lines += _machines(cell) if attempt == cell.last_attempt else []
    failures, checks = cell.failures_of(attempt), [c for c in cell.checks_of(attempt) if c.outcome == Outcome.FAILED]
    for step in failures:
        lines += _failed_step(step)
    lines += [f"Failed: {number}.", ""] if (number := words.failures(checks)) else []
    for check, others in causes(sorted(checks, key=lambda c: bool(c.quarantine))):
        lines += _failed_check(cell, check, others)
    for title, names_not_run in words.not_run(cell, cell.checks_of(attempt)).items():
        lines += [f"{title}:", "", *(f"- {prose(line)}" for line in names_not_run), ""]
    if cell.outcome_of(attempt) != Outcome.PASSED:
        lines += [f"Logs: {code(f'{cell.logs(attempt)}/')}", ""]
    return lines


def _steps(cell: CellResult, attempt: int, *, many: bool) -> list[str]:
    steps = [s for s in cell.steps_of(attempt) if s.top or not many]
    if not steps:
        return []
    rows = []
    if cell.admitted is not None and attempt == cell.last_attempt:
        rows = [row("waiting for room and a worker", "", words.duration(cell.admitted.after))]
    rows += [row(INDENT * (len(s.path) - 1) + prose(s.title), prose(s.said), words.duration(s.seconds)) for s in steps]
    return ["| step | outcome | time |", "|---|---|--:|", *rows, ""]


def _checks(cell: CellResult, attempt: int) -> list[str]:
    groups = groups_of(cell, attempt)
    if not groups:
        return []
    rows = [row(prose(group.title), prose(group.said), words.duration(group.seconds)) for group in groups]
    return ["| checks | | time |", "|---|---|--:|", *rows, ""]


def _machines(cell: CellResult) -> list[str]:
    """Return what the machines of the last attempt took of their node."""
    rows = [row(*map(prose, columns)) for columns in words.machines(cell)]
    return [*MACHINES, *rows, ""] if rows else []


def _failed_step(step: Step) -> list[str]:
    lines = [f"**{prose(step.name)}** failed ({_whose(step)}): {prose(step.summary, spans=True)}", ""]
    told = [f"- hint: {prose(step.hint, spans=True)}"] if step.hint else []
    told += [f"- {code(path)}" for path in step.paths]
    lines += [*told, ""] if told else []
    return lines + _fenced(step.detail)


def _failed_check(cell: CellResult, check: CheckResult, others: Sequence[CheckResult]) -> list[str]:
    lines = [f"**{prose(cell.label(check))}** failed ({_whose(check)})", "", *_fenced(check.detail)]
    names = [f"- {prose(cell.label(other).removeprefix(f'{other.suite}: '))}" for other in others]
    return lines + (["Failed by the same cause:", "", *names, ""] if names else [])


def _whose(failure: Step | CheckResult) -> str:
    if failure.quarantine:
        return f"quarantined: {prose(failure.quarantine)}; does not count"
    return prose(failure.blame)


def _fenced(text: str, language: str = "text") -> list[str]:
    """Return a text as a block that no line of it can end; nothing of one that says nothing."""
    return [*fenced(text, language), ""] if text.strip() or language != "text" else []
