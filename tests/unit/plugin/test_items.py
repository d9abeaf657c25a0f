"""The items of a run, as pytest collects them: a cell's phases in order, its steps around its checks."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.paths import project_dir
from harness.plan.select import PlanSelection, selected
from harness.plugin.items import deleted_after, suite_after
from harness.spec import load_spec
from tests.unit.programs import run_loaded


@pytest.fixture(scope="module")
def reset_cell() -> str:
    """Return a cell that is deployed, reset and deployed again."""
    spec = load_spec(project_dir() / "matrix")
    found = selected(spec, "embedded", PlanSelection(("scenario=reset",), tier="lifecycle"))
    return found[0].cell.id


def collected(*words: str) -> list[tuple[str, str]]:
    """Return what pytest collects as (suite, name without the cell's id), in order."""
    argv = [sys.executable, "-m", "pytest", "tests/cells", "--collect-only", "-q", "-p", "no:cacheprovider", *words]
    done = run_loaded(argv, cwd=project_dir())
    ids = [line for line in done.stdout.splitlines() if line.startswith("tests/cells/") and "::" in line]
    return [(line.split("/")[2], line.partition("::")[2].partition("[")[0] + _stage(line)) for line in ids]


def _stage(line: str) -> str:
    inside = line.partition("[")[2].partition("]")[0].split("-[")[0]
    for stage in ("deploy-2", "deploy", "reset"):
        if inside.endswith(f"-{stage}"):
            return f" {stage}"
    return ""


def test_a_cell_goes_through_its_phases(reset_cell: str) -> None:
    items = collected("--tier", "lifecycle", "--cell", reset_cell)
    steps = [name for suite, name in items if suite == "life"]
    assert steps == [
        "test_provision",
        "test_phase deploy",
        "test_phase reset",
        "test_phase deploy-2",
        "test_teardown",
        "test_gone",
    ]
    names = [name for _, name in items]
    first = items[names.index("test_phase deploy") + 1 : names.index("test_phase reset")]
    bare = items[names.index("test_phase reset") + 1 : names.index("test_phase deploy-2")]
    assert bare == [("phases", "test_every_machine_is_as_before_its_deployment reset")], "no cluster to check"
    again = items[names.index("test_phase deploy-2") + 1 : names.index("test_teardown")]
    assert list(dict.fromkeys(suite for suite, _ in first)) == ["nodes", "cluster", "network"]
    assert again[0] == ("phases", "test_a_new_cluster_has_no_data_of_the_one_before deploy-2")
    assert [(suite, name.replace("deploy", "deploy-2")) for suite, name in first] == again[1:]


def test_a_filter_leaves_checks_out_and_no_step(reset_cell: str) -> None:
    items = collected("--tier", "lifecycle", "--cell", reset_cell, "-k", "test_services_run")
    assert {suite for suite, _ in items} == {"nodes", "life"}
    assert [name for suite, name in items if suite == "life"][-2:] == ["test_teardown", "test_gone"]


def test_steps_alone_can_be_chosen(reset_cell: str) -> None:
    items = collected("--tier", "lifecycle", "--cell", reset_cell, "-k", "provision or teardown or test_gone")
    assert items == [("life", "test_provision"), ("life", "test_teardown"), ("life", "test_gone")]


def test_a_suite_on_request_runs_only_where_the_tier_names_it(reset_cell: str) -> None:
    assert {suite for suite, _ in collected("--tier", "performance")} == {"performance", "life"}
    suites = {suite for suite, _ in collected("--cell", reset_cell)}
    assert {"nodes", "conformance"} <= suites
    assert "performance" not in suites


# How a check can have parameters of its own, and the names that it then has in every report, whatever the cell.
OWN = {
    "a fixture": (
        "@pytest.fixture(params=['eth0', 'deploy'])\ndef link(request): return request.param\n"
        "def test_it(link, api): pass\n",
        {"test_it[eth0]", "test_it[deploy]"},
    ),
    "a fixture of the session": (
        "@pytest.fixture(params=['eth0'], scope='session')\ndef link(request): return request.param\n"
        "def test_it(api, link): pass\n",
        {"test_it[eth0]"},
    ),
    "a fixture of the module that is always there": (
        "@pytest.fixture(params=[1, 2], scope='module', autouse=True)\ndef link(request): return request.param\n"
        "def test_it(api): pass\n",
        {"test_it[1]", "test_it[2]"},
    ),
    "parameters": (
        "@pytest.mark.parametrize('a', ['x-y', 'z'])\ndef test_it(api, a): pass\n",
        {"test_it[x-y]", "test_it[z]"},
    ),
    "parameters in brackets": (
        "@pytest.mark.parametrize('a', ['[x]', ']'])\ndef test_it(api, a): pass\n",
        {"test_it[[x]]", "test_it[]]"},
    ),
    "ids": ("@pytest.mark.parametrize('a', [1], ids=['one'])\ndef test_it(api, a): pass\n", {"test_it[one]"}),
    "ids of a function": (
        "@pytest.mark.parametrize('a', [1], ids=lambda v: f'n{v}')\ndef test_it(api, a): pass\n",
        {"test_it[n1]"},
    ),
    "two in each other": (
        "@pytest.mark.parametrize('a', [1, 2])\n@pytest.mark.parametrize('b', [3])\ndef test_it(api, a, b): pass\n",
        {"test_it[3-1]", "test_it[3-2]"},
    ),
    "indirect": (
        "@pytest.fixture\ndef link(request): return request.param\n"
        "@pytest.mark.parametrize('link', ['eth0'], indirect=True)\ndef test_it(api, link): pass\n",
        {"test_it[eth0]"},
    ),
    "of a class": (
        "@pytest.mark.parametrize('a', ['x'], scope='class')\nclass TestIt:\n    def test_it(self, api, a): pass\n",
        {"TestIt::test_it[x]"},
    ),
    "of a module": ("pytestmark = pytest.mark.parametrize('a', ['x'])\ndef test_it(api, a): pass\n", {"test_it[x]"}),
    "made by a hook": (
        "def pytest_generate_tests(metafunc): metafunc.parametrize('a', ['x'])\ndef test_it(api, a): pass\n",
        {"test_it[x]"},
    ),
    "of a check that looks at no phase": (
        "@pytest.fixture(params=['deploy'])\ndef link(request): return request.param\ndef test_it(cell, link): pass\n",
        {"test_it[deploy]"},
    ),
    "none": ("def test_it(api): pass\n", {"test_it"}),
    "a fixture beside parameters": (
        "@pytest.fixture(params=['eth0'])\ndef link(request): return request.param\n"
        "@pytest.mark.parametrize('a', ['x'])\ndef test_it(link, a, api): pass\n",
        {"test_it[eth0-x]"},
    ),
}
NAMES = """
from harness.plugin.items import begins_with_cell, check_name, is_step
def pytest_collection_finish(session):
    for item in session.items:
        if not is_step(item):
            print("NAME", begins_with_cell(item), item.module.__name__.rpartition(".")[2], check_name(item))
"""


def test_a_check_has_one_name_in_every_cell_and_phase(tmp_path: Path, reset_cell: str) -> None:
    names = dict(zip((f"test_{number}" for number in range(len(OWN))), OWN, strict=True))
    for file, what in names.items():
        (tmp_path / f"{file}.py").write_text(f"import pytest\n{OWN[what][0]}")
    (tmp_path / "naming.py").write_text(NAMES)
    words = [
        "-c",
        str(project_dir() / "pyproject.toml"),
        "-p",
        "naming",
        "-p",
        "no:cacheprovider",
        "--collect-only",
        "-q",
    ]
    argv = [sys.executable, "-m", "pytest", str(tmp_path), *words, "--cell", reset_cell]
    done = run_loaded(argv, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    told: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("NAME "):
            _, begins, file, name = line.split(" ")
            assert begins == "True", line
            told.setdefault(names[file], set()).add(name)
    assert told == {what: checks for what, (_, checks) in OWN.items()}, done.stdout + done.stderr


def item(suite: str, cell: Any, phase: int, *, step: str = "") -> Any:
    """Return of an item what tells where it belongs."""
    mark = SimpleNamespace(args=(step,)) if step else None
    return SimpleNamespace(
        callspec=SimpleNamespace(params={"cell": cell, "phase": phase}),
        path=Path("tests", "cells", suite, "test_it.py"),
        config=SimpleNamespace(stash={}),
        get_closest_marker=lambda name: mark if name == "step" else None,
    )


def test_the_suite_that_comes_next_is_of_the_same_cell_and_phase() -> None:
    spec = load_spec(project_dir() / "matrix")
    one, other = (found.cell for found in selected(spec, "embedded", PlanSelection((), tier="lifecycle"))[:2])
    items = [
        *(item(suite, one, 0) for suite in ("nodes", "network", "network", "conformance", "idempotence")),
        item("life", one, 1, step="phase"),
        *(item(suite, one, 1) for suite in ("network", "policies", "conformance")),
        *(item(suite, other, 0) for suite in ("network", "conformance")),
    ]
    assert suite_after(items, "network", one, 0) == "conformance"
    assert suite_after(items, "network", one, 1) == "policies"
    assert suite_after(items, "conformance", one, 1) == ""
    assert suite_after(items, "network", other, 0) == "conformance"
    assert suite_after(items, "network", other, 1) == ""


def test_a_cell_is_deleted_after_a_suite_if_nothing_follows_and_the_run_does_not_keep_it() -> None:
    spec = load_spec(project_dir() / "matrix")
    one, other = (found.cell for found in selected(spec, "embedded", PlanSelection((), tier="lifecycle"))[:2])
    checks = [item(suite, one, 1) for suite in ("network", "conformance", "conformance")]
    end = [item("life", one, 0, step=step) for step in ("teardown", "gone")]
    items = [item("conformance", one, 0), item("life", one, 1, step="phase"), *checks, *end, item("nodes", other, 0)]

    def goes(suite: str, phase: int, keeps: str = "failed", items: list[Any] = items, cell: Any = one) -> bool:
        return deleted_after(items, suite, cell, phase, keeps=keeps)

    assert goes("conformance", 1)
    assert goes("conformance", 1, "never")
    assert not goes("conformance", 1, "always")
    assert not goes("network", 1), "another suite follows"
    assert not goes("conformance", 0), "another phase follows"
    assert not goes("conformance", 0, cell=other), "it is not there"
    assert not goes("conformance", 1, items=[*checks, item("nodes", other, 0)]), "checked again, the cell stays"
    assert not goes("conformance", 1, items=[*checks, item("own", one, 1), *end]), "checks of the project's own follow"


CONFTEST = """
import json
from types import SimpleNamespace
import pytest
from harness.model import Cell, Phase
from harness.plugin.state import CELLS, PLAN
from harness.spec.models.leaves import ProductChecks

CELL = Cell("cell-1", {}, "fresh", (Phase("deploy"),), (), {})
CHECKS = ProductChecks.model_validate_json('''__CHECKS__''')
SEEN = []

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    product = SimpleNamespace(checks=CHECKS)
    project = SimpleNamespace(spec=SimpleNamespace(product_of=lambda values: product))
    config.stash[PLAN] = SimpleNamespace(cells=(CELL,), after=None, suites=lambda: None, project=project)
    config.stash[CELLS] = SimpleNamespace(record_check=lambda cell, check, *_, **__: SEEN.append(check))

def pytest_unconfigure(config):
    rows = [[one.suite, one.name, one.outcome, one.detail, one.event().get("properties", {})] for one in SEEN]
    open("seen.json", "w").write(json.dumps(rows))

@pytest.fixture
def cluster():
    open("looked", "a").close()
"""
CHECKS = """
from harness.validate.findings import Mismatch, unjudged
from harness.validate.findings import require

SAID = {"claim": "all is well", "look": "there", "do": "that"}

def test_whole(cell, cluster):
    require([unjudged("the tunnel", "the plugin is not known", whole=True)], **SAID)

def test_part(cell):
    require([unjudged("the proxy", "it has none")] * 2, **SAID)

def test_wrong(cell):
    require([unjudged("the tunnel", "not known", whole=True), Mismatch("cp-0", "this", "that")], **SAID)
"""
Seen = dict[str, tuple[str, str, dict[str, list[str]]]]


def run(folder: Path, **checks: object) -> Seen:
    """Run the checks of a product; return outcome, detail and properties by `suite: name`."""
    (folder / "nodes").mkdir(exist_ok=True)
    (folder / "conftest.py").write_text(CONFTEST.replace("__CHECKS__", json.dumps(checks)), encoding="utf-8")
    (folder / "nodes" / "test_it.py").write_text(CHECKS, encoding="utf-8")
    run_loaded([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."], cwd=folder)
    rows = json.loads((folder / "seen.json").read_text(encoding="utf-8"))
    return {f"{suite}: {name}": (outcome, detail, properties) for suite, name, outcome, detail, properties in rows}


def test_what_a_check_does_not_judge_is_no_pass_and_no_failure(tmp_path: Path) -> None:
    seen = run(tmp_path)
    assert seen["nodes: test_whole"] == ("not-run", "not judged: the tunnel: the plugin is not known", {})
    assert seen["nodes: test_part"] == ("passed", "", {"not_judged": ["the proxy: it has none"]})
    outcome, detail, _ = seen["nodes: test_wrong"]
    assert outcome == "failed"
    assert "cp-0: expected this; saw that" in detail


SWALLOWS = """
@pytest.hookimpl({form}=True, {order}=True)
def pytest_runtest_call(item):
    {body}
"""
FORMS = {
    "wrapper": "try:\n        yield\n    except Exception:\n        pass",
    "hookwrapper": "outcome = yield\n    outcome.force_result(None)",
}


@pytest.mark.parametrize("order", ["tryfirst", "trylast"])
@pytest.mark.parametrize("form", FORMS)
def test_a_hook_that_says_nothing_of_a_failure_hides_none(tmp_path: Path, form: str, order: str) -> None:
    below = tmp_path / "nodes" / "below"
    below.mkdir(parents=True)
    text = "import pytest\n" + SWALLOWS.format(form=form, order=order, body=FORMS[form])
    (below / "conftest.py").write_text(text, encoding="utf-8")
    (below / "test_below.py").write_text("def test_below(cell):\n    assert 1 == 2\n", encoding="utf-8")
    seen = run(tmp_path)
    assert seen["below: test_below"][0] == "failed", seen
    assert "1 == 2" in seen["below: test_below"][1]


def test_where_all_are_required_it_is_a_failure(tmp_path: Path) -> None:
    seen = run(tmp_path, require_all=True)
    assert [seen[f"nodes: test_{name}"][0] for name in ("whole", "part", "wrong")] == ["failed"] * 3
    assert "the proxy: it has none" in seen["nodes: test_part"][1]


@pytest.mark.parametrize("glob", ["nodes: test_whole", "*: *_who*"])
def test_a_check_that_is_left_out_looks_at_nothing(tmp_path: Path, glob: str) -> None:
    seen = run(tmp_path, leave_out=[{"check": glob, "reason": "it has none"}])
    assert seen["nodes: test_whole"] == ("not-run", "left out: it has none", {})
    assert not (tmp_path / "looked").exists()
    assert seen["nodes: test_part"][0] == "passed"
