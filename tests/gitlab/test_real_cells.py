"""A real runner with executor `shell` on this bare host, as root: real cells of a team's project, from push to report.

Needs VMATRIX_GITLAB_RUNNER, root and the built artifacts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.infra.host.layout import instances_dir
from harness.proc import run as command
from harness.report.results import RunResult, load
from tests.gitlab import foreign, small
from tests.gitlab.checkout import Checkout
from tests.gitlab.foreign import Foreign
from tests.gitlab.real_runner import RunnerProcess, running
from tests.gitlab.server.artifact_answers import unpacked
from tests.gitlab.server.model import PipelineJob, State
from tests.gitlab.server.projects import add_runner, begin
from tests.gitlab.server.serve import RunningServer, serving

pytestmark = pytest.mark.cells
SECONDS = 2400.0  # against hanging: a cell, and what is looked at around it


@dataclass
class Host:
    """This host with a runner, the server that it asks, and the team's project there."""

    server: RunningServer
    runner: RunnerProcess
    team: Foreign

    @property
    def runs(self) -> list[RunResult]:
        """Return the runs of cells whose results are in the jobs' folders."""
        found = sorted((self.runner.home / "builds").glob("**/runs/*/results.jsonl"))
        return [load(file.parent) for file in found]


@pytest.fixture
def bare(pristine: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    vmatrix = foreign.served_vmatrix(tmp_path, pristine, monkeypatch)
    tiers = dict.fromkeys(("smoke_tier", "tier", "nightly_tier"), "one")
    team = foreign.clusters(tmp_path, suites=["nodes"], inputs=tiers)
    with serving() as server, running(server.url, add_runner(server, "vmatrix"), tmp_path / "runner") as runner:
        found = Host(server, runner, foreign.on_server(server, team, vmatrix, tmp_path, *foreign.on_this_host()))
        yield found
        assert server.site.refused == [], "something asked for what the server does not speak"
        runs = [one.run for one in found.runs]
        assert runs, "a test without a run shows nothing"
        assert left_of(runs) == []


def left_of(runs: list[str]) -> list[str]:
    """Return what this host still has of runs: instances, links, network namespaces, processes."""
    words = [folder.name for folder in instances_dir("embedded").glob("*/")]
    for argv in (["ip", "-o", "link"], ["ip", "netns", "list"], ["ps", "-e", "-ww", "-o", "args="]):
        words += command(argv, timeout=10).stdout.splitlines()
    return [word for word in words for one in runs if one in word]


def test_a_push_of_a_team_goes_to_its_report(bare: Host) -> None:
    pipeline = begin(bare.server, bare.team.project, bare.team.checkout)
    states = small.ended(bare.server, pipeline, seconds=SECONDS)
    assert set(states.values()) == {State.SUCCESS}, [(one.name, one.said[-3000:]) for one in pipeline.jobs]
    (found,) = bare.runs
    (cell,) = found.cells
    assert (found.exit_code, cell.outcome) == (0, "passed")
    assert cell.last_checks
    smoke, report = (small.job(bare.server, pipeline, name) for name in ("smoke", "report"))
    assert kept(smoke, found.run, "junit.xml"), "the results are the job's artifacts"
    assert b"ssh" not in b"".join(name.encode() for name in unpacked(smoke)), "no key is"
    files = unpacked(report)
    assert "1 of 1 cell passed" in files["public/summary.md"].decode()
    assert pipeline.sha[:7].encode() in files["public/index.html"], "the page names the commit"


def kept(job: PipelineJob, run: str, name: str) -> bytes:
    """Return a file of a run from a job's artifacts."""
    return unpacked(job)[f"runs/{run}/{name}"]
