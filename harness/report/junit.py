"""JUnit XML of a run, which GitLab reads.

What GitLab makes of a run's file decides its form (its parser, lib/gitlab/ci/parsers/test/junit.rb): class and name
must be unique; a `failure` or `error` turns the report red; of a `skipped` case it shows the text inside the element,
and `system-out` only of cases that failed. Hence
- failures that do not count (in quarantine, or of an attempt that was repeated) are `skipped`, with their text inside;
- the attempt that counts has names without its number, so that a test keeps its name from pipeline to pipeline; of the
  attempts before there is only what did not pass, with the attempt's number in its name.
"""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree as Xml

from harness.check_result import CheckResult
from harness.model import Outcome
from harness.report import words
from harness.report.cell import CellResult, Step
from harness.report.results import RunResult
from harness.sanitize import sanitized

COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def render(result: RunResult) -> bytes:
    """Return the report as XML."""
    root = Xml.Element("testsuites", name=_clean(f"vmatrix {result.run}"))
    for cell in result.cells:
        root.append(_suite(cell))
    Xml.indent(root)
    rendered: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return rendered


def _suite(cell: CellResult) -> Xml.Element:
    cases = [case for attempt in cell.attempts for case in _attempt(cell, attempt)] + _ending(cell)
    _make_unique(cases)
    counts = {word: str(sum(case.find(tag) is not None for case in cases)) for word, tag in COUNTED.items()}
    attributes = {"name": _clean(cell.id), "tests": str(len(cases)), **counts, "time": f"{cell.seconds:.3f}"}
    suite = Xml.Element("testsuite", attributes)
    suite.extend(cases)
    return suite


def _attempt(cell: CellResult, attempt: int) -> list[Xml.Element]:
    counts = attempt == cell.last_attempt
    steps = [s for s in cell.steps_of(attempt) if s.top and (counts or s.outcome != Outcome.PASSED)]
    checks = [c for c in cell.checks_of(attempt) if counts or c.outcome == Outcome.FAILED]
    return [*(_step(cell, s, counts=counts) for s in steps), *(_check(cell, c, counts=counts) for c in checks)]


def _step(cell: CellResult, step: Step, *, counts: bool) -> Xml.Element:
    made = _case(cell.id, _named(f"step {step.name}", "", step.attempt, counts=counts), step.seconds)
    if step.outcome == Outcome.PASSED:
        return made
    lines = (step.summary, f"hint: {step.hint}" if step.hint else "", *step.paths, step.detail)
    text = "\n".join(line for line in lines if line) or step.outcome
    _not_passed(made, step, text, tag="error", counts=counts)
    return made


def _check(cell: CellResult, check: CheckResult, *, counts: bool) -> Xml.Element:
    stage = f"after {check.stage}" if len(cell.stages) > 1 and check.stage else ""
    name = _named(check.name, stage, check.attempt, counts=counts)
    made = _case(f"{cell.id}.{check.suite}", name, check.seconds)
    text = check.detail.strip()
    if check.outcome == Outcome.FAILED:
        _not_passed(made, check, text, tag="failure", counts=counts)
    elif check.outcome == Outcome.NOT_RUN:
        _add(made, "skipped", text, text)
    return made


def _not_passed(case: Xml.Element, failure: Step | CheckResult, text: str, *, tag: str, counts: bool) -> None:
    """Say that a step or check did not pass: by its tag when that counts, else as skipped."""
    whose = f" ({failure.blame})" if failure.blame else ""
    first = (failure.summary or failure.outcome) if isinstance(failure, Step) else failure.headline
    rest = f"\n{text}" if text != first else ""
    if not counts:
        message = f"attempt {failure.attempt} {failure.outcome}{whose}: {first}"
        _add(case, "skipped", message, message + rest)
    elif failure.quarantine:
        message = f"quarantined: {failure.quarantine}{whose}: {first}"
        _add(case, "skipped", message, message + rest)
    else:
        default = "product" if tag == "failure" else failure.outcome
        _add(case, tag, first, text).set("type", _clean(failure.blame or default))


def _ending(cell: CellResult) -> list[Xml.Element]:
    """Return a case that says how a cell ended of which no step or check says so."""
    message = words.came_to(cell, cell.last_attempt)
    if cell.outcome == Outcome.NOT_STARTED:
        case = _case(cell.id, "cell", 0.0)
        _add(case, "skipped", message, message)
        return [case]
    is_said = any(
        e.outcome in (Outcome.UNFINISHED, Outcome.INTERRUPTED) for e in cell.steps_of(cell.last_attempt) if e.top
    )
    if cell.outcome != Outcome.UNFINISHED or is_said:
        return []
    case = _case(cell.id, "cell", 0.0)
    text = "the run ended before the cell's teardown"
    _add(case, "error", text, text).set("type", Outcome.UNFINISHED)
    return [case]


def _named(name: str, stage: str, attempt: int, *, counts: bool) -> str:
    """Return a case's name; in brackets what tells it from others of the same cell."""
    besides = ", ".join(part for part in (stage, "" if counts else f"attempt {attempt}") if part)
    return f"{name} ({besides})" if besides else name


def _make_unique(cases: list[Xml.Element]) -> None:
    """Number the cases of the same class and name from the second on: a step may be tried twice in an attempt."""
    counts: Counter[tuple[str, str]] = Counter()
    for case in cases:
        key = case.attrib["classname"], case.attrib["name"]
        counts[key] += 1
        if counts[key] > 1:
            case.set("name", f"{key[1]} #{counts[key]}")


def _case(classname: str, name: str, seconds: float) -> Xml.Element:
    return Xml.Element("testcase", classname=_clean(classname), name=_clean(name), time=f"{seconds:.3f}")


def _add(case: Xml.Element, tag: str, message: str, text: str) -> Xml.Element:
    made = Xml.SubElement(case, tag, message=_clean(message))
    made.text = _clean(text)
    return made


def _clean(text: str) -> str:
    """Return a text that XML 1.0 can hold: results that were written down are such already."""
    return sanitized(text)
