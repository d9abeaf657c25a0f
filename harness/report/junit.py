"""JUnit XML: of a run, which GitLab reads, and of a run of conformance specs, as CNCF's programme takes it.

What GitLab makes of a run's file decides its form (its parser, lib/gitlab/ci/parsers/test/junit.rb): class and name
must be unique; a `failure` or `error` turns the report red; of a `skipped` case it shows the text inside the element,
and `system-out` only of cases that failed. Hence
- failures that do not count (in quarantine, or of an attempt that was repeated) are `skipped`, with their text inside;
- the attempt that counts has names without its number, so that a test keeps its name from pipeline to pipeline; of the
  attempts before there is only what did not pass, with the attempt's number in its name.

CNCF takes four files, as https://github.com/cncf/k8s-conformance/blob/master/instructions.md has them: README.md,
PRODUCT.yaml, e2e.log, junit_01.xml. What its reviewers look for is looked for here first (reviewing.md there).
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as Xml

import yaml

from harness import yaml_text
from harness.check_result import CheckResult
from harness.errors import BadInput
from harness.events import recorded
from harness.files import read_text
from harness.model import Outcome
from harness.report import words
from harness.report.cell import CellResult, Step
from harness.report.results import RunResult
from harness.rundir import RunDir
from harness.sanitize import sanitized
from harness.spec.suites import CERTIFICATION
from harness.validate.conformance.ginkgo import LOG, REPORT
from harness.validate.conformance.upstream import load_upstream
from harness.validate.conformance.verdicts import SpecOutcome, read_verdicts
from harness.validate.expected import minor_of

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
    told = (step.summary, f"hint: {step.hint}" if step.hint else "", *step.paths, step.detail)
    text = "\n".join(line for line in told if line) or step.outcome
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
    told = any(
        e.outcome in (Outcome.UNFINISHED, Outcome.INTERRUPTED) for e in cell.steps_of(cell.last_attempt) if e.top
    )
    if cell.outcome != Outcome.UNFINISHED or told:
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


REQUIRED = ("vendor", "name", "version", "website_url", "documentation_url", "type", "description")
OPTIONAL = ("repo_url", "product_logo_url", "contact_email_address")
TYPES = ("distribution", "hosted platform", "installer")
PRODUCT_FILE, E2E_LOG, README = "PRODUCT.yaml", "e2e.log", "README.md"
SUCCESS = re.compile(r"SUCCESS! -- \d+ Passed \| 0 Failed \| 0 Pending \| \d+ Skipped")
MOST_NAMES = 5

TEXT = """\
# {name} {version}: conformance of Kubernetes {kubernetes}

The results in this directory are those of one cell of vmatrix: `{cell}` of run `{run}`. {description}

To reproduce them:

```sh
vmatrix run {cell} --tier conformance
vmatrix conformance export RUN {cell} --product PRODUCT.yaml --output DIR
```

vmatrix deployed the cluster with these values: {values}. It then ran `e2e.test` of Kubernetes {kubernetes} through
`ginkgo`, with the label filter `Conformance` and nothing left out: {specs} specs, side by side, and after them one by
one those that are marked `[Serial]`.
"""


@dataclass(frozen=True)
class Submission:
    """What a run says of a cell: the run's id, the cell, its values, and the files of its suite."""

    run: str
    cell: str
    values: Mapping[str, str]
    checks: Path

    @staticmethod
    def of(run: RunDir, cell: str, checks: Path) -> Submission:
        """Return what a run has of a cell.

        Raises:
            BadInput: the run does not know the cell, or the suite did not run in it.
        """
        events = recorded(run.path).events if run.results.is_file() else ()
        known = [event["values"] for event in events if event.get("values")]
        values = next((every[cell] for every in reversed(known) if cell in every), None)
        if values is None:
            raise BadInput(f"{run.path} has no cell {cell}", hint="`vmatrix list --tier conformance` lists cells")
        for name in (REPORT, LOG):
            if not (checks / name).is_file():
                raise BadInput(
                    f"the suite {CERTIFICATION} did not run in {cell}: {checks / name} does not exist",
                    hint=f"vmatrix run {cell} --tier conformance",
                )
        return Submission(run.path.name, cell, values, checks)

    @property
    def kubernetes(self) -> str:
        """Return the version of Kubernetes."""
        return str(self.values["kubernetes"])


def read_product(path: Path) -> dict[str, str]:
    """Read a PRODUCT.yaml.

    Raises:
        BadInput: it cannot be read, lacks a field, or has one that the programme does not know.
    """
    hint = f"it needs {', '.join(REQUIRED)}; it may have {', '.join(OPTIONAL)}"
    raw = yaml_text.document(read_text(path), path, hint=hint)
    if not isinstance(raw, dict):
        raise BadInput(f"{path} is not a mapping", hint=hint, paths=[path])
    wrong = [f"`{name}` is missing" for name in REQUIRED if not raw.get(name)]
    wrong += [f"`{name}` is unknown" for name in raw if name not in (*REQUIRED, *OPTIONAL)]
    if raw.get("type") and str(raw["type"]).lower() not in TYPES:
        wrong.append(f"`type` is {raw['type']!r}, none of {', '.join(TYPES)}")
    if wrong:
        raise BadInput(f"{path}: {'; '.join(wrong)}", hint=hint, paths=[path])
    return {str(name): str(value) for name, value in raw.items()}


def write_submission(submission: Submission, product: Mapping[str, str], output: Path) -> Path:
    """Write the four files into a new directory; return it.

    Raises:
        BadInput: not every spec of the set passed, or the directory exists.
    """
    specs = refuse_unfit(submission)
    try:
        output.mkdir(parents=True)
    except FileExistsError as error:
        raise BadInput(f"{output} exists", hint="name a directory that does not exist") from error
    shutil.copyfile(submission.checks / REPORT, output / REPORT)
    shutil.copyfile(submission.checks / LOG, output / E2E_LOG)
    text = yaml.safe_dump(dict(product), sort_keys=False, allow_unicode=True)
    (output / PRODUCT_FILE).write_text(text, encoding="utf-8")
    values = ", ".join(f"{axis} {value}" for axis, value in submission.values.items())
    readme = TEXT.format(
        **{name: product[name] for name in ("name", "version", "description")},
        kubernetes=submission.kubernetes,
        cell=submission.cell,
        run=submission.run,
        values=values,
        specs=specs,
    )
    (output / README).write_text(readme, encoding="utf-8")
    return output


def refuse_unfit(submission: Submission) -> int:
    """Refuse a run that reviewers would refuse; return how many specs passed.

    Raises:
        BadInput: specs of the set did not pass, or the log does not say so.
    """
    names = load_upstream(minor_of(submission.kubernetes)).of(CERTIFICATION)
    if not names:
        raise BadInput(
            f"the set of Kubernetes {submission.kubernetes} is not known",
            hint=f"vmatrix conformance list {submission.kubernetes} > matrix/conformance/upstream/MINOR.yml",
        )
    verdicts = read_verdicts(submission.checks / REPORT, names)
    others = [name for name, verdict in verdicts.items() if verdict.outcome is not SpecOutcome.PASSED]
    log = submission.checks / LOG
    if others:
        more = f" and {len(others) - MOST_NAMES} more" if len(others) > MOST_NAMES else ""
        listed = "; ".join(others[:MOST_NAMES])
        raise BadInput(
            f"{len(others)} of {len(names)} specs of {submission.cell} did not pass: {listed}{more}",
            hint="only a run of the whole set in which every spec passed is a proof; the cell's summary says more",
            paths=[log],
        )
    if not SUCCESS.search(log.read_text(encoding="utf-8", errors="replace")):
        raise BadInput(f"{log} does not say that all specs passed", hint="run the suite again", paths=[log])
    return len(names)
