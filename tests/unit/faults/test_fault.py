"""The faults are data that a machine understands, every check that they name exists, and mistakes are told by line."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.schedule.shards import Shard
from tests.faults.cells import LAYOUTS, offers
from tests.faults.fault import load
from tests.faults.score import A_CELL, of_layout, of_shard
from tests.faults.suites import names
from tests.faults.trial import SHELL

FAULTS = load()
DOCS = Path(__file__).parents[3] / "docs" / "checks.md"
ONE = """faults:
  - id: A01
    what: something
    inject: {w: "true"}
    undo: {w: "true"}
    check: "nodes: test_no_unit_has_failed"
    words: [something]
"""


def test_there_are_enough_and_twelve_are_for_every_change() -> None:
    assert len(FAULTS) >= 150
    assert sum(fault.quick for fault in FAULTS) == 12
    assert {fault.suite for fault in FAULTS} == {"nodes", "cluster", "network", "policies", "hardening"}


def test_every_check_that_a_fault_names_exists() -> None:
    assert {fault.check for fault in FAULTS} <= names()


def test_every_fault_is_tried_in_exactly_one_layout() -> None:
    tried = [fault.id for layout in LAYOUTS for fault in of_layout(FAULTS, layout, list(LAYOUTS))]
    assert Counter(tried) == dict.fromkeys((fault.id for fault in FAULTS), 1)


@pytest.mark.parametrize("count", [1, 2, 5, 400])
def test_shards_of_faults_are_all_faults_once_and_take_about_equally_long(count: int) -> None:
    parts = [of_shard(FAULTS, list(LAYOUTS), Shard(index, count)) for index in range(1, count + 1)]
    assert Counter(fault.id for part in parts for fault in part) == dict.fromkeys((fault.id for fault in FAULTS), 1)
    cells = [sum(bool(of_layout(part, layout, list(LAYOUTS))) for layout in LAYOUTS) for part in parts]
    lasts = [len(part) + A_CELL * made for part, made in zip(parts, cells, strict=True)]
    assert max(lasts) <= sum(lasts) / count + 2 * A_CELL


def test_the_twelve_need_the_smallest_cell_only() -> None:
    assert all(set(fault.needs) <= offers("smoke") for fault in FAULTS if fault.quick)


# One shell starts the parser of each file; a start from here would take much longer.
PARSE = 'for file; do bash -n "$file" || echo "$file"; done'


def test_the_commands_of_each_are_shell(tmp_path: Path) -> None:
    shell = SHELL.read_text(encoding="utf-8")
    (tmp_path / "broken").write_text("if true; then\n", encoding="utf-8")
    for fault in FAULTS:
        text = "\n".join([shell, *fault.inject.values(), *fault.undo.values()])
        (tmp_path / fault.id).write_text(text, encoding="utf-8")
    argv = ["/bin/bash", "-c", PARSE, "parse", "broken", *(fault.id for fault in FAULTS)]
    done = subprocess.run(argv, cwd=tmp_path, text=True, capture_output=True, check=True)
    assert done.stdout == "broken\n", done.stderr
    assert [line for line in done.stderr.splitlines() if not line.startswith("broken:")] == []


def test_every_fault_that_is_missed_is_in_the_documentation() -> None:
    page = DOCS.read_text(encoding="utf-8")
    assert [fault.id for fault in FAULTS if fault.missed and f"| {fault.what} | {fault.missed} |" not in page] == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("what:", "wat:", "wat"),
        ("id: A01", "id: one", "id"),
        ("{w: ", "{nowhere: ", "nowhere"),
        ('"nodes: test_no_unit_has_failed"', "nodes", "check"),
        ("[something]", "[]", "words"),
        ('undo: {w: "true"}', 'undo: {cp: "true"}', "undo names every machine that inject names"),
    ],
)
def test_a_mistake_is_told_by_file_and_line(old: str, new: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "own.yml"
    file.write_text(ONE.replace(old, new), encoding="utf-8")
    with pytest.raises(BadInput) as error:
        load(tmp_path)
    assert f"{file}:" in error.value.summary
    assert words in error.value.summary


def test_two_faults_with_one_id_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(ONE, encoding="utf-8")
    (tmp_path / "b.yml").write_text(ONE, encoding="utf-8")
    with pytest.raises(BadInput, match="A01 is taken"):
        load(tmp_path)
