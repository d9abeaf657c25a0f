"""No text that a run or its history has changes the structure of what shows it, wherever it stands."""

from __future__ import annotations

import re
import xml.etree.ElementTree as Xml
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from harness.check_result import CheckResult, Finding, FindingKind
from harness.history.lines import History, Skipped
from harness.history.record import AttemptRecord, MachineRecord, Record, RunOrigin, StepRecord
from harness.model import Outcome
from harness.report import junit, markup, summary
from harness.report.alerts import FORMS, Alert, alerts_of
from harness.report.analysis.analyse import Analysis, RecordFilter, analyse
from harness.report.analysis.planned import Planned
from harness.report.cell import CellResult, Step, WorkerAssignment
from harness.report.output.files import Sources
from harness.report.results import Culprit, RunResult, Session, Sighting
from tests.unit.history.make import checked, record
from tests.unit.history.synthetic import NOW
from tests.unit.report.hostile import FEW, HARMLESS, TEXTS, Put, empty_places, places, structure

OWN_FORM = ("Session.started", "Record.id", "Record.started", "Record.finished", "CheckRow.results")
TEXTS_OF_ORIGIN = [field.name for field in fields(RunOrigin) if field.type == "str"]
ALERT = Alert("i", "fixed", "a title", ("c1",), ("a: b",), "ip dual", "2026-11-20", "https://x.invalid/")


def check(name: str, outcome: Outcome, kind: FindingKind, **more: str) -> CheckResult:
    finding = Finding("cp-0", "it is up", "it is down", kind, ("1.1.1",))
    texts = {"claim": "it is well", "look": "the journal", "command": "journalctl", "error": "broken", "text": "broken"}
    given = {"stage": "deploy", "blame": "product", "infra": "a node went", "quarantine": "https://issues.invalid/1"}
    made = CheckResult(name, "nodes", outcome, 1.0, findings=(finding,), properties={"measured": "3 s"})
    return replace(made, **{**texts, **given, **more})  # type: ignore[arg-type]


def run_result() -> RunResult:
    """Return a run in which every field with a text has one: cells that failed, one of them at its second attempt."""
    step = Step(("deploy", "apply"), 1, Outcome.FAILED, 1.0, "product", "it broke", "mend it", "a\ntext", ("logs/x",))
    told = replace(step, attempt=2), replace(step, attempt=2, path=("upgrade",), quarantine="https://issues.invalid/1")
    every = (
        check("test_a", Outcome.FAILED, FindingKind.WRONG),
        check("test_a", Outcome.FAILED, FindingKind.WRONG, infra="", quarantine="", text="", error=""),
        check("test_b", Outcome.NOT_RUN, FindingKind.LEFT_OUT),
        check("test_c", Outcome.PASSED, FindingKind.NOT_JUDGED, stage="upgrade"),
        replace(check("test_spec[x]", Outcome.NOT_RUN, FindingKind.NOT_RUN), suite="certification"),
    )
    checks = tuple(replace(one, attempt=2) for one in every)
    gone = WorkerAssignment("gw0", 1.0, 2.0, "the median of 3 runs")
    usage = {"cp-0": {"deployed": 1, "peak": 2, "asked": 3, "memory": 4}}
    around = {"node": "n1"}
    failed = CellResult("c1", "runs/c1", (step, *told), checks, (step, *told), gone, usage=usage, around=around)
    passed = replace(
        failed,
        id="c3",
        steps=(Step(("teardown",), 1, Outcome.PASSED, 1.0, "", "s", "h", "d", ("p",), 0, "q"),),
        failures=(),
        checks=(replace(check("test_a", Outcome.PASSED, FindingKind.NOT_JUDGED), attempt=1),),
    )
    values = {"c1": {"ip": "dual", "os": "a"}, "c3": {"ip": "v4", "os": "a"}}
    culprit = Culprit((("ip", "dual"),), ("nodes: test_a",), "abc", "Route", "A", "2026-11-20", ("@net",), ("x",), "?")
    return RunResult(
        run="r00001",
        directory=Path("runs/r00001"),
        cleanup="vmatrix reap",
        cells=(failed, passed),
        sessions=(Session("2026-11-20T10:00:00Z", 1.0, "vmatrix run", 2, 2, 1),),
        tier="nightly",
        night="2026-11-20",
        together=(("ip", "os"),),
        kept=frozenset({"c1"}),
        error="it broke",
        signal=15,
        not_run={"c1": 3},
        product="app 1.0",
        infra=("a node went",),
        values=values,
        further=("c4",),
        no_further=("the budget is used up",),
        culprits=(culprit, replace(culprit, commit="", owners=())),
        symptoms=(Sighting("c1", "disk full", 3, "No space left", "logs/x", "raise disk_gib"),),
        given_up=("symptom x took too long",),
    )


def failing_record() -> Record:
    """Return a record of a cell that failed, in which every field with a text has one."""
    texts = {name: f"https://x.invalid/{name}" for name in TEXTS_OF_ORIGIN}
    origin = replace(RunOrigin(), **texts)  # type: ignore[arg-type]
    made = record(1, "c0", of=2, outcome="failed", axes={"ip": "dual", "os": "0"})
    made = checked(made, {"network: test_dns": "f", "nodes: test_ready": "s"}, "E  no answer")
    notes = tuple(replace(note, headline="no answer", signature="no *", quarantine="") for note in made.notes)
    return replace(
        made,
        where=origin,
        night="2026-11-20",
        provider="embedded",
        attempts=(AttemptRecord(1, Outcome.FAILED, 300.0, "product"),),
        steps=(StepRecord("deploy", "failed", 3.0, 1, "product", "it broke"),),
        notes=(*notes, replace(notes[0], quarantine="https://issues.invalid/1")),
        counts={"failed": 1},
        figures={"deploy": {"pod_start_p99 w-0": (3.0, 1.0)}},
        usage={"cp-0": MachineRecord(1)},
        around={"node": "n1"},
        culprit={"values": "ip dual", "title": "Route", "author": "A", "owners": "@net", "commit": "abc"},
        symptoms={"disk full": "No space left"},
        logs="runs/x",
    )


def analysed(put: Put = lambda _: failing_record(), text: str = "") -> Analysis:
    """Return two nights of twelve cells; in the second one four of them fail, and have a text in one place."""
    records: list[Record] = []
    made: Record = put(text)
    for number in range(12):
        axes = {"ip": "dual" if number % 3 == 0 else "v4", "os": str(number)}
        passed = {"network: test_dns": "p"}
        records.append(checked(record(0, f"c{number}", of=2, axes=axes), passed))
        if number % 3:
            records.append(replace(checked(record(1, f"c{number}", of=2, axes=axes), passed), where=made.where))
            continue
        own = {**made.axes, "os": axes["os"]} if "os" in made.axes else made.axes
        records.append(replace(made, cell=f"c{number}" if made.cell == "c0" else made.cell, axes=own))
    return analyse(records, Planned(), RecordFilter(), NOW)


def note_of(analysis: Analysis, unsent: str = "x") -> str:
    return Sources(analysis, History(), unsent=(unsent,)).note()


def posted(alert: Alert) -> str:
    return str(FORMS["mattermost"](alert)["text"])


def in_slack(alert: Alert) -> list[tuple[int, ...]]:
    lines = str(FORMS["slack"](alert)["text"]).splitlines()
    return [tuple(line.count(sign) for sign in "<>*`") for line in lines]


def test_every_field_with_a_text_is_tried() -> None:
    assert empty_places(run_result(), OWN_FORM) == set()
    assert empty_places(failing_record(), OWN_FORM) <= {"StepRecord.quarantine", "CheckNote.kind"}
    assert empty_places(ALERT) == set()


@pytest.mark.parametrize("field", places(run_result(), OWN_FORM))
def test_no_text_of_a_run_changes_its_summary_and_its_junit(field: str) -> None:
    put = places(run_result(), OWN_FORM)[field]
    plain = structure(summary.render(put(HARMLESS)))
    for text in FEW:
        assert structure(summary.render(put(text))) == plain, text
    tags = [[e.tag for e in Xml.fromstring(junit.render(put(t))).iter()] for t in (HARMLESS, "\n".join(TEXTS))]
    assert tags[0] == tags[1]


@pytest.mark.parametrize("field", places(failing_record(), OWN_FORM))
def test_no_text_of_the_history_changes_the_note_and_alerts(field: str) -> None:
    put = places(failing_record(), OWN_FORM)[field]
    plain = analysed(put, HARMLESS)
    shape, alerts = structure(note_of(plain)), alerts_of(plain, infra_rate=0.2)
    for text in FEW:
        found = analysed(put, text)
        assert structure(note_of(found)) == shape, text
        for alert, other in zip(alerts_of(found, infra_rate=0.2), alerts, strict=True):
            assert structure(posted(alert)) == structure(posted(other)), text


@pytest.mark.parametrize("field", places(ALERT))
def test_no_text_of_an_alert_changes_its_message(field: str) -> None:
    put = places(ALERT)[field]
    for text in TEXTS:
        assert structure(posted(put(text))) == structure(posted(put(HARMLESS))), text
        assert in_slack(put(text)) == in_slack(put(HARMLESS)), text


@pytest.mark.parametrize("around", ["{}", "- {}", "1. {}", "## {}", "**x** ({}): {}", "**{}** x", "> {}"])
@pytest.mark.parametrize("write", [markup.prose, markup.code])
def test_no_text_is_markup_anywhere(write: Callable[[str], str], around: str) -> None:
    plain = structure(around.format(*[write(HARMLESS)] * 2))
    for text in TEXTS:
        assert structure(around.format(*[write(text)] * 2)) == plain, text


@pytest.mark.parametrize("text", TEXTS)
def test_no_text_ends_a_column_or_a_block(text: str) -> None:
    def shown(said: str) -> list[tuple[object, ...]]:
        rows = (
            markup.row(markup.prose(said), markup.code(said)),
            "|---|---|",
            markup.row(said and markup.code(said), "x"),
        )
        return structure("\n".join([*rows, "", *markup.fenced(said), "", "x"]))

    assert shown(text) == shown(HARMLESS)


def test_the_controls_of_a_cell_with_any_name_are_a_table() -> None:
    looked = replace(check("test_files_are_left_to_root_alone", Outcome.PASSED, FindingKind.WRONG), suite="hardening")
    cell = CellResult("c1", "runs/c1", (), (looked,), ())
    plain = structure("\n".join(summary.told([replace(cell, id=HARMLESS)])))
    assert all(
        structure("\n".join(summary.told([replace(cell, id=text)]))) == plain for text in ("a|b", "`", "a\n\n# b")
    )


@pytest.mark.parametrize("text", TEXTS)
def test_what_no_record_says_changes_nothing_either(text: str) -> None:
    def told(said: str) -> str:
        history = History(skipped=(Skipped(said, 7, said),))
        return Sources(analysed(), history, url=said, unsent=(said,)).note()

    assert structure(told(text)) == structure(told(HARMLESS))


@pytest.mark.parametrize("write", [markup.prose, markup.code, markup.row, lambda text: markup.link(text, "")])
def test_a_text_without_markup_stays_as_it_is(write: Callable[[str], str]) -> None:
    for text in (
        "test_a[x-1]",
        "10.0.0.1:6443 does not answer",
        "/etc/x is 0644, not 0600",
        "see https://a.invalid/b_c#1",
    ):
        assert text in write(text)


def test_code_in_a_hint_stays_code() -> None:
    assert (
        markup.prose("type `vmatrix run a|b --x @all`, please", spans=True) == "type `vmatrix run a|b --x @all`, please"
    )


@pytest.mark.parametrize("text", TEXTS)
def test_a_mark_is_found_again_and_ends_nothing(text: str) -> None:
    made = markup.mark({"check": text})
    assert markup.marked(f"{made}\nwords {text}") == {"check": text}
    assert not re.search("[<>]|--", made.removeprefix("<!-- ").removesuffix(" -->"))


def test_a_title_of_gitlab_refers_to_nothing() -> None:
    assert markup.title("a\n\nCloses #1, @all g/p!2 [issue:3]", 100) == "a Closes # 1, @ all g/p! 2 [ issue:3]"
