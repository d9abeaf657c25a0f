"""JUnit XML of a run: one suite per cell, its top-level steps and its checks as test cases. GitLab reads it."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as Xml

from harness.report.results import CellResult, Check, RunResult, Step

NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(result: RunResult, path: Path) -> None:
    """Write the file, atomically."""
    root = Xml.Element("testsuites", name=f"vmatrix {result.run}")
    for cell in result.cells:
        root.append(_suite(cell))
    Xml.indent(root)
    temporary = path.with_suffix(".tmp")
    Xml.ElementTree(root).write(temporary, encoding="utf-8", xml_declaration=True)
    temporary.replace(path)


def _suite(cell: CellResult) -> Xml.Element:
    steps = [s for s in cell.steps if len(s.path) == 1]
    failures = sum(c.outcome == "failed" for c in cell.checks)
    errors = sum(s.outcome != "passed" for s in steps)
    skipped = sum(c.outcome == "not-run" for c in cell.checks)
    suite = Xml.Element(
        "testsuite",
        name=cell.id,
        tests=str(len(steps) + len(cell.checks)),
        failures=str(failures),
        errors=str(errors),
        skipped=str(skipped),
        time=f"{cell.seconds:.3f}",
    )
    for step in steps:
        suite.append(_step(cell, step))
    for check in cell.checks:
        suite.append(_check(cell, check))
    return suite


def _step(cell: CellResult, step: Step) -> Xml.Element:
    name = f"step {step.name}" + (f" (attempt {step.attempt})" if step.attempt > 1 else "")
    made = Xml.Element("testcase", classname=cell.id, name=name, time=f"{step.seconds:.3f}")
    if step.outcome != "passed":
        text = "\n".join(
            t for t in (step.summary, f"hint: {step.hint}" if step.hint else "", *step.paths, step.detail) if t
        )
        error = Xml.SubElement(
            made, "error", type=step.blame or step.outcome, message=_clean(step.summary or step.outcome)
        )
        error.text = _clean(text)
    return made


def _check(cell: CellResult, check: Check) -> Xml.Element:
    made = Xml.Element(
        "testcase", classname=f"{cell.id}.{check.suite}", name=_clean(check.name), time=f"{check.seconds:.3f}"
    )
    first = check.detail.strip().splitlines()[0] if check.detail.strip() else ""
    if check.outcome == "failed":
        failure = Xml.SubElement(made, "failure", type=check.blame or "product", message=_clean(first))
        failure.text = _clean(check.detail)
    elif check.outcome == "not-run":
        Xml.SubElement(made, "skipped", message=_clean(check.detail.strip()))
    return made


def _clean(text: str) -> str:
    """Leave out what XML 1.0 cannot hold."""
    return NOT_XML.sub("", text)
