"""Symptoms: what is looked for where, what takes too long is given up and named, what is never seen is named."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.report import summary
from harness.report.records import records_of
from harness.report.results import load
from harness.report.symptoms import idle, lines_of, look
from harness.spec.models import Symptom
from tests.unit.report.written import Written

CELL, TODAY = "k1363-fresh", date(2026, 11, 29)
FULL = Symptom(name="disk full", pattern="No space left", means="raise disk_gib", blame="infra")


def failed(run: Written, **logs: str) -> Path:
    """Write down a cell that failed, with its logs by file name."""
    run.start(CELL).fails(CELL, "deploy", blame="product", summary="task [copy]: No space left on device").end(1)
    folder = run.directory / CELL / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in logs.items():
        (folder / f"{name.replace('_', '-')}.log").write_text(text, encoding="utf-8")
    return folder


def test_a_symptom_is_looked_for_where_it_says(run: Written) -> None:
    line = "x: No space left on device\n"
    failed(run, deploy=line * 3, cp_0_console=f"boot\n{line * 2}")
    places = {"messages": (1, ""), "consoles": (2, "cp-0-console.log"), "logs": (3, "deploy.log")}
    symptoms = [FULL.model_copy(update={"name": f"full, in {place}", "where": (place,)}) for place in places]
    sightings, given_up = look(load(run.directory), symptoms, TODAY)
    counted = {sighting.name: (sighting.count, Path(sighting.file).name) for sighting in sightings}
    assert counted == {f"full, in {place}": expected for place, expected in places.items()}
    assert ({sighting.cell for sighting in sightings}, given_up) == ({CELL}, [])
    shown = "\n".join(lines_of(sightings))
    for place, (count, _) in places.items():
        assert f"full, in {place}: raise disk_gib; blame infra (1 cell, {count} line" in shown


def test_what_was_seen_stands_in_summary_and_record(run: Written) -> None:
    failed(run)
    seen, _ = look(load(run.directory), [FULL], TODAY)
    run.event("symptoms", sightings=[vars(one) for one in seen], given_up=["symptom 'x' took more than 2 s"])
    text = summary.render(load(run.directory))
    assert "## Symptoms\n\n- disk full: raise disk_gib; blame infra (1 cell, 1 line; k1363-fresh: " in text
    assert "- symptom 'x' took more than 2 s" in text
    (record,) = records_of(run.directory)
    assert record.symptoms == {"disk full": "task [copy]: No space left on device"}


def test_a_pattern_that_takes_too_long_is_given_up_and_others_are_not(run: Written) -> None:
    failed(run, deploy=f"{'a' * 60}!\nNo space left on device\n")
    slow = Symptom(name="slow", pattern="^(a+)+$", where=("logs",), means="x")
    seen, given_up = look(load(run.directory), [slow, FULL], TODAY, seconds=0.05)
    assert [one.name for one in seen] == ["disk full"]
    (said,) = given_up
    assert said.startswith("symptom 'slow' took more than 0.05 s on ")
    assert said.endswith("deploy.log: simplify its pattern")


def test_what_was_seen_before_the_time_was_over_is_kept(run: Written) -> None:
    failed(run, deploy=f"{'a' * 60}!\n", later="No space left on device\n")
    slow = Symptom(name="slow", pattern="^(a+)+$", where=("logs",), means="x")
    seen, given_up = look(load(run.directory), [FULL, slow], TODAY, seconds=0.05, whole=0.05)
    assert [(one.name, one.count) for one in seen] == [("disk full", 1)]  # of the messages
    assert given_up[1:] == ["symptoms were not looked for in 1 file of 3: 0.05 s were over"]


def test_a_symptom_is_looked_for_until_its_last_day(run: Written) -> None:
    failed(run)
    days = {"yesterday": date(2026, 11, 28), "today": TODAY, "always": None}
    symptoms = [FULL.model_copy(update={"name": name, "until": until}) for name, until in days.items()]
    sightings, _ = look(load(run.directory), symptoms, TODAY)
    assert [sighting.name for sighting in sightings] == ["today", "always"]


def test_nothing_is_looked_for_after_the_last_day_of_all(run: Written) -> None:
    failed(run)
    assert look(load(run.directory), [FULL.model_copy(update={"until": date(2026, 11, 28)})], TODAY) == ([], [])


def test_cells_that_passed_have_no_symptoms(run: Written) -> None:
    run.start(CELL).passes(CELL).end(0)
    assert look(load(run.directory), [FULL], TODAY) == ([], [])


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "is not a regular expression: missing"),
        ("[[:alpha:]]x", "is not a regular expression: Possible nested set"),
        ("a**", "is not a regular expression: multiple repeat"),
        ("x*", "fits the empty line"),
        ("", "fits the empty line"),
        (".", "fits any word"),
        (".{5}", "fits any word"),
        (r"\S+$", "fits any word"),
        (r"\d", "fits any number"),
        ("(?P<a>x)(?P<a>y)", "is not a regular expression: redefinition"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why.replace("(", r"\(")):
        Symptom(name="a", pattern=pattern, means="b")


@pytest.mark.parametrize(
    ("nights", "names"),
    [
        ([frozenset[str]()] * 59, []),
        ([frozenset[str]()] * 60, ["disk full"]),
        ([frozenset({"disk full"}), *[frozenset[str]()] * 59], []),
        ([frozenset({"disk full"}), *[frozenset[str]()] * 60], ["disk full"]),
    ],
)
def test_what_no_night_of_sixty_had_is_named(nights: list[frozenset[str]], names: list[str]) -> None:
    assert idle([FULL], nights) == names
