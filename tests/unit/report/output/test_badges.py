"""The score of faults is on the page, in the note, in report.json and in badges; a foreign file is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.history.lines import History
from harness.report.output.badges import BAD, FAIR, GOOD, UNKNOWN, FaultScore, SuiteScore, badge, read
from harness.report.output.files import Sources, files
from tests.unit.history import synthetic

SCORE = FaultScore("2026-11-23", 220, (SuiteScore("nodes", 100, 99, 98), SuiteScore("all", 200, 199, 195)))


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "faults.json").write_text(text, encoding="utf-8")
    return tmp_path / "faults.json"


def test_it_is_read_from_the_file(tmp_path: Path) -> None:
    suites = {"nodes": {"faults": 100, "detected": 99, "explained": 98}}
    said = {"on": "2026-11-23", "listed": 220, "suites": suites, "faults": {}}
    assert read(written(tmp_path, json.dumps(said))) == FaultScore("2026-11-23", 220, SCORE.suites[:1])


def part(on: str, faults: dict[str, tuple[str, str]]) -> str:
    """Return the score of a part, as tests/faults writes it, with the suites that nobody adds up."""
    each = {name: {"suite": suite, "became": became} for name, (suite, became) in faults.items()}
    return json.dumps({"on": on, "listed": 9, "suites": {}, "faults": each})


def test_the_score_of_parts_is_that_of_all_their_faults_and_the_last_trial_of_each(tmp_path: Path) -> None:
    for name in ("1-of-2", "2-of-2"):
        (tmp_path / name).mkdir()
    later = {"A1": ("nodes", "explained"), "C1": ("cluster", "detected"), "C2": ("cluster", "missed")}
    written(tmp_path / "1-of-2", part("2026-11-24", later))
    written(tmp_path / "2-of-2", part("2026-11-23", {"A1": ("nodes", "missed"), "A2": ("nodes", "explained")}))
    scores = (SuiteScore("cluster", 2, 1, 0), SuiteScore("nodes", 2, 2, 2), SuiteScore("all", 4, 3, 2))
    assert read(tmp_path) == FaultScore("2026-11-24", 9, scores)


def test_a_folder_without_a_score_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"has no faults\.json in it"):
        read(tmp_path)


OTHERS = (
    "",
    "[]",
    "{}",
    '{"on": "", "listed": 1, "suites": {"nodes": {}}}',
    '{"on": "yesterday", "listed": 1, "suites": {}, "faults": {}}',
    '{"on": "", "listed": 1, "suites": {"../x": {"faults": 1, "detected": 1, "explained": 1}}, "faults": {}}',
    '{"on": "", "listed": 1, "suites": {}, "faults": {"a": {"suite": "a|b", "became": "missed"}}}',
)


@pytest.mark.parametrize("text", OTHERS)
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadInput, match=r"faults\.json is not a score of faults"):
        read(path)


@pytest.mark.parametrize(
    ("score", "value", "colour"),
    [
        (SuiteScore("all", 0, 0, 0), "none tried", UNKNOWN),
        (SuiteScore("all", 200, 200, 0), "200 of 200", GOOD),
        (SuiteScore("all", 200, 194, 0), "194 of 200", FAIR),
        (SuiteScore("all", 200, 193, 0), "193 of 200", BAD),
    ],
)
def test_badges(score: SuiteScore, value: str, colour: str) -> None:
    assert (badge(score).value, badge(score).colour) == (value, colour)


def test_a_share_is_never_rounded_up_to_all() -> None:
    assert SuiteScore("all", 2000, 1999, 2000).share("detected") == "99.9 %"
    assert SuiteScore("all", 2000, 1999, 2000).share("explained") == "100 %"


def test_it_is_in_every_format_of_the_report() -> None:
    found = files(Sources(synthetic.analysis(10, 4, 1), History(), faults=SCORE)).contents
    assert json.loads(found["report.json"])["faults"]["suites"][1]["shares"] == {
        "detected": "99.5 %",
        "explained": "97.5 %",
    }
    assert "| all | 200 | 199 (99.5 %) | 195 (97.5 %) |" in found["summary.md"].decode()
    assert "200 of 220 tried, the last on 2026-11-23" in found["summary.md"].decode()
    assert {"badge-faults.svg", "badge-faults-nodes.svg"} <= found.keys()
    page = found["index.html"].decode()
    assert page.count('<th scope="row">nodes</th><td>100</td><td>99 (99 %)</td><td>98 (98 %)</td>') == 2
    assert "200 of 220 ways to break a cluster tried, the last on 2026-11-23" in page


def test_without_one_nothing_is_said_of_it() -> None:
    found = files(Sources(synthetic.analysis(10, 4, 1), History())).contents
    assert json.loads(found["report.json"])["faults"] is None
    assert "ways to break" not in found["index.html"].decode()
    assert not [name for name in found if "faults" in name]
