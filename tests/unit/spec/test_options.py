"""The table of options: every setting once, with its text, type and allowed values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.paths import project_dir
from harness.spec.options import OPTIONS, REQUEST, RUN, SETTINGS, RunRequest
from harness.spec.renamed import FLAGS
from harness.spec.settings import Settings

HARNESS = project_dir() / "harness"


def test_every_setting_is_an_option_with_the_text_of_its_field() -> None:
    assert SETTINGS.keys() == Settings.model_fields.keys()
    said = {n: o.help.partition(" Choices: ")[0] for n, o in SETTINGS.items()}
    assert said == {n: f.description for n, f in Settings.model_fields.items()}
    assert {n for n, o in SETTINGS.items() if " Choices: " in o.help} == {n for n, o in SETTINGS.items() if o.choices}
    assert not REQUEST.keys() & SETTINGS.keys(), "one name is one thing"


def test_types_and_allowed_values_are_those_of_the_setting() -> None:
    assert SETTINGS["provider"].choices == ("embedded", "kind", "kubeconfig")
    assert SETTINGS["access"].choices == ("direct", "portforward")
    kinds = {name: SETTINGS[name].kind for name in ("runs", "max_cpus", "max_machines", "keep_on_failure", "namespace")}
    expected = {"runs": Path, "max_cpus": float, "max_machines": int, "keep_on_failure": bool, "namespace": str}
    assert kinds == expected
    assert {option.kind for option in OPTIONS.values()} == {str, int, float, bool, Path}


def test_a_run_takes_what_it_is_asked_for_and_its_settings() -> None:
    assert set(REQUEST) < set(RUN)
    assert {"provider", "infra_profile", "namespace", "max_cpus", "runs"} < set(RUN) & set(SETTINGS)
    given = {**dict.fromkeys(RUN), "tier": "smoke", "max_cpus": 2.0}
    request = RunRequest.of(given, cells=("a",), command="x")
    assert (request.tier, request.cells, request.command, request.settings["max_cpus"]) == ("smoke", ("a",), "x", 2.0)
    assert set(request.settings) == set(RUN) & set(SETTINGS)


def test_former_flags_belong_to_options_and_are_none_themselves() -> None:
    assert FLAGS.keys() <= OPTIONS.keys()
    former = [flag for flags in FLAGS.values() for flag in flags]
    assert not set(former) & {option.flag for option in OPTIONS.values()}
    assert len(former) == len(set(former)) >= 4


# Options of the same name that are not the setting: which runs a report shows, which profile a plan is for, where
# `vmatrix artifacts serve` listens, and those of the operator, which knows no project and no settings.
OWN = {
    "infra_profile": {"report.py", "plan.py"},
    "infra_name": {"infra.py"},  # commands about one instance, with a default of their own
    "registry": {"artifacts.py", "operator_manifests.py"},
    "kubeconfig": {"operator_execute.py", "operator_run.py"},
    "namespace": {
        "operator.py",
        "operator_run.py",
        "operator_manifests.py",
    },
    "access": {"operator_run.py"},
    "timeout_scale": {"operator_run.py"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_no_command_declares_a_setting_again(name: str) -> None:
    """A flag, or a parameter with an Option of its own, would be a second definition."""
    assert declaring(name) == OWN.get(name, set())


def test_a_second_definition_would_be_found() -> None:
    assert declaring("select") == {"check.py", "run.py"}
    assert declaring("json") == {"options.py"}


def declaring(name: str) -> set[str]:
    """Return the modules of the command line and the plugin that declare an option of that name themselves."""
    flag = rf"""["']--{name.replace("_", "-")}["'/]"""
    own = re.compile(rf"""{flag}|^\s+{name}: Annotated\[[^=]*?typer\.Option""", re.MULTILINE)
    modules = (path for room in ("cli", "plugin") for path in (HARNESS / room).glob("*.py"))
    return {path.name for path in modules if own.search(path.read_text(encoding="utf-8"))}


def test_a_limit_of_a_run_stands_in_the_table_and_where_it_counts() -> None:
    modules = {path: path.read_text(encoding="utf-8") for path in HARNESS.rglob("*.py")}
    found = {str(path.relative_to(HARNESS)) for path, text in modules.items() if re.search("max[_-]cpus", text)}
    assert found == {"session/admit.py", "session/refusals.py", "spec/settings.py"}
