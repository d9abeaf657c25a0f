"""Paths of projects that own checks can be run in; which cells of a run failed, and when that is not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.paths import packaged_dir
from harness.rundir import RESULTS
from harness.session.selection import failures, words_of_own
from harness.spec import Spec, load_spec
from tests.unit.report.written import Written

NAMES = (
    "with space",
    "quote'\"",
    "percent%s",
    "{{ jinja }}",
    "$",
    "a$",
    "cost $5",
    "$NO_SUCH_VARIABLE",
    "new\nline",
    "ü☃",
    "-x",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_path_is_passed_on_as_it_is(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    checks = tmp_path / name / "checks"
    checks.mkdir(parents=True)
    (checks / "test_it.py").write_text("")
    assert str(tmp_path / name) in words_of_own(tmp_path / name, None)


@pytest.mark.parametrize("name", ["$HOME", "a ${HOME} b"])
def test_a_path_that_pytest_would_change_is_refused(tmp_path: Path, name: str) -> None:
    checks = tmp_path / name / "checks"
    checks.mkdir(parents=True)
    (checks / "test_it.py").write_text("")
    with pytest.raises(BadInput, match="has a variable in it, and pytest") as refused:
        words_of_own(tmp_path / name, None)
    assert "rename that folder" in refused.value.hint
    assert words_of_own(tmp_path / name, ("nodes",)) == []


@pytest.fixture(scope="module")
def spec() -> Spec:
    return load_spec(packaged_dir() / "matrix")


START = '{"time": "2026-11-23T10:00:00Z", "event": "run-start", "run": "r00001"'
UNKNOWN = {  # what is in the results: what is said of it
    "": ("no cell has results", "does not say which cells"),
    "\x00\xff rubbish\n": ("no cell has results", "no run wrote line 1 of it"),
    f'{START}, "cells": []}}\n': ("no cell has results", "does not say which cells"),
    f'{START}, "cells": [5]}}\n': ("no cell has results", "no run wrote line 1 of it"),
    f'{START}, "cells": []}}\n{{"time": "2026-11-23T10:00:00Z", "event": "run-error", "summary": "no room"}}\n': (
        "no cell has results",
        "no room",
    ),
}


@pytest.mark.parametrize(("text", "said"), UNKNOWN.items(), ids=range(len(UNKNOWN)))
def test_a_run_of_which_nothing_is_known_has_not_passed(
    tmp_path: Path, spec: Spec, text: str, said: tuple[str, ...]
) -> None:
    (tmp_path / "r00001").mkdir()
    (tmp_path / "r00001" / RESULTS).write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match="does not say whether every cell of run r00001 passed") as refused:
        failures(spec, tmp_path, "r00001")
    assert refused.value.exit_code == 2
    assert all(words in refused.value.summary for words in said)
    assert "vmatrix list" in refused.value.hint


def test_a_run_of_which_a_line_is_lost_has_only_passed_as_far_as_it_is_known(tmp_path: Path, spec: Spec) -> None:
    folder = tmp_path / "r00001"
    folder.mkdir()
    run = Written(folder).start("k1363-a", "k1363-b").passes("k1363-a").passes("k1363-b").end(0)
    assert failures(spec, tmp_path, "r00001").cells == ()
    run.event("check", cell="k1363-a", name="test_a")
    with pytest.raises(BadInput, match=r"all 2 cells with results passed; no run wrote line 21 of it"):
        failures(spec, tmp_path, "r00001")


def test_a_run_that_ended_before_its_cells_has_failed_in_all_of_them(tmp_path: Path, spec: Spec) -> None:
    (tmp_path / "r00001").mkdir()
    Written(tmp_path / "r00001").start("k1363-a", "k1363-b")
    assert failures(spec, tmp_path, "r00001").cells == ("k1363-a", "k1363-b")
