"""`vmatrix list` and `explain`: the same words choose the same cells; everything is told without a cluster."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from harness.cli import app
from harness.errors import BadInput, NothingSelected
from harness.events import Recorder
from harness.paths import project_dir
from tests.unit.spec.conftest import edit, write

runner = CliRunner()
SMOKE = "v2-deb-t2-fresh"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own: the small matrix without planned tiers, two pinned cells, no state."""
    made = tmp_path / "project"
    made.mkdir()
    write(made)
    (made / "vm-templates").symlink_to(project_dir() / "vm-templates")
    tiers = made / "matrix" / "tiers.yml"
    text = tiers.read_text(encoding="utf-8")
    whole, where = "cover: {strength: 2}", "    where: {os: {class: [deb, ubu]}}\n"
    pinned = (
        "pinned: [{version: v3, os: deb, topology: one, scenario: upgrade}, "
        "{version: v3, os: ubu, topology: two, scenario: fresh}]"
    )
    tiers.write_text(text.replace(whole, pinned).replace(where, ""), encoding="utf-8")
    edit(made / "matrix" / "quarantine.yml", "until: 2026-12-31", f"until: {soon()}")
    edit(made / "matrix" / "axes.yml", "until: 2027-06-30", "until: 2999-12-31")  # the commands know the day
    for day in ("2030-06-30", "2029-05-31"):
        edit(made / "matrix" / "images.yml", day, "2999-12-31")
    monkeypatch.setenv("VMATRIX_PROJECT", str(made))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return made


def soon() -> str:
    """Return a day on which an entry of the quarantine may end, whenever the tests run."""
    return (datetime.now(UTC) + timedelta(days=30)).date().isoformat()


def listed(*words: str) -> list[dict[str, Any]]:
    """Return what `vmatrix list --json` prints."""
    result = runner.invoke(app, ["list", "--json", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def names(cells: list[dict[str, Any]]) -> list[str]:
    """Return the ids without their hashes."""
    return [cell["cell"].rpartition("-")[0] for cell in cells]


@pytest.mark.usefixtures("project")
def test_a_list_for_programs_says_what_a_cell_costs_and_why_it_is_there() -> None:
    one = listed("version=v2")[0]
    assert one.pop("cell").startswith(SMOKE)
    assert one == {
        "tiers": ["smoke"],
        "why": "version=v2",
        "values": {"version": "v2", "os": "deb", "topology": "two", "scenario": "fresh"},
        "machines": 2,
        "memory_mib": 3072,
        "admitted_mib": 3072,
        "expected_seconds": pytest.approx(98.0, abs=60),
        "phases": ["deploy"],
    }


@pytest.mark.usefixtures("project")
def test_the_kind_of_infra_follows_the_provider_or_is_named() -> None:
    here, both = [SMOKE, "v3-deb-t1-up"], [SMOKE, "v3-deb-t1-up", "v3-ubu-t2-fresh"]
    assert names(listed()) == here
    assert names(listed("--provider", "kubeconfig")) == names(listed("--infra-profile", "there")) == both


@pytest.mark.usefixtures("project")
def test_words_and_options_narrow() -> None:
    assert names(listed("--tier", "all")) == ["v3-deb-t1-up"]
    assert names(listed("version=class:2", "scenario=fresh")) == [SMOKE]
    assert names(listed("*-up-*", "--tier", "all")) == ["v3-deb-t1-up"]


@pytest.mark.usefixtures("project")
def test_a_table_never_cuts_an_id_and_says_what_is_left_out() -> None:
    result = runner.invoke(app, ["list", "-v"])
    assert result.exit_code == 0
    assert all(cell["cell"] in result.stdout for cell in listed())
    assert "left out on here: os ubu: needs internet, which here does not offer" in result.stdout
    assert "the pinned cell v3-ubu-t2-fresh-" in result.stdout


@pytest.mark.usefixtures("project")
def test_what_failed_in_the_last_run(tmp_path: Path) -> None:
    first, second = listed()
    run = tmp_path / "work" / "runs" / "abcdef"
    run.mkdir(parents=True)
    recorder = Recorder(run)
    recorder.write("run-start", run="abcdef", cells=[first["cell"], second["cell"]])
    for one, outcome in ((first, "passed"), (second, "failed")):
        for step, came_to in (("deploy", outcome), ("teardown", "passed")):
            recorder.write("step-start", cell=one["cell"], attempt=1, step=[step])
            recorder.write("step-end", cell=one["cell"], attempt=1, step=[step], outcome=came_to, seconds=1.0)
        recorder.write("check", cell=one["cell"], attempt=1, suite="nodes", name="c", outcome=outcome, seconds=1.0)
    found = listed("--failed", "last")
    assert names(found) == names([second])
    assert found[0]["why"] == "did not pass in run abcdef"
    assert listed("--failed", "abcdef") == found


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ("list --tier nope", BadInput, "unknown tier 'nope'"),
        ("list --infra-profile nope", BadInput, "'nope'"),
        ("list --failed last", BadInput, "there is no run in runs"),
        ("list --failed nope", BadInput, "there is no run 'nope'"),
        ("list --changed-since nope", BadInput, "git does not know the revision 'nope'"),
        ("list os=nope", BadInput, "unknown value of axis os 'nope'"),
        ("list nope", NothingSelected, "no cell matches 'nope'"),
        ("explain nope", NothingSelected, "no cell matches 'nope'"),
        ("explain sos=deb", BadInput, "unknown axis 'sos'"),
    ],
)
def test_what_cannot_be_chosen_is_refused(words: str, error: type[BadInput], said: str) -> None:
    result = runner.invoke(app, words.split())
    assert result.exit_code == 1  # the entry point turns it into the error's own code
    assert isinstance(result.exception, error)
    assert said in result.exception.summary


def test_a_cell_is_explained_whole(project: Path, tmp_path: Path) -> None:
    result = runner.invoke(app, ["explain", "version=v3"], catch_exceptions=False)
    assert result.exit_code == 0
    told = yaml.safe_load(result.stdout)
    assert told["cell"].startswith("v3-deb-t1-up-")
    assert told["infra"] == "here"
    assert told["tiers"] == {"all": {"pinned": True}}
    assert told["expected"]["minutes"] > 1
    assert told["expected"]["asks for"].endswith("on 1 machine")
    assert [(m["name"], m["memory"]) for m in told["machines"]] == [("cp-0", "2048Mi")]
    assert told["checks"] == {"all": {"nodes": ["test_it.py"], "network": ["test_it.py"]}}
    assert told["variables"] == {"cluster_kubernetes_version": "1", "product_version": "3"}
    assert told["inventory"]["all"]["hosts"]["cp-0"]["ansible_host"] == "ADDRESS-OF-cp-0"
    assert {"Namespace", "VirtualMachine", "DataVolume", "Secret"} <= {o["kind"] for o in told["manifests"]}
    deploy, upgrade = told["phases"]
    assert (deploy["values"], deploy["variables"]) == ({"version": "v2"}, {"product_version": "2"})
    assert "values" not in upgrade
    folder = f"runs/RUN/{told['cell']}/inventory"
    assert upgrade["command"] == (
        f"ANSIBLE_CONFIG=playbooks/ansible.cfg ansible-playbook -i {folder}/hosts.yml "
        f"-e @{folder}/extra-vars.yml playbooks/upgrade.yml"
    )
    assert list((tmp_path / "work").iterdir()) == []
    assert not (tmp_path / "state").exists()


def test_quarantine_of_a_cell_is_told(project: Path) -> None:
    result = runner.invoke(app, ["explain", "--json", "*"], catch_exceptions=False)
    first, second = json.loads(result.stdout)
    assert [(q["check"], q["issue"]) for q in first["quarantine"]] == [
        ("network: test_dns*", "https://example.org/issues/1")
    ]
    assert second["quarantine"] == []


def test_every_shipped_cell_can_be_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for tier in ("smoke", "single"):
        result = runner.invoke(app, ["explain", "*", "--tier", tier, "--json"], catch_exceptions=False)
        assert {cell["cell"] for cell in json.loads(result.stdout)} == {cell["cell"] for cell in listed("--tier", tier)}


def test_what_a_phase_takes_away_and_promises_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for scenario, variable, machines in (
        ("remove-node", "cluster_remove_nodes", ["cp-2"]),
        ("recover", "cluster_lost_nodes", ["cp-1", "cp-2"]),
    ):
        result = runner.invoke(app, ["explain", "--tier", "lifecycle", f"scenario={scenario}"], catch_exceptions=False)
        *_, last = yaml.safe_load(result.stdout)["phases"]
        assert last["variables"][variable] == machines
    assert last["data"] == "as when backup began"
