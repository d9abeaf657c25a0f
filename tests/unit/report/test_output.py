"""The cause of a failure is whole in every view, and equal causes are told once."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from rich.console import Console

from harness.check_result import CheckResult, Finding
from harness.history.lines import History
from harness.model import Outcome
from harness.report import junit, summary, terminal
from harness.report.analysis.analyse import Analysis, RecordFilter, analyse
from harness.report.analysis.planned import Planned
from harness.report.output import note
from harness.report.output.document import document
from harness.report.page import REDUCTIONS, rows
from harness.report.records import collect
from harness.report.results import load
from harness.spec.models import QuarantineEntry
from tests.unit.report.written import Written

CELL = "k1363-d13-c2-rt-nf-c1w1-fresh-m-673ca5"
END = "no space left on device"
CAUSE = "the command " + "kubeadm init --config /etc/kubernetes/kubeadm.yml with many words " * 8 + END
ASIDE = "\n".join(f"/etc/kubernetes/file-{number} is as it should be" for number in range(200))
NO_QUARANTINE: tuple[QuarantineEntry, ...] = ()


def failed(name: str, **fields: object) -> dict[str, object]:
    return CheckResult(name, "nodes", Outcome.FAILED, 1.0, "deploy", blame="product", **fields).event()  # type: ignore[arg-type]


FAILURES: dict[str, Callable[[Written], object]] = {
    "a step": lambda run: run.fails(CELL, "deploy", blame="product", summary=CAUSE, code=1),
    "a finding": lambda run: run.event(
        "check", cell=CELL, **failed("test_a", claim="it is well", findings=(Finding("cp-0", "state 'active'", CAUSE),))
    ),
    "an error": lambda run: run.event(
        "check", cell=CELL, **failed("test_a", error=CAUSE, text=f"{CAUSE}\n{ASIDE}\nE   Error: {CAUSE}")
    ),
    "a check of an older run": lambda run: run.check(
        CELL, "test_a", "failed", blame="product", detail=f"a.py:1: in test_a\nE   Error: {CAUSE}\n{ASIDE}"
    ),
}


def analysed(folder: Path) -> Analysis:
    return analyse(collect([folder], quarantine=()).records, Planned(), RecordFilter(), datetime.now(UTC))


def on_terminal(folder: Path) -> str:
    shown = io.StringIO()
    terminal.show(load(folder), Console(file=shown, width=80))
    return " ".join(shown.getvalue().split())


def smallest_page(folder: Path) -> str:
    smallest = REDUCTIONS[-1](document(analysed(folder), History()))
    return "\n".join(smallest["messages"])


VIEWS: dict[str, Callable[[Path], str]] = {
    "terminal": on_terminal,
    "summary.md": lambda folder: summary.render(load(folder)),
    "junit.xml": lambda folder: junit.render(load(folder)).decode(),
    "note": lambda folder: note.render(analysed(folder), History()),
    "page, when room is short": smallest_page,
    "page without scripts": lambda folder: "\n".join(row.what for row in rows(document(analysed(folder), History()))),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("view", VIEWS)
def test_the_end_of_a_cause_is_in_every_view(failure: str, view: str, tmp_path: Path) -> None:
    run = Written(tmp_path).start(CELL)
    FAILURES[failure](run)
    run.gone(CELL).end(1)
    shown = VIEWS[view](tmp_path)
    assert END in shown
    assert "harness." not in shown


def test_equal_causes_are_counted_once(tmp_path: Path) -> None:
    run = Written(tmp_path).start(CELL)
    for number in range(30):
        text = f"10.0.0.{number}:6443 does not answer"
        run.event("check", cell=CELL, **failed(f"test_{number}", error=text, text=text))
    finding = Finding("cp-0", "state 'active'", "'dead'")
    run.event("check", cell=CELL, **failed("test_services", claim="services run", findings=(finding,)))
    run.gone(CELL).end(1)
    assert "Failed: 2 causes, 31 checks." in summary.render(load(tmp_path))
    shown = on_terminal(tmp_path)
    assert "failed: 2 causes, 31 checks" in shown
    assert "blame: product: 2 causes, 31 failures in 1 cell" in shown
    assert "29 more checks failed by the same cause" in shown
    assert "2 causes, 31 failures" in note.render(analysed(tmp_path), History())
    (night,) = document(analysed(tmp_path), History())["cells"][0]["failures"]
    assert sorted(item["cause"] for item in night["items"]) == [0] * 30 + [1]


def test_what_is_in_quarantine_has_no_cause_in_common_with_what_counts(tmp_path: Path) -> None:
    run = Written(tmp_path).start(CELL)
    for name in ("test_known", "test_new"):
        run.event("check", cell=CELL, **failed(name, error=END, text=END))
    run.gone(CELL).end(1)
    issue = "https://gitlab.example/issues/1"
    entry = QuarantineEntry(cell="*", check="nodes: test_known", issue=issue, reason="known", until=date.max)
    records = collect([tmp_path], quarantine=(entry,)).records
    analysis = analyse(records, Planned(), RecordFilter(), datetime.now(UTC))
    (night,) = document(analysis, History())["cells"][0]["failures"]
    assert [item["cause"] for item in night["items"]] == [0, 1]
    assert "1 cause, 2 failures" not in note.render(analysis, History())


def test_a_cell_that_did_not_run_shows_its_last_failure(tmp_path: Path) -> None:
    for number in range(2):
        folder = tmp_path / f"r{number}"
        folder.mkdir()
        run = Written(folder, seconds=86400.0 * number)
        run.event("run-start", run=f"r{number}", cells=["a", "b"] if not number else ["a"], command="x", cleanup="y")
        run.passes("a")
        if not number:
            run.fails("b", "deploy", summary=CAUSE).gone("b")
        run.end(number)
    (shown,) = [row.what for row in rows(document(analysed(tmp_path), History())) if row.id == "b"]
    assert shown.startswith("last failure 2026-11-21: step deploy: ")
    assert shown.endswith(END)
