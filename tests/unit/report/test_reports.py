"""Reports are made from what was written as it happened, also of a run that was killed."""

from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from rich.console import Console

from harness.cell.steps import StepEvent, Steps
from harness.errors import InfraError, ProductError
from harness.record import Recorder
from harness.report import junit, summary, terminal
from harness.report.live import Live
from harness.report.results import load

CELL = "k1-abc123"


def failing_run(directory: Path) -> Path:
    recorder = Recorder(directory)
    recorder.write(
        "run-start", run="r00001", command="pytest --tier smoke", cleanup="vmatrix reap --run r00001", cells=[CELL]
    )
    steps = Steps(recorder, CELL, 1)
    with steps.step("provision"), steps.step("machines"):
        pass
    with pytest.raises(ProductError), steps.step("deploy"), steps.step("apply"):
        raise ProductError(
            "task [x] failed on cp-0", hint="look there", paths=[Path("/tmp/deploy.log")], detail="fatal"
        )
    check = {"cell": CELL, "suite": "nodes", "seconds": 0.5}
    recorder.write("check", name="test_kubelet", outcome="passed", **check)
    recorder.write("check", name="test_swap", outcome="failed", blame="product", detail="assert 1 == 0\x00", **check)
    recorder.write("check", name="[sig-node] x", outcome="not-run", detail="not run: image nginx", **check)
    recorder.write("run-end", exit_code=1)
    return directory


def test_a_cell_fails_with_its_innermost_failure_once(tmp_path: Path) -> None:
    (cell,) = load(failing_run(tmp_path)).cells
    assert cell.outcome == "failed"
    assert [(s.name, s.blame, s.summary) for s in cell.failures] == [
        ("deploy / apply", "product", "task [x] failed on cp-0")
    ]


def test_junit_has_one_suite_per_cell_with_steps_and_checks(tmp_path: Path) -> None:
    junit.write(load(failing_run(tmp_path)), tmp_path / "junit.xml")
    (suite,) = Xml.parse(tmp_path / "junit.xml").getroot()
    assert suite.attrib["name"] == CELL
    assert {k: suite.attrib[k] for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    cases = {c.attrib["name"]: c for c in suite}
    assert cases["[sig-node] x"].find("skipped") is not None
    failure = cases["test_swap"].find("failure")
    assert failure is not None
    assert failure.attrib["type"] == "product"


def test_the_summary_says_what_failed_and_where_to_look(tmp_path: Path) -> None:
    text = summary.render(load(failing_run(tmp_path)))
    for part in (
        "0 of 1 cells passed",
        "exit code 1",
        "| `k1-abc123` | failed | 1/2 | 1 |",
        "hint: look there",
        "not run: image nginx",
    ):
        assert part in text


def test_the_terminal_shows_blame_hint_and_paths(tmp_path: Path) -> None:
    console = Console(record=True, width=100, file=io.StringIO())
    terminal.show(load(failing_run(tmp_path)), console)
    text = console.export_text()
    for part in ("deploy / apply failed; to blame: product", "hint: look there", "see: /tmp/deploy.log", "1 not run"):
        assert part in text


def test_a_killed_run_is_unfinished_never_passed(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.write("run-start", run="r00001", command="x", cells=[CELL])
    recorder.write("step-start", cell=CELL, attempt=1, step=["provision"])
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"event": "step-e')
    result = load(tmp_path)
    assert result.exit_code is None
    assert result.cells[0].outcome == "unfinished"
    assert "it was killed" in summary.render(result)


def test_a_cell_without_any_check_is_not_passed(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.write("run-start", run="r00001", command="x", cells=[CELL])
    with Steps(recorder, CELL, 1).step("provision"):
        pass
    assert load(tmp_path).cells[0].outcome == "unfinished"


def test_a_failed_first_attempt_at_provisioning_stays_visible_and_does_not_fail_the_cell(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.write("run-start", run="r00001", command="x", cells=[CELL])
    with pytest.raises(InfraError), Steps(recorder, CELL, 1).step("provision"):
        raise InfraError("no room")
    with Steps(recorder, CELL, 2).step("provision"):
        pass
    recorder.write("check", cell=CELL, name="t", suite="nodes", outcome="passed", seconds=0.1)
    (cell,) = load(tmp_path).cells
    assert cell.outcome == "passed"
    assert "no room" in summary.render(load(tmp_path))


def test_plain_lines_and_gitlab_sections(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file:
        live = Live(Console(file=file, width=200), gitlab=True)
        live.on_step(StepEvent("c1", ("provision",), None, 0.0))
        live.on_step(StepEvent("c1", ("provision", "machines"), "passed", 2.5))
        live.on_step(StepEvent("c1", ("provision",), "failed", 3.0, "no room"))
    text = (tmp_path / "out").read_bytes().decode()
    assert "section_start:" in text
    assert ":c1_provision\r" in text
    assert "c1: provision / machines ok (2.5 s)" in text
    assert "c1: provision FAILED (3.0 s): no room" in text
    assert text.index("section_end:") > text.index("FAILED")


def test_checks_that_fail_in_the_same_way_are_said_once(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.write("run-start", run="r00001", command="x", cells=[CELL])
    for number in range(40):
        recorder.write(
            "check",
            cell=CELL,
            suite="conformance",
            seconds=0.1,
            name=f"spec {number}",
            outcome="failed",
            blame="harness",
            detail=f"spec {number}\nginkgo left no report",
        )
    text = summary.render(load(tmp_path))
    assert text.count("ginkgo left no report") == 1
    assert "- spec 39" in text
    console = Console(record=True, width=100, file=io.StringIO())
    terminal.show(load(tmp_path), console)
    assert "and 39 more checks failed in the same way" in console.export_text()
