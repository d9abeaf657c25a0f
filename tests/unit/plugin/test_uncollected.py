"""A run of cells whose checks cannot be collected says why, as other mistakes are said."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from harness.plugin.uncollected import Uncollected
from tests.unit.plugin.test_unreached import run

GENERATES = "def pytest_generate_tests(metafunc):\n    raise KeyError('our_variable')\n"
PASSES = "def test_it():\n    pass\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("assert 1 == 2, 'no flux'\n", "AssertionError: no flux"),
        (GENERATES + PASSES, "KeyError: 'our_variable'"),
        ("def broken(:\n", "SyntaxError: invalid syntax"),
    ],
)
def test_the_cause_is_said_once(tmp_path: Path, text: str, cause: str) -> None:
    (tmp_path / "test_broken.py").write_text(text)
    done = run(tmp_path, "", str(tmp_path / "test_broken.py"))
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("cannot be collected: ") == 1
    assert f"cannot be collected: {cause}" in done.stderr
    assert "hint: fix that and try again" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_the_cause_is_said_of_checks_that_are_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    session = SimpleNamespace(config=SimpleNamespace(stash=pytest.Stash()))
    listening = Uncollected()
    listening.pytest_collectreport(pytest.CollectReport("nodes/test_a.py", "failed", "E   ImportError: no b", []))
    listening.pytest_sessionfinish(cast(pytest.Session, session))
    assert "nodes/test_a.py cannot be collected: ImportError: no b" in capsys.readouterr().err
