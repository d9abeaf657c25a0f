"""What is said of an end: the place that the first failure names, and a hint that leads on after the pod is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from harness.errors import Blame, InfraError, InfraRetriable, ProductError, VmatrixError
from harness.operator.execute import ending
from harness.operator.execute.progress import PlayProgress
from harness.paths import project_dir

LOG = Path("/tmp/work/ansible.log")
SHOW = "vmatrix operator log prod 3"


def events(path: Path, event: str, play: str = "Etcd", task: str = "Start") -> Path:
    """Write the events of a playbook that failed in a play before the last that began."""
    failed = {"event": event, "play": play, "task": task, "handler": False, "host": "cp-0", "pardon": ""}
    lines = [
        {**failed, "tolerant": False, "item": None, "result": {"msg": "no"}},
        {"event": "end", "hosts": ["cp-0"], "failed": {"cp-0": 1}, "unreachable": {}},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def at(play: str, task: str) -> PlayProgress:
    return PlayProgress(lambda _: None, play=play, task=task)


def test_a_failure_is_told_where_it_was_and_not_where_others_had_come(tmp_path: Path) -> None:
    path = events(tmp_path / "events", "failed")
    end = ending.end_of(ProductError("no", paths=[LOG]), at("Nodes", "Join"), path, "", SHOW)
    assert (end.play, end.task, end.host) == ("Etcd", "Start", "cp-0")


def test_an_end_without_a_failure_is_told_with_the_last_that_began(tmp_path: Path) -> None:
    end = ending.end_of(ending.ExecutorInterrupted(), at("Nodes", "Join"), tmp_path / "none", "", SHOW)
    assert (end.outcome, end.play, end.task, end.host) == ("interrupted", "Nodes", "Join", "")


@pytest.mark.parametrize(
    ("error", "event", "hint"),
    [
        (ProductError("no", hint="see /tmp", paths=[LOG]), "failed", f"`{SHOW}` shows all that Ansible said"),
        (InfraError("lost", hint="see /tmp", paths=[LOG]), "unreachable", ending.ANSWER),
        (InfraRetriable("cut", hint="run the cell again", paths=[LOG]), "failed", ending.REPEATED),
        (VmatrixError("no Secret", hint="make it"), "failed", "make it"),
    ],
)
def test_a_hint_leads_to_what_is_there_still(error: VmatrixError, event: str, hint: str, tmp_path: Path) -> None:
    found = ending.end_of(error, at("", ""), events(tmp_path / "events", event), "", SHOW)
    assert found.hint == hint
    assert found.blame == error.blame


def test_an_image_names_its_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    output = "cp-0 : ok=1 changed=0 unreachable=0 failed=0"
    monkeypatch.setenv(ending.REVISION, "v1-7-gabc")
    assert ending.end_of(None, at("", ""), tmp_path, output, SHOW).revision == "v1-7-gabc"
    monkeypatch.delenv(ending.REVISION)
    assert ending.revision()


def plays() -> set[str]:
    """Return the names of all plays of the packaged playbooks."""
    folder = project_dir() / "playbooks"
    return {play["name"] for path in folder.glob("*.yml") for play in yaml.safe_load(path.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("play", sorted(ending.REQUEST_PLAYS))
def test_a_request_that_is_refused_is_the_users(play: str, tmp_path: Path) -> None:
    assert play in plays()
    found = ending.end_of(ProductError("no"), at("", ""), events(tmp_path / "events", "failed", play), "", SHOW)
    assert found.blame == Blame.USER
    lost = ending.end_of(InfraError("lost"), at("", ""), events(tmp_path / "lost", "unreachable", play), "", SHOW)
    assert lost.blame == Blame.INFRA


@pytest.mark.parametrize("task", sorted(ending.REQUEST_TASKS))
def test_settings_that_were_taken_back_are_the_users(task: str, tmp_path: Path) -> None:
    role, _, name = task.partition(" : ")
    assert f"- name: {name}\n" in (project_dir() / f"playbooks/roles/{role}/tasks/main.yml").read_text(encoding="utf-8")
    path = events(tmp_path / "events", "failed", task=task)
    assert ending.end_of(ProductError("no"), at("", ""), path, "", SHOW).blame == Blame.USER
