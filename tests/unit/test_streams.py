"""Lines of progress: only where all is silent, and folded in a job's log of GitLab."""

from __future__ import annotations

import io
import re

import pytest

from harness.streams import OUTPUT, Muted


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
