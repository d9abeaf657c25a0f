"""Reports are made from what was written as it happened, also of a run that was killed."""

from __future__ import annotations

import io
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from rich.console import Console

from harness.cell.steps import Steps
from harness.errors import InfraError, ProductError
from harness.events import Recorder
from harness.report import junit, summary, terminal, words
from harness.report.results import load
from harness.spec.models import QuarantineEntry
from tests.unit.report.written import ISSUE, Written

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
    (tmp_path / "junit.xml").write_bytes(junit.render(load(failing_run(tmp_path))))
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
        "| `k1-abc123` | failed: product | 1 | 1/2 | 1 |",
        "hint: look there",
        "- nodes: [sig-node] x: image nginx",
    ):
        assert part in text


def test_the_terminal_shows_blame_hint_and_paths(tmp_path: Path) -> None:
    console = Console(record=True, width=100, file=io.StringIO())
    terminal.show(load(failing_run(tmp_path)), console)
    text = console.export_text()
    for part in ("deploy / apply failed; blame: product", "hint: look there", "see: /tmp/deploy.log", "1 not run"):
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
    assert "killed or still running" in summary.render(result)


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
    recorder.write("check", cell=CELL, name="t", suite="nodes", outcome="passed", seconds=0.1, attempt=2)
    with Steps(recorder, CELL, 2).step("teardown"):
        pass
    (cell,) = load(tmp_path).cells
    assert cell.outcome == "passed"
    assert "no room" in summary.render(load(tmp_path))


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
    assert "39 more checks failed by the same cause" in console.export_text()


def cases(run: Written, **given: Any) -> dict[str, Xml.Element]:
    """Return the test cases of the run's junit.xml by class and name, which GitLab wants to be unique."""
    path = run.directory / "junit.xml"
    path.write_bytes(junit.render(load(run.directory, **given)))
    found = list(Xml.parse(path).getroot().iter("testcase"))
    by_name = {f"{c.attrib['classname']} {c.attrib['name']}": c for c in found}
    assert len(by_name) == len(found)
    return by_name


def totals(run: Written) -> dict[str, str]:
    (suite,) = Xml.parse(run.directory / "junit.xml").getroot()
    return {word: suite.attrib[word] for word in ("tests", "failures", "errors", "skipped")}


def on_terminal(run: Written, width: int = 160, **given: Any) -> str:
    console = Console(width=width, file=io.StringIO())
    terminal.show(load(run.directory, **given), console)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def repeated(run: Written) -> Written:
    """Write a cell whose check failed, and passed when the cell was run again."""
    run.start(CELL).step(CELL, "provision").step(CELL, "deploy")
    run.check(CELL, outcome="failed", blame="product", detail="def test_ready():\nE   assert 1 == 2").gone(CELL).end(1)
    return run.start(CELL, rerun=True).passes(CELL).end(0)


def test_what_passed_at_the_second_attempt_is_not_red_and_says_so_everywhere(run: Written) -> None:
    found = cases(repeated(run))
    assert totals(run) == {"tests": "6", "failures": "0", "errors": "0", "skipped": "1"}
    skipped = found[f"{CELL}.nodes test_ready (attempt 1)"].find("skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == "attempt 1 failed (product): assert 1 == 2"
    assert "def test_ready" in str(skipped.text)
    assert len(found[f"{CELL}.nodes test_ready"]) == 0
    said = "passed (attempt 2; attempt 1 failed: product)"
    text = summary.render(load(run.directory))
    assert f"| `{CELL}` | {said} | 2 | 1/1 |" in text
    assert "### Attempt 1: failed: product (does not count)" in text
    assert "1 of 1 cells passed (1 only on a later attempt)" in text
    assert said in on_terminal(run)
    assert "attempt 1: nodes: test_ready failed; blame: product" in on_terminal(run)


def test_a_cell_that_failed_twice_is_red_once(run: Written) -> None:
    run.start(CELL).fails(CELL, "provision").gone(CELL).end(75)
    run.start(CELL, rerun=True).fails(CELL, "provision", summary="no address").gone(CELL).end(75)
    found = cases(run)
    assert (totals(run)["errors"], totals(run)["skipped"]) == ("1", "1")
    error = found[f"{CELL} step provision"].find("error")
    assert error is not None
    assert (error.attrib["message"], error.attrib["type"]) == ("no address", "infra")


def test_what_is_in_quarantine_is_skipped_with_its_issue_and_its_text(run: Written) -> None:
    run.start(CELL).check(CELL).check(CELL, "test_swap", "failed", blame="product", detail="x = 1\nE   swap is on")
    run.gone(CELL).end(0)
    entries = [QuarantineEntry(cell="*", check="nodes: test_swap", issue=ISSUE, reason="known", until=date.max)]
    skipped = cases(run, quarantine=entries)[f"{CELL}.nodes test_swap"].find("skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == f"quarantined: {ISSUE} (product): swap is on"
    assert "x = 1" in str(skipped.text)
    assert totals(run)["failures"] == "0"
    text = summary.render(load(run.directory, quarantine=entries))
    assert f"**nodes: test_swap** failed (quarantined: {ISSUE}; does not count)" in text
    assert "0 of 1 cells passed, 1 quarantined" in text
    assert "blame" not in text
    assert f"quarantined, does not count: {ISSUE}" in on_terminal(run, quarantine=entries)


def test_checks_are_told_apart_by_stage_where_there_are_several(run: Written) -> None:
    run.start(CELL).passes(CELL, "upgrade", "upgrade-2").end(0)
    names = [name.partition(" ")[2] for name in cases(run) if ".nodes " in name]
    assert names == [f"test_ready (after {stage})" for stage in ("deploy", "upgrade", "upgrade-2")]
    text = summary.render(load(run.directory))
    assert text.index("| after deploy: nodes | 1 passed |") < text.index("| after upgrade: nodes | 1 passed |")
    assert "checks: after upgrade-2: nodes" in on_terminal(run)


def test_a_step_tried_twice_has_two_cases(run: Written) -> None:
    run.start(CELL).passes(CELL).fails(CELL, "teardown").end(5)
    assert f"{CELL} step teardown #2" in cases(run)


def test_a_cell_that_never_began_and_one_cut_off_say_so(run: Written) -> None:
    run.start(CELL, "k1-zzzzzz").step(CELL, "provision").step(CELL, "deploy").check(CELL)
    found = cases(run)
    assert found["k1-zzzzzz cell"].find("skipped") is not None
    assert found[f"{CELL} cell"].find("error") is not None
    text = summary.render(load(run.directory))
    assert "0 of 2 cells passed, 1 unfinished, 1 not started" in text
    assert "| `k1-zzzzzz` | not started | 0 |" in text
    assert "killed or still running" in text
    assert "## k1-zzzzzz" not in text


def test_of_many_cells_only_those_to_look_at_have_a_section(run: Written) -> None:
    ids = [f"k1-{letter * 6}" for letter in "abcdef"]
    run.start(*ids, parallel=3)
    run.seconds += 62
    for cell in ids[:-1]:
        run.admitted(cell).passes(cell)
    run.admitted(ids[-1], expected=125).begin(ids[-1], "deploy").fails(ids[-1], "deploy", "apply", blame="product")
    run.over(ids[-1], "deploy", outcome="failed", blame="product", summary="no room").gone(ids[-1]).end(1)
    text = summary.render(load(run.directory))
    assert "5 of 6 cells passed, 1 failed" in text
    assert "6 cells, up to 3 in parallel, 6 min 13 s; exit code 1" in text
    assert "blame: product: 1 failure in 1 cell" in text
    assert f"| `{ids[0]}` | passed | 1 | 1/1 |  | 62.0 s | 60.5 s | 95.0 s |" in text
    assert [line for line in text.splitlines() if line.startswith("## ")] == [f"## {ids[-1]}"]
    assert "| waiting for room and a worker |  | 6 min 02 s |" in text
    assert "on gw0; expected 2 min 05 s (the median of 3 runs of this cell)" in text
    assert "apply | failed" not in text  # inner steps: the failure below names it
    assert "**deploy / apply** failed (product): no room" in text
    shown = on_terminal(run)
    assert shown.count("provision") == 0
    assert f"{ids[-1]}: failed: product" in shown


@pytest.mark.parametrize("width", [80, 160])
def test_every_line_of_a_terminal_fits_and_ids_are_whole(run: Written, width: int) -> None:
    ids = [f"k1354-d12-c17-ro-ip-c3w2-upgrade-minor-m-{number:06}" for number in range(2)]
    run.start(*ids, parallel=2)
    for cell in ids:
        run.admitted(cell).passes(cell, "upgrade")
    text = on_terminal(run.end(0), width)
    *lines, _headline, _session = text.splitlines()
    assert max(map(len, lines)) <= width
    assert all(text.count(cell) == 2 for cell in ids)  # in the overview and over its steps


def test_many_checks_that_did_not_run_for_one_reason_are_one_line(run: Written) -> None:
    run.start(CELL).step(CELL, "provision")
    for number in range(40):
        run.check(CELL, f"spec {number}", "not-run", detail="not run: the deployment failed")
    text = summary.render(load(run.gone(CELL).directory))
    assert "- 40 checks: the deployment failed" in text
    assert "spec 39" not in text


def test_a_kept_cell_is_named_with_the_command_that_takes_it_away(run: Written) -> None:
    run.start(CELL).fails(CELL, "provision").event("kept", cell=CELL, attempt=1).end(75)
    text = summary.render(load(run.directory))
    assert f"kept for inspection, to delete with `vmatrix reap`: `{CELL}`" in text
    assert "| failed: infra, kept |" in text


def test_a_failure_with_code_fences_in_it_stays_one_block(run: Written) -> None:
    run.start(CELL).check(CELL, outcome="failed", blame="product", detail="a\n```go\nb").gone(CELL)
    assert "````text\na\n```go\nb\n````" in summary.render(load(run.directory))


def test_a_very_long_line_is_cut_on_a_terminal_only(run: Written) -> None:
    run.start(CELL).check(CELL, outcome="failed", blame="product", detail="x" * 5000).gone(CELL)
    assert on_terminal(run).count("x") < 1100
    assert "x" * 5000 in summary.render(load(run.directory))


def test_a_wait_for_room_is_a_line_of_its_own(run: Written) -> None:
    run.start(CELL).step(CELL, "admission", seconds=125.0).passes(CELL).end(0)
    assert "| waiting for room | passed | 2 min 05 s |" in summary.render(load(run.directory))
    assert "waiting for room" in on_terminal(run)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.04, "0.0 s"), (99.4, "99.4 s"), (125, "2 min 05 s"), (3720, "1 h 02 min")]
)
def test_how_long_something_took(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said


def test_what_a_check_measured_is_told_by_every_report_whatever_its_outcome(run: Written) -> None:
    said = "workload: longest outage 1.5 s (at most 120 s), 3 of 700 questions without a good answer in 350 s"
    run.start(CELL).step(CELL, "upgrade")
    for outcome in ("passed", "failed"):
        more = {"suite": "phases", "stage": "upgrade", "seconds": 0.1, "properties": {"measured": f"{outcome}, {said}"}}
        run.event("check", cell=CELL, attempt=1, name=f"test_{outcome}", outcome=outcome, **more)
    run.step(CELL, "teardown").end(1)
    result = load(run.directory)
    lines = [f"{CELL}, upgrade: {outcome}, {said}" for outcome in ("passed", "failed")]
    assert words.measured(result) == lines
    shown = io.StringIO()
    terminal.show(result, Console(file=shown, width=80))
    for line in lines:
        assert f"- {line}" in summary.render(result)
        assert f"measured in {line}" in shown.getvalue()
