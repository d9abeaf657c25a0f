"""A project's own checks in a real run: those of the page, and others that go wrong in every way there is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
import yaml

from harness.errors import EXIT_BAD_INPUT
from harness.model import Cell
from harness.paths import PROJECT
from tests.embedded.run.conftest import Nothing, Start
from tests.unit.pages import ROOT

PAGE = (ROOT / "docs" / "own-checks.md").read_text(encoding="utf-8")
RUN_SECONDS = 900.0  # two small clusters side by side, on a host that may be busy
BUSY = "the host was too busy"
DIALS = """\
import names
import pytest
from harness.checks import Cell, Mirror, Probes, after


def test_pods_reach_pods(probes: Probes) -> None:
    for node, pod in probes.dialled.items():
        assert probes.dial(node, pod.address, 8080, "hostname").responses == (pod.name,)


class TestMirror:
    def test_known(self, mirror: Mirror, cell: Cell) -> None:
        assert mirror.http.startswith(names.SCHEME)
        pytest.fail("known to fail")

    def test_raises(self, mirror: Mirror, cell: Cell) -> None:
        {}["no such key"]

    def test_skips(self, guest) -> None:
        pytest.skip("nothing to see")


@pytest.mark.when(phase=after("reset"))
def test_after_a_reset(cell, phase) -> None:
    raise AssertionError
"""


def examples() -> dict[str, str]:
    """Return the files of the page: those of its Python blocks that name one."""
    blocks = re.findall(r"```python\n# (checks/\S+)\n(.*?)```", PAGE, re.DOTALL)
    return dict(blocks)


@pytest.fixture
def project(tmp_path: Path, pair: tuple[Cell, Cell]) -> Path:
    """A project with the page's checks in the suite `own`, and others in the suite `dials`."""
    (tmp_path / "project").mkdir()
    known = {"cell": "*", "check": "dials: *known", "issue": "https://example.org/1", "reason": "x"}
    write(
        tmp_path / "project",
        {
            "vmatrix.yml": "",
            **examples(),
            "checks/names.py": "SCHEME = 'http'\n",
            "checks/dials/test_network.py": DIALS,
            "matrix/tiers.yml": yaml.safe_dump(
                {
                    "extends": "default",
                    "tiers": {
                        "smoke": {
                            "pinned": [dict(cell.values) for cell in pair],
                            "suites": ["dials", "own"],
                            "budget": {"cells": 2},
                        }
                    },
                }
            ),
            "matrix/quarantine.yml": yaml.safe_dump({"quarantine": [{**known, "until": soon()}]}),
        },
    )
    return tmp_path / "project"


def soon() -> object:
    """Return today."""
    from datetime import UTC, datetime

    return datetime.now(UTC).date()


def write(project: Path, files: Mapping[str, str]) -> None:
    """Write files of a project."""
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")


def test_own_checks_run_beside_ours_in_every_cell(
    start: Start, nothing_left: Nothing, project: Path, pair: tuple[Cell, Cell]
) -> None:
    assert set(examples()) == {"checks/test_kernel.py", "checks/test_shipper.py"}
    run = start("--parallel", "2", selection=("--tier", "smoke"), env={PROJECT: str(project)})
    ended = run.end(seconds=RUN_SECONDS)
    assert ended.code == EXIT_BAD_INPUT, ended.stdout + ended.stderr
    unused = "its condition `when` holds after no phase of these cells"
    assert f"not run: dials: test_after_a_reset: {unused}" in ended.stdout
    wanted = {
        ("dials", "test_pods_reach_pods"): ("passed", ""),
        ("dials", "TestMirror::test_known"): ("failed", "product"),
        ("dials", "TestMirror::test_raises"): ("failed", "user"),
        ("dials", "TestMirror::test_skips"): ("not-run", ""),
        ("own", "test_every_machine_is_a_node"): ("passed", ""),
        ("own", "test_every_node_forwards_packets"): ("passed", ""),
        ("own", "test_the_kubelet_runs_and_is_enabled"): ("passed", ""),
        ("own", "test_the_shipper_runs_on_every_node"): ("passed", ""),
    }
    events = [event for event in run.events() if event["event"] == "check"]
    for cell in pair:
        outcomes = {(e["suite"], e["name"]): (e["outcome"], blame(e)) for e in events if e["cell"] == cell.id}
        assert outcomes == wanted
    assert all(event["seconds"] > 0 for event in events if event["outcome"] == "passed")
    junit = Xml.parse(run.results / "junit.xml")
    cases = [(case.get("classname"), case.get("name")) for case in junit.iter("testcase")]
    assert (f"{pair[0].id}.own", "test_the_shipper_runs_on_every_node") in cases
    summary = (run.results / "summary.md").read_text(encoding="utf-8")
    assert "dials: TestMirror::test_raises" in summary
    assert "https://example.org/1" in summary
    nothing_left(run)


def blame(check: Mapping[str, str]) -> str:
    """Return whom a check blames; on a busy host, nobody can judge the product, which this one would."""
    return "product" if BUSY in check.get("infra", "") else check.get("blame", "")


HOOKS = {
    "pytest_runtest_logstart": "nodeid, location",
    "pytest_runtest_setup": "item",
    "pytest_runtest_call": "item",
    "pytest_runtest_teardown": "item, nextitem",
    "pytest_runtest_makereport": "item, call",
    "pytest_runtest_logfinish": "nodeid, location",
}


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_of_theirs_that_fails_in_a_worker_is_the_users(
    start: Start, nothing_left: Nothing, project: Path, hook: str
) -> None:
    write(project, {"checks/conftest.py": f"def {hook}({HOOKS[hook]}):\n    1 / 0\n"})
    run = start("--parallel", "2", selection=("--tier", "smoke"), env={PROJECT: str(project)})
    ended = run.end(seconds=RUN_SECONDS)
    assert ended.code == EXIT_BAD_INPUT, ended.stdout + ended.stderr
    said = ended.stdout + ended.stderr  # of a check, its failure; of what is around all of them, an error of the run
    assert f"checks/conftest.py:2: in {hook}" in said or "checks/conftest.py:2: raises ZeroDivisionError" in said, said
    assert "ZeroDivisionError" in said
    nothing_left(run)
