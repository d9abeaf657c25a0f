"""docs/chaos.md and the tests agree: each row exists and names exactly the tests that are about it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.embedded.faults import CATALOGUE
from harness.paths import project_dir

ROWS = [f"F{number}" for number in range(1, 31)]
TEXT = (project_dir() / "docs" / "chaos.md").read_text(encoding="utf-8")
CHAOS = project_dir() / "tests" / "chaos"


@dataclass(frozen=True)
class Row:
    """One section about a failure: how tests inject it, what they expect, and what their names are."""

    injected: str
    expected: str
    tests: str


def rows() -> list[tuple[str, Row]]:
    """Return (number, row) of every section `### F1: ...`, in the order of the page."""
    sections = re.split(r"^### (F\d+): .+$", TEXT, flags=re.MULTILINE)[1:]
    return [(number, row(body.split("\n## ")[0])) for number, body in zip(sections[::2], sections[1::2], strict=True)]


def row(body: str) -> Row:
    parts = re.search(r"- Injected by: (.+)\n- Expected: (.+)\n- Tests:\n(.+)", body, re.DOTALL)
    assert parts is not None, f"not a row: {body}"
    return Row(*(part.strip() for part in parts.groups()))


def marked() -> Iterator[tuple[str, str]]:
    """Yield (row, file::test) for every mark of every test."""
    for file in sorted(CHAOS.glob("test_*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for row in marks(node):
                    yield row, f"{file.name}::{node.name}"


def marks(test: ast.FunctionDef) -> Iterator[str]:
    for decorator in test.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) in {"rows", "pytest.mark.row"}:
            yield from (str(argument.value) for argument in decorator.args if isinstance(argument, ast.Constant))


def test_every_row_is_in_the_table_once() -> None:
    assert [number for number, _ in rows()] == ROWS
    assert all(row.injected and row.expected and row.tests for _, row in rows())


def test_what_has_no_list_of_tests_is_not_a_row() -> None:
    with pytest.raises(AssertionError, match="not a row"):
        row("- Injected by: `moves`.\n- Expected: blame is infra.\n")


@pytest.mark.parametrize("number", ROWS)
def test_the_tests_of_a_row_are_those_that_the_table_names(number: str) -> None:
    named = set(re.findall(r"`(test_\w+\.py::test_\w+)`", dict(rows())[number].tests))
    assert named == {test for about, test in marked() if about == number}


@pytest.mark.parametrize("number", ROWS)
def test_a_row_without_a_test_of_its_own_says_why_and_names_what_looks_at_it(number: str) -> None:
    about = dict(rows())[number]
    if "test_" in about.tests and "tests/" not in about.tests:
        return
    elsewhere = re.findall(r"`(tests/[\w/]+\.py)`", about.tests)
    assert elsewhere, f"{number} names neither a test nor the file of one"
    assert [path for path in elsewhere if not (project_dir() / path).is_file()] == []
    assert "cannot" in about.injected or "not injected" in about.injected


def described() -> dict[str, str]:
    """Return what the page says of each fault, by the fault's name."""
    section = TEXT.split("\n## Faults\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^- `([a-z-]+)`: ((?:.+\n)(?:  .+\n)*)", section, re.MULTILINE))


def test_every_fault_is_described_and_no_other() -> None:
    assert set(described()) == set(CATALOGUE)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_parameter_of_a_fault_is_described_and_no_other(name: str) -> None:
    listed = described()[name].partition("Parameters:")[2]
    assert set(re.findall(r"`(\w+)`(?=\s+\(|,|\.)", listed)) == set(CATALOGUE[name].parameters)


def test_every_fault_is_used_by_a_test() -> None:
    text = "\n".join(Path(file).read_text(encoding="utf-8") for file in CHAOS.glob("*.py"))
    unused = [name for name in CATALOGUE if name not in text and name.replace("-", "_") not in text]
    assert unused == []
