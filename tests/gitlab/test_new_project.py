"""The pipeline of a repository as `vmatrix init --gitlab` writes it, with a vmatrix that was installed from its wheel.

GitLab's server is a folder: git finds the repository of vmatrix there, for the include and for the jobs alike.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from harness.gitlab import limits
from harness.infra.host.layout import instances_dir
from harness.report.results import load
from tests.gitlab.checkout import HISTORY, VARIABLES, Checkout
from tests.package.conftest import Installed, built, installed

__all__ = ["built", "installed"]

SECONDS = 2400.0  # two cells, one after the other
SERVER = "https://gitlab.example.org"
VMATRIX = "platform/vmatrix"
ADDRESSES = (f"{SERVER}/", f"{SERVER}:443/", "https://gitlab-ci-token:@gitlab.example.org/")
TIER = """\
  one:
    label: one machine
    pinned:
      - {kubernetes: "1.36.3", os: debian-13, runtime: containerd-2.4, network: flannel,
         proxy: nftables, topology: all-in-one, scenario: fresh, source: mirror, addons: core}
    suites: [nodes]
    budget: {cells: 1, machines: 1, minutes: 30}
"""


@dataclass(frozen=True)
class Team:
    """A team's repository, and what its jobs know of the server."""

    checkout: Checkout
    variables: dict[str, str]


@pytest.fixture
def team(pristine: Checkout, installed: Installed, tmp_path: Path) -> Team:
    """Make a repository of playbooks, and of what `vmatrix init` writes for it."""
    served = tmp_path / "server" / f"{VMATRIX}.git"
    shutil.copytree(pristine.directory, served, symlinks=True)
    (served / ".venv").unlink()
    (served / ".venv").symlink_to(installed.prefix)  # what a job would install; here it is the wheel
    Checkout(served).commit("Installed")
    settings = tmp_path / "gitconfig"
    settings.write_text(
        "".join(f'[url "file://{served.parent}/"]\n\tinsteadOf = {address}platform/\n' for address in ADDRESSES),
        encoding="utf-8",
    )
    repository = tmp_path / "clusters"
    shutil.copytree(installed.package / "packaged" / "playbooks", repository / "deploy")
    installed.vmatrix(f"init --playbooks deploy --phase deploy=cluster.yml --gitlab {VMATRIX}", cwd=repository)
    with (repository / "matrix" / "tiers.yml").open("a", encoding="utf-8") as tiers:
        tiers.write(TIER)
    subprocess.run(["/usr/bin/git", "init", "-q", "-b", "main", str(repository)], check=True, timeout=60)
    (repository / ".git" / "info" / "exclude").write_text(f"{VARIABLES}\n.gitlab-ci-local/\n", encoding="utf-8")
    made = Checkout(repository)
    made.git("remote", "add", "origin", f"{SERVER}/team/clusters.git")
    made.commit("Our playbooks")
    variables = {
        "CI_PIPELINE_SOURCE": "push",
        "CI_COMMIT_BRANCH": "main",
        "CI_DEFAULT_BRANCH": "main",
        "CI_SERVER_URL": SERVER,
        "GIT_CONFIG_GLOBAL": str(settings),
        "MATRIX_WANT_TIER": "one",
        **HISTORY,
    }
    return Team(made, variables)


@pytest.fixture(autouse=True)
def _git_finds_the_server(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let gitlab-ci-local's own git, which reads the include, find the server as well."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", team.variables["GIT_CONFIG_GLOBAL"])


def test_what_init_writes_is_a_pipeline_of_the_teams_cells(team: Team) -> None:
    jobs = team.checkout.listed(team.variables)
    assert set(jobs) >= {"plan", "smoke", "matrix", "report"}
    assert limits.broken(team.checkout.merged(team.variables)) == []
    ended = team.checkout.call("plan", variables=team.variables)
    assert ended.code == 0, ended.said
    child = yaml.safe_load((team.checkout.directory / "matrix.yml").read_text(encoding="utf-8"))
    (cell,) = (name for name, job in child.items() if isinstance(job, dict) and job.get("extends") == ".cell")
    assert "-a1-fresh-" in cell
    assert limits.broken(child) == []


@pytest.mark.cells
def test_the_cells_of_such_a_repository_pass_in_its_pipeline(team: Team, installed: Installed) -> None:
    short = {"MATRIX_ONLY": "nodes", "VMATRIX_TIMEOUT_SCALE": "3"}
    ended = team.checkout.call(variables=team.variables | short, seconds=SECONDS)
    assert ended.code == 0, ended.said
    runs = [load(file.parent) for file in (team.checkout.directory / "runs").glob("*/results.jsonl")]
    assert sorted(cell.id.split("-")[5] for run in runs for cell in run.cells) == ["a1", "c1w1"]
    assert {(run.exit_code, cell.outcome) for run in runs for cell in run.cells} == {(0, "passed")}
    assert all(cell.last_checks for run in runs for cell in run.cells)
    assert f"pytest {installed.package / 'packaged' / 'tests' / 'cells'} " in ended.said, "the wheel's checks"
    for log in (team.checkout.directory / "runs").glob("*/*/logs/deploy.log"):
        assert str(team.checkout.directory / "deploy" / "cluster.yml") in log.read_text(encoding="utf-8")
    # the report is about the tier that was wanted; the smoke cell is in another
    assert "1 of 1 cell passed" in (team.checkout.directory / "public" / "summary.md").read_text(encoding="utf-8")
    left = [folder.name for folder in instances_dir("embedded").iterdir()]
    assert [name for name in left for run in runs if run.run in name] == []
