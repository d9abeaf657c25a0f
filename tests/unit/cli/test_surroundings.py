"""A command in odd surroundings: the same answer, or one clear error; never a traceback or a wrong exit code."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.paths import PROJECT
from tests.unit.programs import SECONDS, VMATRIX

LONG = "d" * 150  # longer than the path of a socket may be
# Variables that must not change the answer; None: unset.
VARIABLES: dict[str, dict[str, str | None]] = {
    "zone of this host": {"TZ": ":/etc/localtime"},
    "zone that there is not": {"TZ": "Garbage", "SOURCE_DATE_EPOCH": "abc"},
    "locale C without UTF-8": {"LC_ALL": "C", "LANG": "xx_YY.FOO", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "another encoding": {"PYTHONIOENCODING": "latin-1"},
    "no width": {"COLUMNS": "0", "LINES": "-1"},
    "a width that is not a number": {"COLUMNS": "x"},
    "dumb terminal": {"TERM": "dumb", "NO_COLOR": ""},
    "no home": {"HOME": None, "XDG_CACHE_HOME": None, "XDG_STATE_HOME": None, "USER": None, "LOGNAME": None},
    "home that cannot be written": {"HOME": "/proc/1", "XDG_CACHE_HOME": None, "XDG_STATE_HOME": None},
    "no folder for temporary files": {"TMPDIR": "/no/such/folder"},
    "long folder for temporary files": {"TMPDIR": f"/tmp/{LONG}"},
    "no programs": {"PATH": ""},
}
# What a shell does around the command: before, after; the exit code, and what is said.
SHELLS: dict[str, tuple[str, str, int, str]] = {
    "nobody may read": ("umask 777; ", "", 0, ""),
    "everybody may write": ("umask 000; ", "", 0, ""),
    "few files": ("ulimit -n 20; ", "", 0, ""),
    "a small stack": ("ulimit -s 512; ", "", 0, ""),
    "no input": ("", " <&-", 0, ""),
    "no errors": ("", " 2>&-", 0, ""),
    "no output": ("", " >&-", 2, "error (user): standard output is closed"),
    "a full disk": ("", " >/dev/full", 3, "error (infra): standard output: No space left on device"),
    "full errors": ("", " 2>/dev/full", 0, ""),
    # It has left before the command begins: else the pipe may take everything before the reader leaves.
    "a reader that leaves": ("exec 3> >(true); wait $!; ", " >&3", 141, ""),
}


def called(project: Path, variables: dict[str, str | None], before: str = "", after: str = "") -> tuple[int, str, str]:
    """Call `vmatrix list` and return its exit code and what it printed."""
    (project / "vmatrix.yml").touch()
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("VMATRIX_", "CI_", "PYTHON"))}
    home = {"HOME": str(project), "XDG_CACHE_HOME": str(project / "cache"), "XDG_STATE_HOME": str(project / "state")}
    wanted = {**ours, **home, PROJECT: str(project), **variables}
    done = subprocess.run(
        ["/bin/bash", "-c", f"{before}{VMATRIX} list --tier smoke{after}; exit ${{PIPESTATUS[0]}}"],
        cwd=project,
        env={name: value for name, value in wanted.items() if value is not None},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What it prints in surroundings that are not odd."""
    code, printed, errors = called(tmp_path_factory.mktemp("plain"), {})
    assert (code, errors) == (0, "")
    assert "k1363-" in printed
    return printed


@pytest.mark.parametrize("name", VARIABLES)
def test_variables_change_nothing(tmp_path: Path, plain: str, name: str) -> None:
    assert called(tmp_path, VARIABLES[name]) == (0, plain, "")


@pytest.mark.parametrize("name", SHELLS)
def test_an_end_that_is_not_there_is_one_error(tmp_path: Path, plain: str, name: str) -> None:
    before, after, wanted, says = SHELLS[name]
    code, printed, errors = called(tmp_path, {}, before, after)
    assert code == wanted, errors
    assert printed == (plain if wanted == 0 else "")
    assert errors.startswith(says)
    assert (errors == "") == (says == "")
