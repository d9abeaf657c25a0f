"""Lines of results.jsonl that no run wrote: read past and counted, whatever they are."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput
from harness.events import Fields, Follower, Recorder, event_of, in_sequence, recorded
from harness.report import terminal, words
from harness.report.records import collect
from harness.report.results import load
from harness.rundir import RESULTS

WRITES = 20
NOW = '"time": "2026-11-23T10:00:00.000Z"'
FOREIGN = [
    "null",
    "[1, 2]",
    '"x"',
    "7",
    "true",
    "{}",
    "rubbish",
    '{"a": 1}',
    '{"event": "signal"}',
    f"{{{NOW}}}",
    f'{{{NOW}, "event": 7}}',
    f'{{{NOW}, "event": null}}',
    '{"time": "2026", "event": "x", "cell": "c"}',
    '{"time": "2026-11-23T10:00:00", "event": "x"}',
    '{"time": 5, "event": "x"}',
    f'{{{NOW}, "event": "step-end", "cell": "c"}}',
    f'{{{NOW}, "event": "step-end", "cell": "c", "attempt": "one", "step": ["deploy"]}}',
    f'{{{NOW}, "event": "step-end", "cell": "c", "attempt": 1, "step": []}}',
    f'{{{NOW}, "event": "step-end", "cell": "c", "attempt": 1, "step": [1]}}',
    f'{{{NOW}, "event": "step-start", "cell": ["c"], "attempt": 1, "step": ["deploy"]}}',
    f'{{{NOW}, "event": "step-end", "cell": "c", "attempt": 1, "step": ["deploy"], "seconds": "long"}}',
    f'{{{NOW}, "event": "check", "cell": "c", "name": "a"}}',
    f'{{{NOW}, "event": "check", "cell": "c", "name": 1, "suite": "s", "outcome": "passed", "seconds": 1}}',
    f'{{{NOW}, "event": "check", "cell": "c", "name": "a", "suite": "s", "outcome": "passed", "seconds": true}}',
    f'{{{NOW}, "event": "check", "cell": "c", "name": "a", "suite": "s", "outcome": "passed", "seconds": 1, '
    '"properties": {"not_judged": 5}}',
    f'{{{NOW}, "event": "signal", "number": "SIGTERM"}}',
    f'{{{NOW}, "event": "run-end", "exit_code": null}}',
    f'{{{NOW}, "event": "run-start", "cells": "c"}}',
    f'{{{NOW}, "event": "run-start", "cells": [1]}}',
    "[" * 5000,
]


def run_with(directory: Path, *lines: str) -> Path:
    recorder = Recorder(directory)
    recorder.write("run-start", run="abcdef", cells=["c"], tier=None, parallel=1, command="x", cleanup="y")
    with (directory / RESULTS).open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    recorder.write("step-start", cell="c", attempt=1, step=["provision"])
    recorder.write("step-end", cell="c", attempt=1, step=["provision"], outcome="passed", seconds=1.5)
    return directory


@pytest.mark.parametrize("line", FOREIGN, ids=lambda line: line[:60])
def test_a_foreign_line_is_read_past_and_counted(tmp_path: Path, line: str) -> None:
    result = load(run_with(tmp_path, line))
    assert result.foreign == (2,)
    assert [(step.name, step.seconds) for step in result.cells[0].steps] == [("provision", 1.5)]


CHECK = {"cell": "c", "attempt": 1, "name": "a", "suite": "s", "outcome": "failed", "seconds": 1}
STEP = {"cell": "c", "attempt": 1, "step": ["deploy"], "outcome": "failed", "seconds": 1}
EVENTS: dict[str, dict[str, Any]] = {
    "run-start": {"cells": ["c"]},
    "check": CHECK,
    "step-end": STEP,
    "run-end": {"exit_code": 0},
    "follow-up": {"cells": [], "no_further": []},
    "culprit": {"cell": "c1", "suspect": {"ip": "dual"}, "checks": []},
    "symptoms": {"sightings": [], "given_up": []},
}
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0.5,
    "x",
    [],
    ["x"],
    [[]],
    [{}],
    {},
    {"x": []},
    {"x": {}},
)  # one of each kind that JSON has


@pytest.mark.parametrize("name", Fields.model_fields)
def test_a_value_of_any_kind_in_any_field_is_read_or_read_past(tmp_path: Path, name: str) -> None:
    events = [{"event": kind, **fields, name: value} for kind, fields in EVENTS.items() for value in VALUES]
    lines = [json.dumps({"time": "2026-11-23T10:00:00.000Z", **event}) for event in events]
    result = load(run_with(tmp_path, *lines))
    assert "provision" in [step.name for step in result.cells[0].steps]
    assert words.foreign(result)


def test_every_report_says_how_many_and_which(tmp_path: Path) -> None:
    run_with(tmp_path, *FOREIGN)
    result = load(tmp_path)
    (said,) = words.foreign(result)
    assert said == f"{RESULTS}: read past {len(FOREIGN)} lines that no run wrote (2, 3, 4, 5, 6, 7, ...)"
    assert said in [str(line) for line in terminal._run(result)]
    collected = collect([tmp_path], quarantine=())
    assert [(one.line, one.why) for one in collected.skipped[:2]] == [(2, "no run wrote it"), (3, "no run wrote it")]
    assert len(collected.records) == 1


def test_what_a_run_wrote_is_no_foreign_line(tmp_path: Path) -> None:
    assert load(run_with(tmp_path)).foreign == ()


def test_a_torn_last_line_is_no_foreign_one(tmp_path: Path) -> None:
    run_with(tmp_path)
    with (tmp_path / RESULTS).open("a", encoding="utf-8") as file:
        file.write('{"time": "2026-')
    assert recorded(tmp_path).foreign == ()
    assert len(recorded(tmp_path).events) == 3


def test_a_last_line_without_its_end_counts(tmp_path: Path) -> None:
    run_with(tmp_path)
    file = tmp_path / RESULTS
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    assert len(recorded(tmp_path).events) == 3


def test_who_follows_a_run_reads_past_them_too(tmp_path: Path) -> None:
    events = Follower(run_with(tmp_path, *FOREIGN)).read()
    assert [event["event"] for event in events] == ["run-start", "step-start", "step-end"]


def test_results_that_are_no_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / RESULTS).mkdir()
    with pytest.raises(BadInput, match="is a folder"):
        recorded(tmp_path)


def test_fields_of_later_versions_are_no_reason_to_leave_a_line_out() -> None:
    line = {"time": "2026-11-23T10:00:00Z", "event": "new", "anything": {"a": [1]}}
    assert event_of(json.dumps(line).encode()) == line


# By the clock of each event, in their order: what their times become.
SEQUENCES = [
    (["1970-01-01T00:00:01", "1970-01-01T00:00:05", "2026-11-23T10:00:00"],
     ["2026-11-23T09:59:56", "2026-11-23T10:00:00", "2026-11-23T10:00:00"]),
    (["2026-11-23T10:00:00", "1970-01-01T00:00:01", "1970-01-01T00:00:05"],
     ["2026-11-23T10:00:00", "2026-11-23T10:00:00", "2026-11-23T10:00:04"]),
    (["2026-11-23T10:00:00", "2000-01-01T00:00:01", "2026-11-23T10:00:09"],
     ["2026-11-23T10:00:00", "2026-11-23T10:00:09", "2026-11-23T10:00:09"]),
    (["1970-01-01T00:00:01", "1970-01-01T00:00:05"], ["1970-01-01T00:00:01", "1970-01-01T00:00:05"]),
    (["2026-11-23T10:00:00", "2026-11-23T09:00:00"], ["2026-11-23T10:00:00", "2026-11-23T09:00:00"]),
    ([], []),
]  # fmt: skip


@pytest.mark.parametrize(("written", "told"), SEQUENCES)
def test_what_a_clock_that_was_not_set_says_counts_less_than_the_sequence(written: list[str], told: list[str]) -> None:
    events = [{"time": f"{time}+00:00", "event": "x"} for time in written]
    assert [event["time"] for event in in_sequence(events)] == [f"{time}+00:00" for time in told]


# What somebody has put in the place of the results when several processes begin to write.
REPLACED: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a full folder": lambda path: (path / "a").mkdir(parents=True),
    "a link to nothing": lambda path: path.symlink_to("/no/such/file"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a FIFO": os.mkfifo,
}


def write_events(run_dir: Path, writer: int) -> None:
    for number in range(WRITES):
        Recorder(run_dir).write("note", writer=writer, number=number)


@pytest.mark.parametrize("put", REPLACED.values(), ids=REPLACED)
def test_what_is_put_in_the_results_place_costs_no_later_event(tmp_path: Path, put: Callable[[Path], object]) -> None:
    put(tmp_path / RESULTS)
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_events, args=(tmp_path, writer)) for writer in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0, 0]
    written = sorted((event["writer"], event["number"]) for event in recorded(tmp_path).events)
    assert written == [(writer, number) for writer in range(4) for number in range(WRITES)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [RESULTS, f"{RESULTS}.moved-1"]


def test_a_fifo_that_somebody_reads_is_no_place_for_results(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / RESULTS)
    reader = os.open(tmp_path / RESULTS, os.O_RDONLY | os.O_NONBLOCK)
    Recorder(tmp_path).write("note")
    assert os.read(reader, 1) == b""
    os.close(reader)
    assert [event["event"] for event in recorded(tmp_path).events] == ["note"]
