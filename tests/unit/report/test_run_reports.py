"""Reports of a run whose texts are anything: each is written, valid and complete, and one that fails stops no other."""

from __future__ import annotations

import io
import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given, settings
from rich.console import Console

from harness.cell.steps import StepEvent
from harness.errors import ProductError
from harness.events import Recorder
from harness.history.file import FileStore
from harness.plugin.state import message
from harness.report import run_reports, terminal
from harness.report.analysis.analyse import RecordFilter, analyse
from harness.report.analysis.planned import Planned
from harness.report.live import Live
from harness.report.output.files import Sources, files
from harness.report.records import collect
from harness.report.results import load
from harness.rundir import RunDir
from harness.sanitize import LONGEST
from harness.streams import escaping
from tests.unit.report.hostile import SPAN
from tests.unit.test_sanitize import ANY, NASTY

CELL = "k1-abc123"
ENCODINGS = ("ascii", "latin-1", "utf-8")


def written(folder: Path, text: str) -> Path:
    """Write down a run in which every text is this one."""
    recorder = Recorder(folder)
    recorder.write(
        "run-start",
        run="r00001",
        tier=text,
        command=text,
        cleanup=text,
        cells=[CELL],
        parallel=1,
        pid=1,
        values={CELL: {"axis": text}},
        infra=text,
        provider=text,
        where={"branch": text, "subject": text},
    )
    recorder.write("product", said=text, source=text)
    recorder.write("infra", said=text)
    step = {"cell": CELL, "attempt": 1, "step": ["deploy", text]}
    recorder.write("step-start", **step)
    error = {"summary": text, "hint": text, "detail": text, "paths": [text], "blame": "product", "exit_code": 1}
    recorder.write("step-end", **step, outcome="failed", seconds=1.0, **error)
    check = {"cell": CELL, "attempt": 1, "suite": text, "seconds": 0.5, "stage": text}
    recorder.write("check", name=f"test_it[{text}]", outcome="failed", blame="product", detail=text, **check)
    more = {"properties": {"measured": text, "not_judged": [text]}}
    recorder.write("check", name="test_out", outcome="not-run", detail=text, **check, **more)
    recorder.write("run-error", summary=text, hint=text, detail=text)
    recorder.write("run-end", exit_code=1, signal=0)
    return folder


def judge(folder: Path, text: str) -> None:
    """Write every report of that run, and read it again."""
    written(folder, text)
    result = load(folder)
    assert run_reports.write_all(result, RunDir(folder)) == {}
    summary, junit = (path.read_bytes() for path in run_reports.paths(RunDir(folder)))
    assert CELL in summary.decode()
    assert len(Xml.fromstring(junit).findall(".//testcase")) >= 2
    for line in (folder / "results.jsonl").read_bytes().splitlines():
        json.loads(line)
    collected = collect([folder], quarantine=())
    store = FileStore(folder / "history.jsonl")
    store.append(collected.records)
    history = store.load()
    assert history.skipped == ()
    assert len(history.records) == len(collected.records)
    analysis = analyse(history.records, Planned(), RecordFilter(), datetime.now(UTC))
    report_files = files(Sources(analysis, history))
    assert report_files.failures == {}
    made = report_files.contents
    json.loads(made["report.json"])
    json.loads(made["annotations.json"])
    for name, content in made.items():
        content.decode()
        if name.endswith(".svg"):
            Xml.fromstring(content)
    for encoding in ENCODINGS:
        shown(folder, text, encoding)


def shown(folder: Path, text: str, encoding: str) -> None:
    """Show that run on a terminal of an encoding, and as a job of GitLab."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    escaping(stream)
    console = Console(file=stream, width=100)
    terminal.show(load(folder), console)
    live = Live(console, gitlab=True, cells=1)
    live.on_progress(text)
    live.on_step(StepEvent(CELL, ("deploy",), None, 0.0))
    live.on_step(StepEvent(CELL, ("deploy",), "failed", 1.0, text))
    console.print(
        message(ProductError(text, hint=text, paths=[Path(text.replace("\0", ""))], detail=text)),
        markup=False,
        highlight=False,
    )
    stream.flush()
    raw.getvalue().decode(encoding)
    assert raw.getvalue().count(b"section_start:") <= 1 + 3 * text.count("section_start:") + 100 * ("section" in text)


@pytest.mark.parametrize("name", NASTY)
def test_every_report_of_a_nasty_text_is_written(name: str, tmp_path: Path) -> None:
    judge(tmp_path, NASTY[name][0])


def test_every_report_of_more_text_than_is_kept_is_written(tmp_path: Path) -> None:
    judge(tmp_path, "x" * (2 * LONGEST) + "\ud800")


@settings(max_examples=25)
@given(ANY)
def test_every_report_of_any_text_is_written(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        judge(Path(folder), text)


def test_no_text_becomes_markup_of_the_summary(tmp_path: Path) -> None:
    written(tmp_path, "<img src=x> & &lt; [a](https://example.org) | `x` ``` end")
    run_reports.write_all(load(tmp_path), RunDir(tmp_path))
    fence, outside = "", list[str]()
    for line in (tmp_path / "summary.md").read_text().splitlines():
        if line.startswith("```"):
            fence = "" if line == fence else fence or line.rstrip("texsh")
        elif not fence and not line.startswith("- ````"):  # a path, as code
            outside.append(SPAN.sub("", line))
    assert sum("&lt;img src=x> & &amp;lt; [a]\\(https" in line for line in outside) >= 5
    assert not [line for line in outside if "<img" in line or "](" in line]


def test_a_report_that_fails_keeps_no_other_from_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "text")
    (tmp_path / "junit.xml").mkdir()
    (tmp_path / "junit.xml" / "in-the-way").touch()

    def broken(_: object) -> str:
        raise ValueError("no")

    monkeypatch.setattr(run_reports, "OUTPUTS", {"broken.md": broken, **run_reports.OUTPUTS})
    failed = run_reports.write_all(load(tmp_path), RunDir(tmp_path))
    assert {path.name: type(error) for path, error in failed.items()} == {
        "broken.md": ValueError,
        "junit.xml": IsADirectoryError,
    }
    assert CELL in (tmp_path / "summary.md").read_text()
