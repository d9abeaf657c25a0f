"""The controls of the benchmark are decided and shown by checks that exist; waivers name controls that exist."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.spec import load_spec
from harness.spec.controls import Control, controls
from harness.validate.topics.hardening.admission import REACHES
from harness.validate.topics.hardening.benchmark import FLAGS, SETTINGS
from harness.validate.topics.hardening.facts import FILES

CELLS = Path(__file__).parents[2] / "cells"


def checks() -> set[str]:
    """Return all checks by name."""
    found = set()
    for file in CELLS.glob("*/test_*.py"):
        suite = file.parent.name
        module = importlib.import_module(f"tests.cells.{suite}.{file.stem}")
        found |= {f"{suite}: {name}" for name in vars(module) if name.startswith("test_")}
    return found


def test_every_part_of_the_benchmark_is_there() -> None:
    known = controls()
    assert len(known) == 131
    assert {number.partition(".")[0] for number in known} == {"1", "2", "3", "4", "5"}
    assert sum(bool(one.met) for one in known.values()) >= 60


def test_every_check_that_shows_a_control_exists_and_none_of_the_suite_shows_nothing() -> None:
    named = {check for one in controls().values() for check in one.met}
    assert named <= checks()
    assert {check for check in checks() if check.startswith("hardening: ")} <= named


def test_controls_that_judgements_name_are_met_by_checks() -> None:
    named = [row[0] for table in (FILES, FLAGS, SETTINGS) for row in table]
    named += [number for row in REACHES for number in row[0].split()]
    assert [number for number in named if not controls()[number].met] == []


@pytest.mark.parametrize("more", [{}, {"not_met": "a reason", "person": "look"}])
def test_a_control_is_decided_once(more: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="exactly one"):
        Control(id="1.1.1", title="a title", **more)  # type: ignore[arg-type] # it is wrong


def test_waivers_are_read(matrix: Path) -> None:
    file = matrix / "waivers.yml"
    file.write_text('waivers:\n  - {control: "1.2.9", reason: limited elsewhere}\n', encoding="utf-8")
    (waiver,) = load_spec(matrix).waivers
    assert (waiver.control, waiver.reason) == ("1.2.9", "limited elsewhere")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{control: "9.9.9", reason: none}', "waivers.yml:2: waivers[0].control: unknown control of the CIS"),
        ('{control: "1.2.91", reason: none}', "did you mean '1.2.9'"),
        ("{control: 1.2, reason: none}", "waivers[0].control: expected a string"),
        ('{control: "one", reason: none}', 'expected the number of a control, such as "1.2.9"'),
        ('{control: "1.2.9"}', "waivers[0].reason: missing"),
        ('{control: "1.2.9", reason: a}\n  - {control: "1.2.9", reason: b}', "duplicate control '1.2.9'"),
    ],
)
def test_a_wrong_waiver_is_told_by_file_line_and_field(matrix: Path, text: str, words: str) -> None:
    (matrix / "waivers.yml").write_text(f"waivers:\n  - {text}\n", encoding="utf-8")
    with pytest.raises(BadInput) as refused:
        load_spec(matrix)
    assert words in refused.value.summary
    assert refused.value.exit_code == 2
