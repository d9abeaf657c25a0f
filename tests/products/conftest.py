"""Products of examples/ in cells on the embedded infrastructure: each a copy of its project, on one infra cluster."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
VMATRIX = Path(sys.executable).parent / "vmatrix"
INFRA = "products"
# A conformance spec whose image the mirror does not have; DNS outside of the cluster, which embedded machines lack; the
# pods of specs, where the cell goes with them.
NOT_OFFERED = ("not run: image ", "not run: no name server ", "not run: the cell is deleted next")
# What is not judged of the script and of kubespray, because their product.yml does not say what there should be.
UNDECLARED = frozenset(
    {
        "test_machines_know_each_others_names",
        "test_no_program_runs_with_flags_that_nobody_asked_for",
        "test_no_rules_or_queues_are_in_the_way_of_packets",
        "test_nobody_else_changes_or_refuses_objects",
        "test_only_the_ports_of_the_role_are_open",
        "test_services_have_no_settings_that_nobody_asked_for",
        "test_the_container_runtime_is_configured_as_the_cell_asks",
    }
)
SAYS_NOT = re.compile(r"skipped: not judged: .*: product\.yml (does not say|names no) ")
COMMAND_SECONDS = 7200.0  # against hanging: without a cache the artifacts are built first


@dataclass(frozen=True)
class Outcome:
    """A run that has ended.

    checks: how each step and check ended, by its name: "passed", or what it says of its failure or of why it did not
    run.
    """

    status: int
    output: str
    directory: Path
    checks: Mapping[str, str] = field(default_factory=dict)

    @property
    def not_passed(self) -> dict[str, str]:
        """Return what did not pass, without what the product does not declare."""
        return {name: said for name, said in self.checks.items() if said != "passed" and not SAYS_NOT.match(said)}

    @property
    def undeclared(self) -> set[str]:
        """Return which checks had nothing to judge by, without their suites and phases."""
        names = (name for name, said in self.checks.items() if SAYS_NOT.match(said))
        return {name.partition(": ")[2].partition(" (")[0] for name in names}

    def passed_in(self, suite: str) -> int:
        """Return how many checks of a suite passed."""
        return sum(said == "passed" for name, said in self.checks.items() if name.startswith(f"{suite}:"))


@dataclass(frozen=True)
class Example:
    """A project of examples/, copied to where runs may leave their results.

    environment: variables for vmatrix, in addition to this process's.
    """

    directory: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def vmatrix(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of vmatrix in the project."""
        return subprocess.run(
            [VMATRIX, *words],
            cwd=self.directory,
            env={**os.environ, "COLUMNS": "200", **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )

    def run(self, *words: str) -> Outcome:
        """Run cells of the project: globs of their ids, and options of `vmatrix run`."""
        before = set(self.directory.glob("runs/*/"))
        done = self.vmatrix("run", *words, "--infra-name", INFRA)
        (made,) = {path for path in self.directory.glob("runs/*/") if (path / "results.jsonl").is_file()} - before
        return Outcome(done.returncode, done.stdout + done.stderr, made, _checks(made / "junit.xml"))


def _checks(junit: Path) -> dict[str, str]:
    """Return how each step and check of a JUnit file ended."""
    found = {}
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        trouble = next(
            (case.find(kind) for kind in ("failure", "error", "skipped") if case.find(kind) is not None), None
        )
        suite = (case.get("classname") or "").rpartition(".")[2]
        said = "passed" if trouble is None else f"{trouble.tag}: {trouble.get('message')}"
        found[f"{suite}: {case.get('name')}"] = said
    return found


@pytest.fixture(scope="session")
def infra(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An infra cluster for all products."""
    folder = tmp_path_factory.mktemp("infra")
    (folder / "vmatrix.yml").touch()
    here = Example(folder)
    up = here.vmatrix("infra", "up", "--name", INFRA)
    try:
        assert up.returncode == 0, up.stdout + up.stderr
        yield INFRA
    finally:
        down = here.vmatrix("infra", "down", "--name", INFRA)
        assert down.returncode == 0, down.stdout + down.stderr


def copied(name: str, folder: Path, environment: Mapping[str, str] | None = None) -> Example:
    """Return a copy of a project of examples/."""
    results = shutil.ignore_patterns("runs", "docs")
    shutil.copytree(EXAMPLES / name, folder / name, ignore=results)
    return Example(folder / name, environment or {})
