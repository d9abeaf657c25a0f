"""What cells took: written by many at once, read whatever stands there, and what is expected of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.schedule import history
from harness.schedule.estimate import estimate
from harness.schedule.history import History
from tests.unit.schedule.matrix import cell

SMOKE = cell("smoke", 2048, 1536)
SIBLING = cell("sibling", 2048, 1536)
STRANGER = cell("stranger", 2048, topology="all-in-one", scenario="upgrade")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "history.jsonl"


def wrote(file: Path, *seconds: float, outcome: str = "passed", provider: str = "local") -> History:
    known = History.load(provider, file)
    for value in seconds:
        known.append(SMOKE, seconds=value, outcome=outcome, parallel=1)
    return History.load("local", file)


def test_nothing_known_is_the_estimate(file: Path) -> None:
    expected = History.load("local", file).expected(SMOKE)
    assert expected.seconds == estimate(SMOKE)
    assert expected.source == "estimated from its machines and phases"


def test_a_cells_own_last_runs_count_first(file: Path) -> None:
    known = wrote(file, 1000, 1000, 90, 110, 100, 95, 105)
    assert known.expected(SMOKE).seconds == 100
    assert known.expected(SMOKE).source == "the median of 5 runs of this cell"


def test_cells_of_the_same_topology_and_scenario_come_second(file: Path) -> None:
    expected = wrote(file, 90, 120, 100).expected(SIBLING)
    assert expected.seconds == 100
    assert expected.source == "the median of 3 runs of cp1-w1 fresh"


def test_an_estimate_is_stretched_as_the_infra_stretches_others(file: Path) -> None:
    expected = wrote(file, 2 * estimate(SMOKE)).expected(STRANGER)
    assert expected.seconds == pytest.approx(2 * estimate(STRANGER), rel=0.01)
    assert "times 2.00" in expected.source


def test_failed_runs_and_other_providers_say_nothing(file: Path) -> None:
    wrote(file, 5, outcome="failed")
    assert wrote(file, 7, provider="kubeconfig").expected(SMOKE).seconds == estimate(SMOKE)


@pytest.mark.parametrize(
    "rubbish",
    ["{", "[]", "7", "null", '{"cell": 1}', "\x00\xff", '{"cell": "smoke", "seco', json.dumps({"seconds": 1, "x": 2})],
)
def test_what_is_no_line_of_it_is_left_out(file: Path, rubbish: str) -> None:
    wrote(file, 100)
    with file.open("a", encoding="utf-8") as open_:
        open_.write(rubbish)  # a writer was killed: no line feed
    assert wrote(file, 110).expected(SMOKE).seconds == 105


@pytest.mark.parametrize("seconds", ["nan", "Infinity", "-1", "0", '"9"', "true", "null"])
def test_a_duration_that_is_none_is_left_out(file: Path, seconds: str) -> None:
    known = wrote(file, 100)
    line = json.dumps({**vars(known.runs[0]), "seconds": "?"}).replace('"?"', seconds.replace("nan", "NaN"))
    file.write_text(file.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    assert len(History.load("local", file).runs) == 1


def test_of_a_long_file_only_the_end_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrote(file, *range(100, 200))
    monkeypatch.setattr(history, "MOST_BYTES", 2000)
    runs = History.load("local", file).runs
    assert 0 < len(runs) < 20
    assert runs[-1].seconds == 199


def test_writers_at_once_lose_nothing(file: Path) -> None:
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            known = History.load("local", file)
            for value in range(1, 51):
                known.append(SMOKE, seconds=value, outcome="passed", parallel=4)
            os._exit(0)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    assert len(History.load("local", file).runs) == 200


def test_a_directory_in_its_place_is_an_empty_history(tmp_path: Path) -> None:
    assert History.load("local", tmp_path).runs == ()


def test_what_was_written_under_a_former_name_of_the_provider_counts(tmp_path: Path) -> None:
    wrote(tmp_path / "history.jsonl", 321.0, provider="local")
    assert History.load("embedded", tmp_path / "history.jsonl").expected(SMOKE).seconds == 321.0
