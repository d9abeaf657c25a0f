"""A run that still goes on at its job's end, and the links on the job's page."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from harness.events import Recorder
from harness.gitlab import job_end
from harness.gitlab.job import Job
from harness.gitlab.job_end import Link, process_of, wait_for_end

RUN = "abc123"


@pytest.fixture
def stubborn(tmp_path: Path) -> tuple[Path, subprocess.Popen[bytes]]:
    """Return a run's directory and its process, which ends at the first signal only."""
    run_dir = tmp_path / RUN
    run_dir.mkdir()
    # Popen returns while the kernel still exchanges the program: its command line can be empty until the program speaks
    argv = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)", RUN]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"
    process.stdout.close()
    Recorder(run_dir).write("run-start", pid=process.pid, run=RUN, cells=[])
    return run_dir, process


def test_a_run_that_still_goes_on_gets_its_time_and_is_then_told_to_stop(
    stubborn: tuple[Path, subprocess.Popen[bytes]],
) -> None:
    run_dir, process = stubborn
    assert process_of(run_dir) == process.pid
    assert wait_for_end(run_dir, seconds=0.3) is False
    assert process.wait(timeout=60) == -signal.SIGTERM  # long before it ends by itself
    assert process_of(run_dir) is None
    assert wait_for_end(run_dir, seconds=5) is True


def test_another_process_with_the_runs_number_is_left_alone(tmp_path: Path) -> None:
    run_dir = tmp_path / RUN
    run_dir.mkdir()
    assert process_of(run_dir) is None
    Recorder(run_dir).write("run-start", pid=os.getppid(), run=RUN, cells=[])
    assert process_of(run_dir) is None


def test_links_are_in_gitlabs_form_and_short_enough(tmp_path: Path) -> None:
    job_end.write_links(tmp_path, {"vmatrix": [Link("two\nlines " + "x" * 300, "https://x"), Link("nowhere", "")]})
    job_end.add_links(tmp_path, {"vmatrix": [Link("first", "https://y")], "more": [Link("other", "https://z")]})
    content = json.loads((tmp_path / job_end.ANNOTATIONS).read_text(encoding="utf-8"))
    assert [entry["external_link"]["url"] for entry in content["vmatrix"]] == ["https://y", "https://x"]
    assert content["vmatrix"][1]["external_link"]["label"].startswith("two lines xxx")
    assert all(len(e["external_link"]["label"]) < 255 for entries in content.values() for e in entries)


@pytest.mark.parametrize("broken", ["", "[]", '{"vmatrix": [{}]}', '{"vmatrix": 1}', "null"])
def test_links_survive_a_file_that_cannot_be_read(tmp_path: Path, broken: str) -> None:
    (tmp_path / job_end.ANNOTATIONS).write_text(broken, encoding="utf-8")
    job_end.add_links(tmp_path, {"vmatrix": [Link("one", "https://x")]})
    assert len(json.loads((tmp_path / job_end.ANNOTATIONS).read_text(encoding="utf-8"))["vmatrix"]) == 1


def test_a_link_to_an_artifact_is_escaped(tmp_path: Path) -> None:
    job = Job("1", "h", "https://gitlab.example.org/p/-/jobs/1", tmp_path)
    assert (
        job_end.artifact_url(job, "runs/a b/logs/")
        == "https://gitlab.example.org/p/-/jobs/1/artifacts/browse/runs/a%20b/logs/"
    )


def leftover(runs: Path, name: str, *, pid: int = 1) -> Path:
    """Write a run of an earlier job."""
    (runs / name).mkdir(parents=True)
    Recorder(runs / name).write("run-start", pid=pid, run=name, cells=[])
    (runs / name / "junit.xml").write_text("<testsuites/>")
    return runs / name


def test_runs_of_earlier_jobs_are_no_results_of_this_one(tmp_path: Path) -> None:
    runs, job = tmp_path / "ours-runs", Job("1", "h", "https://x", tmp_path)
    context: Any = SimpleNamespace(job=job, settings=SimpleNamespace(runs=runs))
    said = io.StringIO()
    console = Console(file=said, width=200)
    job_end.put_aside(context, console=console)  # the first job of a checkout
    leftover(runs, "old111")
    leftover(runs, job.run)
    (runs / "history.jsonl").write_text("")
    (runs / "notes").mkdir()
    job_end.put_aside(context, console=console)
    assert sorted(path.name for path in runs.iterdir()) == sorted(["history.jsonl", "notes", job.run])
    assert [path.name for path in (tmp_path / "ours-runs-of-earlier-jobs").iterdir()] == ["old111"]
    assert "1 runs of earlier jobs were in ours-runs (GIT_CLEAN_FLAGS)" in said.getvalue()


def test_a_folder_of_runs_that_is_not_the_jobs_alone_is_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "shared"
    leftover(elsewhere, "old111")
    job = Job("1", "h", "https://x", tmp_path / "checkout")
    context: Any = SimpleNamespace(job=job, settings=SimpleNamespace(runs=elsewhere))
    job_end.put_aside(context, console=Console(quiet=True))
    assert (elsewhere / "old111" / "junit.xml").exists()
