"""Lines of progress: only where all is silent, and folded in a job's log of GitLab."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

import pytest
from rich.table import Table

from harness.cli import main
from harness.streams import OUTPUT, SIZES, Muted, plain_console, without_wrong_sizes


def test_progress_lines_are_plain_lines() -> None:
    stream = io.StringIO()
    muted = Muted(stream, OUTPUT)
    muted.progress_line("deploy: TASK [kubeadm : init] (30.0 s so far)", gitlab=False)
    muted.write("deploy ok\n")
    assert stream.getvalue() == "deploy: TASK [kubeadm : init] (30.0 s so far)\ndeploy ok\n"


def test_in_gitlab_progress_lines_in_a_row_are_one_folded_section() -> None:
    stream = io.StringIO()
    muted = Muted(stream, OUTPUT)
    for line in ("first", "second"):
        muted.progress_line(line, gitlab=True)
    muted.write("deploy ok\n")
    muted.progress_line("third", gitlab=True)
    muted.write("")
    marks = re.sub(r"\d{6,}", "N", stream.getvalue())
    start = "\x1b[0Ksection_start:N:vmatrix_progress_N[collapsed=true]\r\x1b[0K"
    end = "\x1b[0Ksection_end:N:vmatrix_progress_N\r\x1b[0K"
    assert marks == f"{start}first\nsecond\n{end}deploy ok\n{start}third\n{end}"


def test_whatever_is_written_ends_a_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("harness.streams.time.monotonic", lambda: now[0])
    muted = Muted(io.StringIO(), OUTPUT)
    now[0] = 130.0
    assert muted.silent_seconds == 30.0
    muted.write("x")
    assert muted.silent_seconds == 0.0


TEXTS = (
    "http://[fd76:6d78:d5::1]:8080",
    "[red]not a colour[/red] and [/] alone",
    "test_it[eth0-k1363] failed: :warning: stays a word",
    "[link=http://192.0.2.1]x[/link] [bold",
    "\\[escaped] \\",
    "1.36.3 'quoted' 12 True None /a/path",
    "x" * 300,
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_console_prints_texts_as_they_are(text: str) -> None:
    stream = io.StringIO()
    plain_console(file=stream, force_terminal=True, width=80).print(text)
    assert stream.getvalue() == f"{text}\n"


def test_a_table_has_texts_as_they_are() -> None:
    stream, table = io.StringIO(), Table("text", box=None, show_header=False)
    for text in TEXTS:
        table.add_row(text)
    plain_console(file=stream, soft_wrap=False, width=400).print(table)
    assert [line.strip() for line in stream.getvalue().splitlines()] == [*TEXTS]


def test_every_console_is_made_in_one_place() -> None:
    made = re.compile(r"(?<![\w.])Console\(|markup=|rich\.markup")
    allowed = {"harness/streams.py", "harness/embedded/subresources/portforward.py"}  # the other is a guest's
    files = [file for file in Path("harness").rglob("*.py") if str(file) not in allowed]
    assert [str(file) for file in files if made.search(file.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("wrong", ["", "abc", "0", "-5", "1000000000", "8.5", " 80", "\N{SUPERSCRIPT TWO}"])
def test_a_size_that_is_none_counts_for_nothing(name: str, wrong: str) -> None:
    environment = {name: wrong, "HOME": "/"}
    without_wrong_sizes(environment)
    assert environment == {"HOME": "/"}


@pytest.mark.parametrize("name", SIZES)
def test_a_command_takes_a_terminals_size_that_is_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["vmatrix", "version"])
    for given, left in (("120", "120"), ("abc", None)):
        monkeypatch.setenv(name, given)
        with pytest.raises(SystemExit):
            main()
        assert os.environ.get(name) == left
