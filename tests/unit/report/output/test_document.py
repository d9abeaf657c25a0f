"""The document is what it says it is: every number leads somewhere, every series has a place for every night."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.history.lines import History
from harness.history.record import RunOrigin
from harness.report.analysis.analyse import RecordFilter, analyse
from harness.report.analysis.planned import Planned
from harness.report.output import note
from harness.report.output.document import document
from harness.validate.performance.comparison import NOW as NOW_RUNS
from harness.validate.performance.comparison import PAST as PAST_RUNS
from tests.unit.history import synthetic
from tests.unit.history.make import checked, record
from tests.unit.history.synthetic import NOW

Document = dict[str, Any]


@pytest.fixture(scope="module")
def found() -> Document:
    """A document of a made-up history."""
    made: Document = json.loads(json.dumps(synthetic.document(91, 24, 4)))
    return made


def test_every_series_has_a_place_for_every_night(found: Document) -> None:
    nights = len(found["nights"])
    for cell in found["cells"]:
        series = [cell["outcomes"], cell["blames"], cell["seconds"], cell["jobs"]]
        series += [step["seconds"] for step in cell["steps"]] + [check["history"] for check in cell["checks"]]
        assert {len(s) for s in series} == {nights}
        assert len(cell["values"]) == len(found["axes"])


def test_every_number_leads_somewhere(found: Document) -> None:
    sizes = {name: len(found[name]) for name in ("nights", "cells", "checks", "messages", "clusters")}

    def within(what: str, number: int, *, none: bool = False) -> bool:
        return (-1 if none else 0) <= number < sizes[what]

    for cell in found["cells"]:
        for value, axis in zip(cell["values"], found["axes"], strict=True):
            assert -1 <= value < len(axis["values"])
        for night in cell["failures"]:
            assert within("nights", night["night"])
            for item in night["items"]:
                assert within("messages", item["message"])
                assert within("clusters", item["cluster"], none=True)
                assert within("checks", item["check"], none=True)
                assert (item["check"] == -1) == bool(item["step"])
        assert all(within("checks", number) for number in cell["passed_checks"])
        assert all(within("checks", c) and within("messages", m) for c, m in cell["not_run_checks"])
        for told in (cell, *cell["checks"]):
            if told["since"]:
                assert within("nights", told["since"]["bad"])
                assert within("nights", told["since"]["good"], none=True)
        assert all(0 <= int(night) < sizes["nights"] for night in (*cell["attempts"], *cell["logs"]))
    for cluster in found["clusters"]:
        assert all(within("cells", cell) for cell in (*cluster["cells"], *cluster["now"]))
    for entry in (*found["not_run"], *found["slower"]):
        assert within("cells", entry["cell"])


def test_a_letter_and_a_failure_say_the_same(found: Document) -> None:
    for cell in found["cells"]:
        failing = {night["night"] for night in cell["failures"]}
        assert {n for n, letter in enumerate(cell["outcomes"]) if letter in "fq"} == failing


def test_the_summary_counts_the_last_night(found: Document) -> None:
    last = len(found["nights"]) - 1
    letters = [cell["outcomes"][last] for cell in found["cells"]]
    assert found["summary"]["ran"] == sum(letter != "." for letter in letters)
    assert found["summary"]["outcomes"].get("failed", 0) == letters.count("f")
    assert found["nights"][last]["counts"] == found["summary"]["outcomes"]


def test_links_lead_to_the_project(found: Document) -> None:
    ranges = [cell["since"] for cell in found["cells"] if cell["since"] and cell["since"]["good"] >= 0]
    assert any(r["url"] for r in ranges)
    for r in ranges:
        wanted = f"{synthetic.PROJECT}/-/compare/{r['good_commit']}...{r['bad_commit']}"
        assert r["url"] == (wanted if r["good_commit"] != r["bad_commit"] else "")
    logs = [log for cell in found["cells"] for logs in cell["logs"].values() for log in logs]
    assert logs
    assert all(log["url"].startswith(f"{synthetic.PROJECT}/-/jobs/") for log in logs)


def test_the_history_says_what_of_it_was_not_read(found: Document) -> None:
    told = found["history"]
    assert (told["skipped_total"], told["duplicates"]) == (1, 3)
    assert told["skipped"][0]["line"] == 12_001
    assert 0 < told["forgotten"] < told["records"]


def test_hostile_text_stays_as_it_was_said() -> None:
    evil = "E  </script><img src=x onerror=alert(1)> \u2028 ]]> ${x} `x`"
    made = checked(record(outcome="failed", cell="<b>cell</b>"), {"a: <i>check</i>": "f"}, evil)
    told = document(analyse([made], Planned(), RecordFilter(), NOW), History((made,)))
    assert told["cells"][0]["id"] == "<b>cell</b>"
    assert told["checks"] == ["a: <i>check</i>"]
    assert any(evil[3:] in message for message in told["messages"])
    assert json.loads(json.dumps(told)) == told


def test_a_run_at_a_desk_has_no_links() -> None:
    made = checked(record(outcome="failed", where=RunOrigin(commit="a" * 40), logs="runs/x/c/logs"), {"a: b": "f"})
    before = record(0, of=2, where=RunOrigin(commit="b" * 40), run="r0")
    told = document(analyse([before, made], Planned(), RecordFilter(), NOW), History())
    (cell,) = told["cells"]
    assert cell["since"]["url"] == ""
    assert cell["since"]["good_commit"] == "b" * 40
    assert cell["logs"]["1"] == [{"label": "logs", "url": "", "path": "runs/x/c/logs"}]
    assert cell["command"] == f"vmatrix run {made.cell} --tier nightly"


def test_an_empty_history_is_a_document_too() -> None:
    told = document(analyse([], Planned(), RecordFilter(), NOW), History())
    assert (told["nights"], told["cells"], told["freshness"]["last"]) == ([], [], None)


def test_a_year_of_sixty_cells_fits_into_a_page() -> None:
    """A fifth of the year is measured, which is a fifth of what grows with the nights."""
    small = len(json.dumps(synthetic.document(73, 60, 1), separators=(",", ":")))
    assert small * 5 < 3_000_000


OF = PAST_RUNS + NOW_RUNS


def told(*, factor: float) -> tuple[dict[str, object], str]:
    """Return the document and the note of a history whose last runs took so many times as long as those before."""
    values = [(4.0 if night < PAST_RUNS else 4.0 * factor) for night in range(OF)]
    figures = [{"deploy": {"pod_start_p99 w-0": (value, 0.0)}} for value in values]
    records = [record(night, of=OF, figures=one) for night, one in enumerate(figures)]
    found = analyse(records, Planned(None, {}, None, ()), RecordFilter(), NOW)
    return document(found, History()), note.render(found, History(), url="")


def test_what_is_slower_and_over_its_slo_is_named() -> None:
    found, said = told(factor=2.0)
    figures = found["figures"]
    assert isinstance(figures, dict)
    assert [(one["cell"], one["ratio"]) for one in figures["slower"]] == [(0, 2.0)]
    assert "Pod start, p99 (w-0): 8 s" in figures["slower"][0]["said"]
    assert figures["over"] == [{"cell": 0, "said": "Pod start, p99 (w-0) 8 s", "slo": 5.0}]
    assert (figures["compared"], figures["young"]) == (1, 0)
    assert "slower figures" in said


def test_what_is_as_fast_as_usual_is_not() -> None:
    found, said = told(factor=1.0)
    figures, cells = found["figures"], found["cells"]
    assert isinstance(figures, dict)
    assert isinstance(cells, list)
    assert (figures["slower"], figures["over"]) == ([], [])
    assert [kind["name"] for kind in figures["kinds"]] == ["pod_start_p99"]
    assert cells[0]["figures"] == [{"kind": 0, "values": [4.0] * OF}]
    assert "slower figures" not in said
