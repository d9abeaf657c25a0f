"""What is said while cells run: cell by cell, side by side, in a job's log and on a terminal."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from harness.cell.steps import Outcome, StepEvent
from harness.report.live import Live, Progress, Underway

ONE, TWO = "k1363-d13-c2-fl-nf-a1-fresh-m-2b3a44", "k1344-u24-c2-fl-nf-c1w2-scale-u-93cc01"


def told(live: Live, cell: str, *path: str, outcome: Outcome | None = "passed", seconds: float = 2.5) -> None:
    """Tell of a step that begins and, unless the outcome is None, ends."""
    live.on_step(StepEvent(cell, path, None, 0.0))
    if outcome is not None:
        live.on_step(StepEvent(cell, path, outcome, seconds, "" if outcome == "passed" else "no room"))


def checked(live: Live, cell: str, outcome: str = "passed") -> None:
    live.on_event(
        {"event": "check", "cell": cell, "outcome": outcome, "suite": "nodes", "name": "test_x", "seconds": 1}
    )


def side_by_side(cells: int = 3, *, width: int = 200, terminal: bool = False) -> tuple[Live, io.StringIO]:
    out = io.StringIO()
    return Live(Console(file=out, width=width, force_terminal=terminal), gitlab=True, parallel=True, cells=cells), out


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


def test_a_cell_in_a_worker_from_its_start_to_its_end() -> None:
    live, out = side_by_side()
    live.on_event({"event": "admitted", "cell": ONE, "worker": "gw0", "expected": 95, "source": "the last run"})
    told(live, ONE, "provision", "machines")
    told(live, ONE, "provision", seconds=11.1)
    checked(live, ONE)
    checked(live, ONE, "not-run")
    told(live, ONE, "teardown")
    lines = out.getvalue().splitlines()
    assert lines[:2] == [
        f"{ONE}: starts on gw0; expected 95.0 s (the last run); 0 of 3 done, 1 running, 2 waiting",
        f"{ONE}: provision ok (11.1 s)",
    ]
    took = r"\d+\.\d s; expected 95\.0 s"
    assert re.fullmatch(rf"{ONE}: done: passed 1 check \({took}\); 1 of 3 done, 0 running, 2 waiting", lines[-1])
    assert "section_" not in out.getvalue()


@pytest.mark.parametrize(
    ("failing", "said"),
    [("deploy", "done: FAILED in deploy, 1 of 2 checks failed"), ("", "done: FAILED, 1 of 2 checks failed")],
)
def test_a_cell_that_failed_says_in_what(failing: str, said: str) -> None:
    live, out = side_by_side()
    if failing:
        told(live, ONE, failing, outcome="failed")
    checked(live, ONE)
    checked(live, ONE, "failed")
    told(live, ONE, "teardown")
    assert f"{ONE}: {said} (" in out.getvalue()
    assert f"{ONE}: nodes: test_x FAILED (1.0 s)" in out.getvalue()


def test_a_failed_attempt_at_provisioning_does_not_fail_the_cell() -> None:
    live, out = side_by_side()
    told(live, ONE, "provision", outcome="failed")
    told(live, ONE, "start over", "teardown")
    assert "done:" not in out.getvalue()
    told(live, ONE, "start over")
    told(live, ONE, "provision")
    checked(live, ONE)
    told(live, ONE, "teardown")
    assert "provision FAILED (2.5 s): no room" in out.getvalue()
    assert "done: passed 1 check (" in out.getvalue()


@pytest.mark.parametrize("step", ["worker", "admission"])
def test_a_cell_whose_worker_died_or_that_waited_in_vain_is_over(step: str) -> None:
    live, out = side_by_side()
    told(live, ONE, step, outcome="failed")
    assert f"done: FAILED in {step} (" in out.getvalue()
    assert "1 of 3 done, 0 running, 2 waiting" in out.getvalue()


def test_a_teardown_that_is_tried_again_does_not_count_a_cell_twice() -> None:
    live, out = side_by_side()
    told(live, ONE, "teardown", outcome="failed")
    told(live, ONE, "teardown")
    assert out.getvalue().splitlines()[-1].endswith("1 of 3 done, 0 running, 2 waiting")


def test_a_cell_of_which_nothing_was_selected_does_not_wait() -> None:
    live, out = side_by_side(cells=2)
    live.on_left_out()
    told(live, ONE, "teardown")
    assert "1 of 1 done, 0 running, 0 waiting" in out.getvalue()


def test_a_kept_cell_is_over() -> None:
    live, out = side_by_side()
    told(live, ONE, "deploy", outcome="failed")
    live.on_event({"event": "kept", "cell": ONE, "attempt": 1})
    assert "done: kept, FAILED in deploy (" in out.getvalue()


def two_under_way() -> Progress:
    progress = Progress(planned=7)
    progress.step(StepEvent(ONE, ("deploy",), None, 0.0))
    progress.step(StepEvent(TWO, ("provision", "machines"), None, 0.0))
    return progress


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (160, f"0 of 7 done, 2 running, 5 waiting: {ONE} deploy \N{MIDDLE DOT} {TWO} provision / machines"),
        (90, "0 of 7 done, 2 running, 5 waiting: 2b3a44 deploy \N{MIDDLE DOT} 93cc01 provision / machines"),
        (70, "0 of 7 done, 2 running, 5 waiting: 2b3a44 deploy and 1 more"),
        (40, "0 of 7 done, 2 running, 5 waiting"),
        (10, "0 of 7 don"),
    ],
)
def test_the_moving_line_shows_as_many_cells_as_it_has_room_for(width: int, line: str) -> None:
    assert two_under_way().line(width) == line


def test_the_moving_line_says_what_cells_between_steps_have_checked() -> None:
    progress = two_under_way()
    progress.step(StepEvent(ONE, ("deploy",), "passed", 1.0))
    assert f"{ONE} ..." in progress.line(200)
    progress.check(ONE, "passed")
    assert f"{ONE} 1 check so far" in progress.line(200)


def test_the_moving_line_of_cells_side_by_side_fits_the_terminal_and_ends_with_them() -> None:
    live, _ = side_by_side(width=62, terminal=True)
    told(live, ONE, "deploy", outcome=None)
    assert live._status is not None
    assert str(live._status.status) == "0 of 3 done, 1 running, 2 waiting: 2b3a44 deploy"
    live.on_task("a task with a long name")
    assert (
        str(live._status.status) == "0 of 3 done, 1 running, 2 waiting: 2b3a44 deploy: a task wi\N{HORIZONTAL ELLIPSIS}"
    )
    live.on_event({"event": "kept", "cell": ONE, "attempt": 1})
    assert live._status is None


def test_a_run_cell_by_cell_shows_the_task_of_the_step_and_no_line_between_steps() -> None:
    out = io.StringIO()
    live = Live(Console(file=out, width=100, force_terminal=True), gitlab=False, cells=2)
    told(live, ONE, "deploy", outcome=None)
    live.on_task("[kubelet : Start]")
    assert live._status is not None
    assert str(live._status.status) == f"{ONE} deploy: [kubelet : Start]"
    live.on_step(StepEvent(ONE, ("deploy",), "passed", 41.0))
    assert live._status is None
    assert f"{ONE}: deploy ok (41.0 s)" in out.getvalue()


def test_a_silent_run_says_step_task_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("harness.report.live.time.monotonic", lambda: now[0])
    live = Live(Console(file=io.StringIO(), width=100), gitlab=False, cells=2)
    live.on_phase("bringing the infra cluster up")
    now[0] += 40
    assert live.doing() == "bringing the infra cluster up (40.0 s so far)"
    told(live, ONE, "deploy", outcome=None)
    live.on_task("[kubeadm : init]")
    now[0] += 95
    assert live.doing() == f"{ONE}: deploy: [kubeadm : init] (95.0 s so far)"
    told(live, ONE, "deploy", outcome="passed")
    assert live.doing("nodes: test_a") == f"{ONE}: nodes: test_a (0.0 s so far)"


def test_a_silent_run_with_workers_says_what_they_wrote_down() -> None:
    live, _ = side_by_side(width=100, terminal=False)
    told(live, ONE, "deploy", outcome=None)
    live.on_event({"event": "progress", "cell": ONE, "said": "[etcd : start]"})
    live.on_event({"event": "progress", "cell": "of nobody", "said": "x"})
    assert live.doing().startswith(f"{ONE}: deploy: [etcd : start] (")


def test_a_cell_may_begin_while_another_thread_asks_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    live, _ = side_by_side()
    admitted = {"event": "admitted", "worker": "gw0", "expected": 95, "source": "the last run"}
    live.on_event({**admitted, "cell": ONE})

    def doing(cell: Underway, check: str) -> str:
        live.on_event({**admitted, "cell": TWO})
        return "deploy"

    monkeypatch.setattr(Underway, "doing", doing)
    assert live.doing() == f"{ONE}: deploy"


def test_a_run_that_waits_for_room_says_for_what() -> None:
    live = Live(Console(file=io.StringIO(), width=100), gitlab=False, cells=2)
    live.on_waiting("", "3 GiB are missing")
    assert live.doing().startswith("waiting: 3 GiB are missing (")
