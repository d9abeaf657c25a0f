"""The table of docs/chaos.md and the tests agree: each row is there, and names exactly the tests that are about it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.embedded.faults import CATALOGUE
from harness.paths import project_dir

ROWS = [f"F{number}" for number in range(1, 31)]
TEXT = (project_dir() / "docs" / "chaos.md").read_text(encoding="utf-8")
CHAOS = project_dir() / "tests" / "chaos"


def table() -> dict[str, list[str]]:
    """Return the table's rows by their number: what fails, how it is injected, what is expected, the tests."""
    lines = (line.strip().strip("|").split(" | ") for line in TEXT.splitlines() if re.match(r"\| F\d+ \|", line))
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines}


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
    assert list(table()) == ROWS
    assert all(len(cells) == 4 and all(cells) for cells in table().values())


@pytest.mark.parametrize("row", ROWS)
def test_the_tests_of_a_row_are_those_that_the_table_names(row: str) -> None:
    named = set(re.findall(r"`(test_\w+\.py::test_\w+)`", table()[row][3]))
    assert named == {test for about, test in marked() if about == row}


@pytest.mark.parametrize("row", ROWS)
def test_a_row_without_a_test_of_its_own_says_why_and_names_what_looks_at_it(row: str) -> None:
    tests = table()[row][3]
    if "test_" in tests and "tests/" not in tests:
        return
    elsewhere = re.findall(r"`(tests/[\w/]+\.py)`", tests)
    assert elsewhere, f"{row} names neither a test nor the file of one"
    assert [path for path in elsewhere if not (project_dir() / path).is_file()] == []
    assert "cannot" in table()[row][1] or "not injected" in table()[row][1]


def test_every_fault_is_described_and_no_other() -> None:
    described = set(re.findall(r"^\| `([a-z-]+)` \|", TEXT, re.MULTILINE))
    assert described == set(CATALOGUE)


def test_every_fault_is_used_by_a_test() -> None:
    text = "\n".join(Path(file).read_text(encoding="utf-8") for file in CHAOS.glob("*.py"))
    unused = [name for name in CATALOGUE if name not in text and name.replace("-", "_") not in text]
    assert unused == []
