"""What is said of programs that ended, and to whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import until as waiting
from harness.infra.host import processes
from harness.infra.host.layout import InstanceRecord, Layout, boot_id, save_record
from harness.until import Deadline, NotYet, TimedOut, stand_on, until


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout("unit", tmp_path / "unit")
    save_record(made, InstanceRecord("unit", 0, "", boot_id()))
    for folder in (made.run, made.logs):
        folder.mkdir()
    made.pidfile("kubevirt").write_text('{"pid": 1, "started": 0, "argv": []}', encoding="utf-8")  # nothing started so
    made.logfile("kubevirt").write_text("a\nb\nc\nd\ne\nKilled\n", encoding="utf-8")
    return made


def test_time_outs_name_dead_programs_with_their_last_lines(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_GROUNDS", [])
    stand_on(processes.InstanceParts(layout))
    stand_on(processes.InstanceParts(layout))
    with pytest.raises(TimedOut) as late:
        until(lambda: NotYet("left: cp-0"), deadline=Deadline.after(0), what="the machines to be gone")
    start = "dead: kubevirt of instance unit (vmatrix infra up --infra-name unit starts them)"
    assert late.value.summary.endswith(f"waiting for the machines to be gone: left: cp-0; {start}")
    assert late.value.detail.splitlines() == [
        start,
        f"--- last lines of {layout.logfile('kubevirt')}",
        *("b", "c", "d", "e", "Killed"),
    ]


def test_waits_end_once_a_program_was_given_up(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_GROUNDS", [])
    stand_on(processes.InstanceParts(layout))
    processes.give_up(layout, {"kubevirt": "it ended four times"})
    with pytest.raises(Exception, match="kubevirt of instance unit ended and is not started again: it ended four"):
        until(lambda: NotYet("left: cp-0"), deadline=Deadline.after(3600), what="the machines to be gone")
    assert until(lambda: 1, deadline=Deadline.after(0), what="what is there") == 1


@pytest.mark.parametrize("text", ["", "{", "[1]"])
def test_a_torn_note_is_none(layout: Layout, text: str) -> None:
    layout.given_up.write_text(text, encoding="utf-8")
    assert processes.InstanceParts(layout).lost() is None


def test_nothing_is_said_where_nothing_is_up(tmp_path: Path) -> None:
    assert processes.InstanceParts(Layout("unit", tmp_path / "unit")).trouble() == ""
