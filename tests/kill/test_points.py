"""Ended anywhere: one `vmatrix reap --all` and one `vmatrix infra down` later, this host is as it was before."""

from __future__ import annotations

import secrets
import signal
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import proc
from harness.infra.host.layout import load_record
from harness.interpreter import PYTEST
from tests.embedded.run import runs
from tests.embedded.run.runs import Ended, Run, vmatrix, wait_until
from tests.kill import blows
from tests.kill.conftest import Ground
from tests.kill.points import PARTS, POINTS, Check, KillPoint, Nth, Step, Task
from tests.kill.table import CLEAN

RUN_SECONDS = 1800.0  # against hanging: a run whose infra cluster lost a part goes on to its end
HOOK = Path(__file__).with_name("hook")
KILLED = 128 + signal.SIGKILL
DOCUMENTED = {0, 1, 2, 3, 4, 5, 70, 75, 130, 143}
RUNS = [point for point in POINTS if point.command == "run"]
CHECKS = ("-k", "not conformance and not network and not nodes")  # of a run that is not about checks: few are enough
SMALL = "64m"  # enough for what a run writes before the space is taken


@contextmanager
def folder_of(point: KillPoint, folder: Path) -> Iterator[Path]:
    """Give the folder that a run writes its results to; where it is to be filled, a file system of its own."""
    if point.how != "disk full":
        yield folder
        return
    own = folder / "small"
    own.mkdir()
    proc.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", own], timeout=60)
    try:
        yield own
    finally:
        proc.run(["umount", own], timeout=60)


@pytest.fixture(scope="session", autouse=True)
def _hook() -> Iterator[None]:
    """Have every process of this environment load the hook: variables of Python do not reach those of vmatrix."""
    program = HOOK / "sitecustomize.py"
    loads = f"exec(compile(open({str(program)!r}).read(), {str(program)!r}, 'exec'), {{}})"
    file = Path(sysconfig.get_path("purelib")) / "vmatrix-kill.pth"
    file.write_text(f"import os; os.environ.get('KILL_AT') and {loads}\n", encoding="utf-8")
    yield
    file.unlink()


def hooked(moment: Nth, word: str) -> dict[str, str]:
    """Return the variables by which a process ends itself."""
    return {"KILL_AT": f"{moment.kind}:{moment.count}", "KILL_IN": word}


def wait_for(point: KillPoint, run: Run, ground: Ground) -> None:
    """Return once the moment has come."""
    if isinstance(point.moment, Step):
        run.wait_for(
            *(("step-start", *point.moment.path) if point.moment.path else ("run-start",)), seconds=RUN_SECONDS
        )
    elif isinstance(point.moment, Check):
        suite = {"suite": point.moment.suite} if point.moment.suite else {}
        run.wait_for("check", seconds=RUN_SECONDS, **suite)
    elif isinstance(point.moment, Task):
        words, log = f" : {point.moment.words}] ***", run.results / ground.single.id / "logs" / "deploy.log"

        def begun() -> bool:
            found = log.exists() and words in log.read_text()
            assert found or run.process.poll() is None, f"the run ended before {words!r}: {run.output()[-3000:]}"
            return found

        wait_until(begun, words, seconds=RUN_SECONDS)


def end_run(point: KillPoint, ground: Ground, run_id: str, folder: Path) -> Ended:
    """Start a run, end at the point what it names, and return how the run ended."""
    env = hooked(point.moment, PYTEST) if isinstance(point.moment, Nth) else {}
    whole = point.moment == Check("conformance")
    selection = (ground.single.id, ground.other.id) if point.what == "worker" else ("--tier", "single")
    options = (*(() if whole else CHECKS), *(("--parallel", "2") if point.what == "worker" else ()))
    run = runs.start(folder, run_id, ground.layout.name, *options, selection=selection, env=env)
    try:
        if not isinstance(point.moment, Nth):
            wait_for(point, run, ground)
            blows.deliver(point, run, ground.layout)
        return run.end(RUN_SECONDS)
    finally:
        if run.process.poll() is None:
            run.send(signal.SIGKILL)
            run.end()


def judge(point: KillPoint, ended: Ended) -> None:
    """Hold a run that was hit to how it may end: by the blow, or in its own words."""
    said = f"{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"
    if point.how == "TERM":
        assert ended.code == 128 + signal.SIGTERM, said
    elif point.how == "KILL" and point.what in {"run", "group", "power"}:
        assert ended.code == KILLED, said
        return
    assert ended.code in DOCUMENTED, said
    if point.how != "memory":
        assert "Traceback" not in said
    if point.what in PARTS:
        assert ended.code in {0, 3, 75}, said
        assert f"{point.what} of instance" in ended.stdout, "nobody said so"


@pytest.mark.parametrize("point", [p for p in RUNS if not p.alone], ids=lambda point: point.name)
def test_after_a_run_and_reap_only_the_instance_is_left(point: KillPoint, ground: Ground, tmp_path: Path) -> None:
    """Several points share an instance: after each of them nothing but it is left, and nothing at all after it."""
    ground.share(tmp_path)
    try:
        with ground.noting(point.name):
            ground.require_alone(run_and_reap(point, ground, tmp_path))
    except Exception:
        ground.clear(tmp_path)
        raise
    ground.pending.append(point.name)


@pytest.mark.parametrize("point", [p for p in RUNS if p.alone], ids=lambda point: point.name)
def test_after_a_run_nothing_is_left(point: KillPoint, ground: Ground, tmp_path: Path) -> None:
    ground.clear(tmp_path)
    with ground.noting(point.name):
        up = ground.infra("up", tmp_path)
        assert up.code == 0, up.stderr
        try:
            run_and_reap(point, ground, tmp_path)
        finally:
            down = ground.infra("down", tmp_path)
        assert down.code == 0, down.stdout + down.stderr
        ground.require_the_same()
    ground.results.note(point.name, CLEAN)


def run_and_reap(point: KillPoint, ground: Ground, folder: Path) -> str:
    """Carry a point out on the instance that is up, and delete all cells; return the id of the run."""
    run_id = "k" + secrets.token_hex(3)[:5]
    with folder_of(point, folder) as own:
        judge(point, end_run(point, ground, run_id, own))
    reaped = vmatrix("reap", "--all", "--infra-name", ground.layout.name, cwd=folder, seconds=RUN_SECONDS)
    assert reaped.code == 0, reaped.stdout + reaped.stderr
    return run_id


@pytest.mark.parametrize("point", [p for p in POINTS if p.command != "run"], ids=lambda point: point.name)
def test_after_infra_nothing_is_left(point: KillPoint, ground: Ground, tmp_path: Path) -> None:
    assert isinstance(point.moment, Nth)
    ground.clear(tmp_path)
    with ground.noting(point.name):
        if point.command == "down":
            assert ground.infra("up", tmp_path).code == 0
        ended = ground.infra(point.command, tmp_path, hooked(point.moment, point.command))
        assert ended.code == -signal.SIGKILL, f"it did not come to that: {ended.stdout}{ended.stderr}"
        if point.command == "up":
            again = ground.infra("up", tmp_path)
            assert again.code == 0, again.stderr
            found = load_record(ground.layout)
            assert found is not None
            assert found.usable
        down = ground.infra("down", tmp_path)
        assert down.code == 0, down.stdout + down.stderr
        ground.require_the_same()
    ground.results.note(point.name, CLEAN)
