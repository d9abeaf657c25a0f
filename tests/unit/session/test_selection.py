"""Paths of projects that own checks can be run in, whatever is in their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.session.selection import words_of_own

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
