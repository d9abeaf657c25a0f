"""What checks do not judge is neither passed nor failed, is written down, and a failure where all are required."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 60.0
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
    config.stash[CELLS] = SimpleNamespace(record_check=lambda cell, outcome: SEEN.append(outcome))

def pytest_unconfigure(config):
    rows = [[one.suite, one.name, one.outcome, one.detail, dict(one.properties)] for one in SEEN]
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
    (folder / "nodes").mkdir()
    (folder / "conftest.py").write_text(CONFTEST.replace("__CHECKS__", json.dumps(checks)), encoding="utf-8")
    (folder / "nodes" / "test_it.py").write_text(CHECKS, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=folder,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    rows = json.loads((folder / "seen.json").read_text(encoding="utf-8"))
    return {f"{suite}: {name}": (outcome, detail, properties) for suite, name, outcome, detail, properties in rows}


def test_what_a_check_does_not_judge_is_no_pass_and_no_failure(tmp_path: Path) -> None:
    seen = run(tmp_path)
    assert seen["nodes: test_whole"] == ("not-run", "not judged: the tunnel: the plugin is not known", {})
    assert seen["nodes: test_part"] == ("passed", "", {"not_judged": ["the proxy: it has none"]})
    outcome, detail, _ = seen["nodes: test_wrong"]
    assert outcome == "failed"
    assert "cp-0: expected this; saw that" in detail


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
