"""The house of docs/architecture.md is the one that stands: the index, the folders and the layers."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.unit.pages import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
HARNESS = ROOT / "harness"

# What a newcomer asks: the path to open, and what has to be defined there.
QUESTIONS = {
    "Where is a provider added?": ("harness/providers/registry.py", "named"),
    "Where is an option of `vmatrix run` defined?": ("harness/spec/settings.py", "Settings"),
    "Where are settings merged?": ("harness/spec/settings.py", "load_settings"),
    "Where does the path of a cell's log come from?": ("harness/rundir.py", "AttemptDir"),
    "Where is a machine's manifest rendered?": ("harness/cell/manifests.py", "machine"),
    "Where is it decided which cells run next?": ("harness/schedule/admission.py", "Admission"),
    "Where does a failed check get its blame?": ("harness/session/cells.py", "Cells"),
    "Where are exit codes defined?": ("harness/errors.py", "VmatrixError"),
    "Where does a run get its exit code?": ("harness/session/verdict.py", "exit_code"),
    "Where is KubeVirt's admission?": ("harness/embedded/admission/vm.py", "validate_vm"),
    "Where is the kubeconfig of the infra cluster found?": ("harness/providers/kubeconfig.py", "Kubeconfig"),
    "Where is the number of seconds of a time-out?": ("matrix/timeouts.yml", "golden_stall"),
    "Where is a check that runs on a machine?": ("harness/validate/remote/on_node_facts.py", "main"),
    "Where are conformance specs chosen?": ("harness/validate/conformance/curated.py", "load_curated"),
    "Where is the JUnit file written?": ("harness/report/junit.py", "write"),
    "Where are expired cells found?": ("harness/cell/found.py", "find"),
    "Where is a disk image imported?": ("harness/cell/golden.py", "ensure_golden"),
    "Where is an artifact's checksum verified?": ("harness/artifacts/download.py", "download"),
    "Where is GitLab's child pipeline created?": ("harness/gitlab/child.py", "render"),
    "Where is the covering array created?": ("harness/plan/cover.py", "cover"),
    "Where is the covering array proved?": ("harness/plan/verify.py", "verify"),
    "Where are cells selected by what changed?": ("harness/plan/changed.py", "effects"),
    "Where is a playbook run and its failure explained?": ("harness/cell/deploy.py", "run_playbook"),
    "Where is a leaked cell deleted?": ("harness/cell/teardown.py", "reap"),
    "Where are the permissions that vmatrix needs?": ("harness/infra/cluster/rights.py", "Right"),
}


def section(title: str) -> str:
    """Return the text of a section of the page."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def index(text: str) -> dict[str, tuple[str, str]]:
    """Return the index: question to path and name."""
    rows = re.findall(r"^\| (Where .+?\?) \| `([^`]+)` \| `([^`]+)` \|$", text, re.MULTILINE)
    return {question: (path, name) for question, path, name in rows}


def defined(path: Path) -> set[str]:
    """Return the classes and functions that a module defines, or all keys of a YAML file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".yml":
        return set(keys(yaml.safe_load(text)))
    return {
        node.name
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }


def keys(data: object) -> Iterator[str]:
    """Yield the keys of nested mappings."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield str(key)
            yield from keys(value)


def test_the_index_is_what_a_newcomer_is_promised() -> None:
    assert index(section("Where is ...?")) == QUESTIONS
    assert len(QUESTIONS) >= 20


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_is_asked_for_is_defined_where_the_index_says(question: str) -> None:
    path, name = QUESTIONS[question]
    assert name in defined(ROOT / path)


def test_what_a_module_only_imports_is_not_defined_there(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from b import Settings\n\nclass Other:\n    def inner(self): ...\n")
    assert defined(tmp_path / "a.py") == {"Other"}


def test_the_page_names_every_room_and_no_other() -> None:
    named = set(re.findall(r"^ *- `(harness/[\w/]+)`", section("Folders"), re.MULTILINE))
    named |= set(re.findall(r"`(harness/[\w/]+)`:", section("Folders")))
    rooms = {str(path.parent.relative_to(ROOT)) for path in HARNESS.glob("*/__init__.py")}
    assert rooms <= named
    assert {path for path in named if not (ROOT / path / "__init__.py").is_file()} == set()


def test_the_page_names_every_module_outside_of_the_rooms() -> None:
    named = set(re.findall(r"`harness/(\w+\.py)`", section("Folders")))
    assert named == {path.name for path in HARNESS.glob("*.py")} - {"__init__.py"}


def test_the_layers_are_those_that_are_enforced() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    enforced = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    shown = section("Layers").split("```")[1].strip().splitlines()
    assert shown == [layer.replace("harness.", "") for layer in enforced]
