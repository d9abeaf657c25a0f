"""What of the environment and of the working directory reaches vmatrix's own Python: what its table lets through."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.interpreter import DROPPED, EXECUTABLES, FAMILIES, PASSES, PATH, begin_anew, call, surroundings

ROOT = str(Path(__file__).resolve().parents[2])
PROGRAM = """\
import json, os, sys
from harness.interpreter import begin_anew
begin_anew()
print(json.dumps([dict(os.environ), sys.flags.optimize, sys.path, sys.argv[1:]]))
"""
# Values with which Python itself begins; the others are 1.
VALUES = {
    "PYTHONWARNINGS": "error",
    "PYTHONMALLOC": "malloc",
    "PYTHONINTMAXSTRDIGITS": "640",
    "PYTHONBREAKPOINT": "os.abort",
    "PYTHON_CPU_COUNT": "1",
}
# Of help and manual of CPython 3.11 to 3.14, of pytest 8.3 to 9, pytest-xdist 3 and execnet 2: everything has a line.
KNOWN = [
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSAFEPATH",
    "PYTHONPLATLIBDIR",
    "PYTHONSTARTUP",
    "PYTHONOPTIMIZE",
    "PYTHONBREAKPOINT",
    "PYTHONDEBUG",
    "PYTHONINSPECT",
    "PYTHONUNBUFFERED",
    "PYTHONVERBOSE",
    "PYTHONCASEOK",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPYCACHEPREFIX",
    "PYTHONHASHSEED",
    "PYTHONINTMAXSTRDIGITS",
    "PYTHONIOENCODING",
    "PYTHONNOUSERSITE",
    "PYTHONUSERBASE",
    "PYTHONEXECUTABLE",
    "PYTHONWARNINGS",
    "PYTHONFAULTHANDLER",
    "PYTHONTRACEMALLOC",
    "PYTHONPROFILEIMPORTTIME",
    "PYTHONASYNCIODEBUG",
    "PYTHONMALLOC",
    "PYTHONMALLOCSTATS",
    "PYTHONLEGACYWINDOWSFSENCODING",
    "PYTHONLEGACYWINDOWSSTDIO",
    "PYTHONCOERCECLOCALE",
    "PYTHONDEVMODE",
    "PYTHONUTF8",
    "PYTHONWARNDEFAULTENCODING",
    "PYTHONNODEBUGRANGES",
    "PYTHONPERFSUPPORT",
    "PYTHON_PERF_JIT_SUPPORT",
    "PYTHON_CPU_COUNT",
    "PYTHON_FROZEN_MODULES",
    "PYTHON_COLORS",
    "PYTHON_BASIC_REPL",
    "PYTHON_HISTORY",
    "PYTHON_GIL",
    "PYTHON_JIT",
    "PYTHON_PRESITE",
    "PYTHON_DISABLE_REMOTE_DEBUG",
    "PYTHON_THREAD_INHERIT_CONTEXT",
    "PYTHON_CONTEXT_AWARE_WARNINGS",
    "PYTHON_TLBC",
    "PYTHONDUMPREFS",
    "PYTHONDUMPREFSFILE",
    "PYTHONTHREADDEBUG",
    "__PYVENV_LAUNCHER__",
    "PYTEST_ADDOPTS",
    "PYTEST_PLUGINS",
    "PYTEST_DEBUG",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD",
    "PYTEST_DEBUG_TEMPROOT",
    "PYTEST_THEME",
    "PYTEST_THEME_MODE",
    "PYTEST_VERSION",
    "PYTEST_CURRENT_TEST",
    "PYTEST_XDIST_AUTO_NUM_WORKERS",
    "PYTEST_XDIST_WORKER",
    "PYTEST_XDIST_WORKER_COUNT",
    "PYTEST_XDIST_TESTRUNUID",
    "_PYTEST_RAISE",
    "PY_IGNORE_IMPORTMISMATCH",
    "EXECNET_DEBUG",
    "_ARGCOMPLETE",
]


def begun(environment: dict[str, str], *words: str, cwd: Path, flags: tuple[str, ...] = ()) -> list[object]:
    """Start a program that begins anew; return its environment, flags and path."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(FAMILIES)}
    done = subprocess.run(
        [sys.executable, *flags, "-c", PROGRAM, *words],
        env={**ours, PATH: ROOT, **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        input="",
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout.splitlines()[-1]))


def test_every_variable_is_judged_once() -> None:
    assert {*PASSES, *DROPPED} == set(KNOWN)
    assert not PASSES.keys() & DROPPED.keys()
    assert all(name.startswith(FAMILIES) for name in KNOWN)


def test_every_variable_that_this_python_tells_of_is_judged() -> None:
    said = subprocess.run([sys.executable, "--help-env"], capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"\bPYTHON[A-Z_0-9]+", said))
    assert len(names) > 20
    assert names <= {*PASSES, *DROPPED}


@pytest.mark.parametrize("name", sorted(DROPPED.keys() - {PATH, *EXECUTABLES}))
def test_what_would_change_a_run_does_not_reach_it(name: str, tmp_path: Path) -> None:
    environment, optimize, path, words = begun({name: VALUES.get(name, "1")}, "-x", "a b", cwd=tmp_path)
    assert isinstance(environment, dict)
    assert name not in environment
    assert (optimize, words) == (0, ["-x", "a b"])
    assert "" not in list(path)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", EXECUTABLES)
def test_another_file_in_the_place_of_this_python_is_refused_by_its_variable(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", sys.orig_argv[-1:])
    monkeypatch.setattr(sys, "executable", str(tmp_path))
    monkeypatch.setenv(name, str(tmp_path / "python"))
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(BadInput, match=f"{name} has Python take .* for itself, which is not a program"):
        begin_anew()


@pytest.mark.parametrize("name", sorted(PASSES))
def test_what_is_harmless_stays_as_it_is(name: str) -> None:
    assert surroundings({name: "1"}) == {name: "1"}


def test_a_variable_that_nobody_knows_yet_does_not_reach_a_run() -> None:
    assert surroundings({"PYTHON_NEXT": "1", "PYTEST_NEXT": "1", "OTHER": "1"}) == {"OTHER": "1"}


def test_of_folders_with_modules_the_one_with_vmatrix_is_left(tmp_path: Path) -> None:
    assert surroundings({PATH: f"{tmp_path}{os.pathsep}{ROOT}"}) == {PATH: ROOT}
    assert surroundings({PATH: str(tmp_path)}) == {}


def test_a_call_without_assertions_begins_anew_with_them(tmp_path: Path) -> None:
    assert begun({}, "word", cwd=tmp_path, flags=("-O",))[1] == 0


def test_a_program_that_calls_vmatrix_stays_what_it_is(tmp_path: Path) -> None:
    program = f"import sys\nsys.argv = ['vmatrix']\n{PROGRAM}"
    words = [sys.executable, "-c", program]
    env = {**os.environ, PATH: ROOT, "PYTEST_ADDOPTS": "x"}
    done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)[0]["PYTEST_ADDOPTS"] == "x"


def test_modules_of_the_working_directory_are_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("1 / 0\n")
    done = subprocess.run(call("json.tool"), cwd=tmp_path, input="{}", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "{}\n"), done.stderr


def test_no_other_call_of_a_module_is_begun_without_that() -> None:
    for file in sorted(Path(ROOT, "harness").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        assert not re.findall(r'(?:sys\.executable|python), "-[mc]"', text), f"{file}: use harness.interpreter.call"
