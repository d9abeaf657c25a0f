"""Former options still work, in every command that had them, and each tells its present name in one line."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from harness.cli import app, options, reach, report
from harness.paths import project_dir
from harness.session import reporting
from harness.streams import TOLD
from tests.unit.programs import run_loaded

runner = CliRunner()
Seen = Callable[..., dict[str, Any]]


class Enough(Exception):
    """Ends a command once it has taken its options."""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Seen:
    """Return what runs a command until it loads its settings, and gives the options that it loads them with."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(TOLD, "")
    found: dict[str, Any] = {}

    def load(directory: Path, *, options: Mapping[str, Any]) -> None:
        found.update({name: value for name, value in options.items() if value is not None})
        raise Enough

    monkeypatch.setattr(options, "load_settings", load)
    monkeypatch.setattr("harness.spec.options.load_settings", load)

    def invoke(*words: str) -> dict[str, Any]:
        result = runner.invoke(app, words)
        assert isinstance(result.exception, Enough), result.output
        return {**found, "told": result.stderr.splitlines()}

    return invoke


@pytest.mark.parametrize(
    ("words", "old", "new", "setting"),
    [
        ("run", "--infra-kind", "--infra-profile", "infra_profile"),
        ("list", "--infra-kind", "--infra-profile", "infra_profile"),
        ("list", "--infra", "--infra-profile", "infra_profile"),
        ("explain x", "--infra-kind", "--infra-profile", "infra_profile"),
        ("explain x", "--infra", "--infra-profile", "infra_profile"),
        ("kubectl x", "--infra-namespace", "--namespace", "namespace"),
    ],
)
def test_a_former_option_sets_what_the_present_one_sets(
    seen: Seen, words: str, old: str, new: str, setting: str
) -> None:
    former, present = seen(*words.split(), old, "mine"), seen(*words.split(), new, "mine")
    assert former.pop("told") == [f"note: {old} is now called {new}"]
    assert present.pop("told") == []
    assert former == present
    assert former[setting] == "mine"


def test_a_former_option_is_told_once(seen: Seen) -> None:
    assert len(seen("list", "--infra", "a")["told"]) == 1
    assert seen("list", "--infra", "a")["told"] == []


@pytest.mark.parametrize("command", ["run", "list", "explain", "kubectl", "plan", "report", "status", "reap"])
def test_help_names_present_options_only(command: str) -> None:
    said = runner.invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
    assert "--help" in said
    for old in ("--infra-kind", "--infra ", "--infra-namespace", "--infra-kubeconfig"):
        assert old not in said


def test_the_former_profile_option_of_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOLD, "")
    former = runner.invoke(app, ["plan", "--tier", "smoke", "--infra", "kubevirt", "--json"])
    present = runner.invoke(app, ["plan", "--tier", "smoke", "--infra-profile", "kubevirt", "--json"])
    assert (former.exit_code, former.stdout) == (present.exit_code, present.stdout) == (0, former.stdout)
    assert former.stderr == "note: --infra is now called --infra-profile\n"


def test_the_former_profile_option_of_a_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(TOLD, "")
    requests: list[reporting.Asked] = []

    def looked_at(asked: reporting.Asked, *_: object, **__: object) -> None:
        requests.append(asked)
        raise Enough

    monkeypatch.setattr(report, "looked_at", looked_at)
    results = [runner.invoke(app, ["report", option, "mine"]) for option in ("--infra-kind", "--infra-profile")]
    assert [asked.infra for asked in requests] == ["mine", "mine"]
    assert [result.stderr for result in results] == ["note: --infra-kind is now called --infra-profile\n", ""]


NOTES = [
    "note: --infra-kind is now called --infra-profile",
    "note: --infra-namespace is now called --namespace",
    "note: provider local is now called embedded (--provider)",
]
FORMER = ["--infra-kind", "embedded", "--infra-namespace", "shared", "--provider", "local"]
PRESENT = ["--infra-profile", "embedded", "--namespace", "shared", "--provider", "embedded"]


@pytest.mark.parametrize(
    ("words", "told", "expected"),
    [(FORMER, [], NOTES), (FORMER, NOTES, []), (PRESENT, [], [])],
    ids=["former", "former, in a process that inherits the notices", "present"],
)
def test_pytest_takes_both(words: list[str], told: list[str], expected: list[str], tmp_path: Path) -> None:
    checks = str(project_dir() / "tests" / "cells")
    asked = ["--tier", "smoke", *words, "--collect-only", "-q", "-n", "2"]
    env = {**os.environ, TOLD: "\n".join(told), "XDG_STATE_HOME": str(tmp_path / "state")}
    done = run_loaded([sys.executable, "-m", "pytest", checks, "-p", "no:cacheprovider", *asked], cwd=tmp_path, env=env)
    notes = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("note: ")]
    assert sorted(notes) == expected, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "state").exists(), "collecting starts nothing"


def test_the_printed_call_works_when_pasted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`vmatrix run` passes everything on under present names, whatever it was given under."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(TOLD, "")
    calls: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, argv: calls.append(argv))
    words = [
        "--tier",
        "smoke",
        "--infra-kind",
        "embedded",
        "--namespace",
        "shared",
        "--max-cpus",
        "2",
        "-k",
        "not nodes",
    ]
    result = runner.invoke(app, ["run", *words, "--no-keep-on-failure", "--run-id", "abc123"], catch_exceptions=False)
    assert result.exit_code == 0
    (argv,) = calls
    printed = result.stderr.splitlines()[-1]
    assert argv[1:] == ["-P", "-m", "harness.plugin", *shlex.split(printed)[2:]]
    assert printed.startswith("$ pytest ")
    assert "--infra-profile embedded" in printed
    assert "-k 'not nodes'" in printed
    argv = [sys.executable, "-m", *shlex.split(printed)[1:], "--collect-only", "-q"]
    done = run_loaded(argv, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_provision[" in done.stdout


@pytest.mark.parametrize(
    ("words", "vmatrix", "kubectl"),
    [
        (["x", "--", "get", "pods", "--namespace", "n"], {}, ["get", "pods", "--namespace", "n"]),
        (["x", "get", "pods", "--namespace", "n"], {}, ["get", "pods", "--namespace", "n"]),
        (["x", "--namespace", "m", "get", "pods", "-n", "n"], {"namespace": "m"}, ["get", "pods", "-n", "n"]),
        (["--namespace", "m", "x", "--", "get"], {"namespace": "m"}, ["get"]),
        (["--namespace=m", "x", "get"], {"namespace": "m"}, ["get"]),
    ],
)
def test_kubectl_keeps_its_own_options(
    monkeypatch: pytest.MonkeyPatch, words: list[str], vmatrix: dict[str, str], kubectl: list[str]
) -> None:
    taken: list[tuple[dict[str, Any], str, list[str]]] = []
    names = ("namespace", "provider", "kubeconfig", "infra_name", "access")

    def command(shared: options.SharedOptions, context: typer.Context, cell: reach.Cell) -> None:
        taken.append(({k: v for k, v in shared.items() if v is not None}, cell, context.args))

    made = typer.Typer()
    made.command()(lambda: None)
    passed_on = {"allow_extra_args": True, "ignore_unknown_options": True}
    made.command("kubectl", cls=reach.KubectlCommand, context_settings=passed_on)(options.takes(*names)(command))
    result = runner.invoke(made, ["kubectl", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert taken == [(vmatrix, "x", kubectl)]
