"""Two commands at once, wherever a user can start two: each ends in its own words, and nothing is left."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.paths import cache_dir
from tests.embedded.run import runs
from tests.embedded.run.runs import VMATRIX, Run, vmatrix
from tests.kill.conftest import Ground
from tests.kill.table import CLEAN, DOUBLES
from tests.kill.test_points import CHECKS, DOCUMENTED, RUN_SECONDS

MACHINES = ("provision", "machines")


@pytest.fixture
def double(request: pytest.FixtureRequest, ground: Ground, tmp_path: Path) -> Iterator[list[Run]]:
    """Give a list for runs; after the test all is taken away, and this host is as before."""
    name = next(name for name in DOUBLES if name.replace("-", "_") in request.node.name)
    ground.clear(tmp_path)
    ground.results.note(name, "failed")
    started: list[Run] = []
    yield started
    for run in started:
        run.end(RUN_SECONDS)
    assert ground.infra("down", tmp_path).code == 0
    ground.require_the_same()
    ground.results.note(name, CLEAN)


def begin(ground: Ground, folder: Path, started: list[Run]) -> Run:
    """Start a run."""
    started.append(runs.start(folder, "k" + secrets.token_hex(3)[:5], ground.layout.name, *CHECKS))
    return started[-1]


def both(ground: Ground, folder: Path, *verbs: str) -> list[tuple[int, str]]:
    """Start commands of the instance at once; return how they ended."""
    words = [[VMATRIX, "infra", verb, "--name", ground.layout.name] for verb in verbs]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    processes = [subprocess.Popen(one, cwd=folder, env=dict(os.environ), **pipes) for one in words]  # type: ignore[call-overload]
    return [(p.wait(RUN_SECONDS), said) for p in processes for said in [p.communicate(timeout=RUN_SECONDS)[0]]]


@pytest.mark.usefixtures("double")
def test_up_and_up_is_one_instance(ground: Ground, tmp_path: Path) -> None:
    assert [code for code, _ in both(ground, tmp_path, "up", "up")] == [0, 0]
    assert vmatrix("infra", "status", "--name", ground.layout.name, cwd=tmp_path).code == 0


@pytest.mark.usefixtures("double")
def test_up_and_down_take_turns(ground: Ground, tmp_path: Path) -> None:
    for code, said in both(ground, tmp_path, "up", "down"):
        assert code == 0, said


def test_run_and_down_ends_the_run_in_its_own_words(ground: Ground, tmp_path: Path, double: list[Run]) -> None:
    run = begin(ground, tmp_path, double)
    run.wait_for("step-start", *MACHINES, seconds=RUN_SECONDS)
    assert ground.infra("down", tmp_path).code == 0
    ended = run.end(RUN_SECONDS)
    assert ended.code in DOCUMENTED - {0, 1, 70}, ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr


def test_run_and_reap_ends_the_run_in_its_own_words(ground: Ground, tmp_path: Path, double: list[Run]) -> None:
    run = begin(ground, tmp_path, double)
    run.wait_for("step-start", *MACHINES, seconds=RUN_SECONDS)
    reaped = vmatrix("reap", "--all", "--infra-name", ground.layout.name, cwd=tmp_path, seconds=RUN_SECONDS)
    assert reaped.code == 0, reaped.stdout + reaped.stderr
    ended = run.end(RUN_SECONDS)
    assert ended.code in DOCUMENTED - {1, 70}, ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr


def test_run_and_run_obtain_the_same_and_both_pass(ground: Ground, tmp_path: Path, double: list[Run]) -> None:
    assert ground.infra("up", tmp_path).code == 0
    artifact = cache_dir() / "artifacts" / "image" / "pause"  # of this world: the host's own stays
    made = {path.relative_to(artifact) for path in artifact.rglob("oci-layout")}
    assert made
    shutil.rmtree(artifact)
    for _ in range(2):
        begin(ground, tmp_path, double)
    assert [run.end(RUN_SECONDS).code for run in double] == [0, 0], [run.output() for run in double]
    assert any((artifact / path).exists() for path in made), "nobody obtained it"
