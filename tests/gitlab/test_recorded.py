"""What the real runner 17.5.5 sent, sent again: the server answers as it did, and comes to the same end."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.gitlab import small
from tests.gitlab.server.artifact_answers import unpacked
from tests.gitlab.server.model import Pipeline, State
from tests.gitlab.server.projects import add_project, add_runner
from tests.gitlab.server.recording import Exchange, recorded
from tests.gitlab.server.serve import RunningServer, serving

RECORDED = Path(__file__).parent / "server" / "recorded"
RUNNER = '"version": ?"17.5.5"'
SECONDS = 30.0


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with serving(poll_seconds=0) as found:
        add_runner(found, "vmatrix")
        yield found


def begun(server: RunningServer, folder: Path, text: str) -> Pipeline:
    project = add_project(server, "team/small", folder)
    merged = {"stages": ["build", "test"], **yaml.safe_load(text)}
    number = server.call(lambda forge: next(forge.numbers))
    pipeline = Pipeline(number, project, "a" * 40, "main", "push", merged)
    return server.call(lambda forge: forge.begin(pipeline))


def sent(server: RunningServer, one: Exchange) -> int:
    """Send a request again, and return the answer's status."""
    data = one.content or None
    request = urllib.request.Request(f"{server.url}{one.address}", data, one.headers, method=one.method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - ours
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def replayed(server: RunningServer, pipeline: Pipeline, name: str) -> list[tuple[str, int, int]]:
    """Send a recording; return the requests whose answers differ: address, recorded status, status."""
    exchanges = [one for one in recorded(RECORDED / f"{name}.jsonl") if one.address.startswith("/api/")]
    assert any(re.search(RUNNER, one.body) for one in exchanges)
    differ = []
    for one in exchanges:
        if one.told == State.CANCELING and not any(job.state is State.CANCELING for job in pipeline.jobs):
            server.call(lambda forge: forge.cancel_all(pipeline))
        status = sent(server, one)
        if status != one.status:
            differ.append((f"{one.method} {one.address}", one.status, status))
    return differ


def test_jobs_with_artifacts(server: RunningServer, tmp_path: Path) -> None:
    pipeline = begun(server, tmp_path, small.ARTIFACTS)
    assert replayed(server, pipeline, "test_a_pipeline_with_artifacts_variables_and_a_cache") == []
    made, used = pipeline.jobs
    assert (made.state, used.state) == (State.SUCCESS, State.SUCCESS)
    assert unpacked(made) == {"made": b"one of push\n"}
    assert made.dotenv == {"FOUND": "dotenv"}
    assert "ended as success" in used.said


def test_failures_with_exit_codes(server: RunningServer, tmp_path: Path) -> None:
    pipeline = begun(server, tmp_path, small.RETRIED)
    assert replayed(server, pipeline, "test_an_exit_code_decides_whether_a_job_is_tried_again") == []
    assert sorted((one.name, one.tries, one.exit_code) for one in pipeline.jobs) == [
        ("broken", 1, 1), ("busy", 1, 75), ("busy", 2, 75),
    ]  # fmt: skip


def test_a_job_that_is_cancelled(server: RunningServer, tmp_path: Path) -> None:
    pipeline = begun(server, tmp_path, small.CANCELLED)
    assert replayed(server, pipeline, "test_a_cancelled_job_gets_a_signal_and_its_after_script") == []
    (long,) = pipeline.jobs
    assert long.state is State.CANCELED
    assert "cleaning up after canceled" in long.said


def test_a_runner_that_sends_something_else_is_seen(server: RunningServer, tmp_path: Path) -> None:
    pipeline = begun(server, tmp_path, small.ARTIFACTS.replace("make:", "other:").replace("[make]", "[other]"))
    server.call(lambda forge: forge.cancel_all(pipeline))
    assert replayed(server, pipeline, "test_a_pipeline_with_artifacts_variables_and_a_cache") != []
