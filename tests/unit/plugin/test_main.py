"""pytest as vmatrix calls it: nothing of the user's surroundings gets in, and it ends with exit codes of vmatrix."""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import execnet
import pytest

from harness.errors import EXIT_BAD_INPUT, EXIT_HARNESS, EXIT_NOTHING_SELECTED
from harness.interpreter import DROPPED, FAMILIES
from harness.paths import PROJECT
from harness.plugin.__main__ import TEMPORARY, PytestCall
from harness.plugin.state import NAMED, ONLY_NAMED, PLUGINS, VERDICT
from harness.plugin.workers import worker
from tests.unit.plugin.test_own_checks import CLOSED, PROCESSES, RIGHT, SECONDS, TIERS, write
from tests.unit.programs import VMATRIX, run_loaded
from tests.unit.test_interpreter import VALUES

BROKEN = "raise SystemExit(1)\n"
MODULES = ("secrets", "types", "typing", "logging", "yaml", "ansible/__init__", "_pytest/__init__", "xdist/__init__")
SETTINGS = {  # wherever pytest looks for settings, up to the root
    "pytest.ini": "[pytest]\naddopts = --no-such-option\n",
    ".pytest.ini": "[pytest]\naddopts = --no-such-option\n",
    "pytest.toml": "[pytest]\naddopts = ['--no-such-option']\n",
    ".pytest.toml": "[pytest]\naddopts = ['--no-such-option']\n",
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = ['--no-such-option']\nrequired_plugins = ['none']\n",
    "tox.ini": "[pytest]\naddopts = --no-such-option\n",
    "setup.cfg": "[tool:pytest]\naddopts = --no-such-option\n",
}
SURROUNDINGS = {
    **SETTINGS,
    **{f"{name}.py": BROKEN for name in (*MODULES, "conftest", "sitecustomize", "usercustomize", "harness/__init__")},
}
PLUGIN = {  # one that is installed beside vmatrix and that nobody asked for
    "other-1.dist-info/entry_points.txt": "[pytest11]\nother = other_plugin\n",
    "other-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: other\nVersion: 1\n",
    "other_plugin.py": BROKEN,
}
PRESENTATION = {"PY_COLORS": "1", "FORCE_COLOR": "1", "COLUMNS": "x", "LINES": "0", "CI": "true", "BUILD_NUMBER": "1"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one own check."""
    write(tmp_path, {"vmatrix.yml": "", "closed.yml": CLOSED, "matrix/tiers.yml": TIERS})
    write(tmp_path, {"checks/test_it.py": RIGHT, "checks/storage/test_it.py": RIGHT})
    return tmp_path


def run(
    project: Path, *words: str, env: Mapping[str, str] | None = None, loaded: bool = True
) -> subprocess.CompletedProcess[str]:
    """Call `vmatrix run` on a cluster that does not answer; `loaded`: begin with what it loads itself."""
    ours = {n: v for n, v in os.environ.items() if not n.startswith(("VMATRIX_", "CI_", *FAMILIES))}
    given = {"PROVIDER": "kubeconfig", "KUBECONFIG": str(project / "closed.yml"), "INFRA_PROFILE": "embedded"}
    given |= {"MIRROR_HTTP": "http://127.0.0.1:9", "REGISTRY": "127.0.0.1:9", "RUNS": str(project / "runs")}
    given["TIMEOUT_SCALE"] = "0.01"  # gives up what does not answer at once
    settings = {f"VMATRIX_{name}": value for name, value in given.items()}
    all_env = {**ours, **settings, PROJECT: str(project), **(env or {})}
    if loaded:
        return run_loaded([VMATRIX, "run", *words], cwd=project, env=all_env)
    return subprocess.run(
        [VMATRIX, "run", *words],
        cwd=project,
        env=all_env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        input="",
    )


def everything(folder: Path) -> dict[str, str]:
    """Return a value for every variable that does not reach a run; modules come first from a folder with a plugin."""
    write(folder, PLUGIN)
    unset = {"__PYVENV_LAUNCHER__"}  # refused
    values = {name: VALUES.get(name, "1") for name in DROPPED if name not in unset}
    return {**values, **PRESENTATION, "PYTHONPATH": str(folder), "PYTEST_ADDOPTS": "--no-such-option"}


@PROCESSES
def test_nothing_of_the_surroundings_gets_into_a_run(
    project: Path, words: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    plain = run(project, *words)
    assert plain.returncode == EXIT_BAD_INPUT, plain.stdout + plain.stderr
    assert "does not answer" in plain.stdout + plain.stderr
    write(project, SURROUNDINGS)
    same = run(project, *words, env=everything(tmp_path_factory.mktemp("modules")), loaded=False)
    assert same.returncode == EXIT_BAD_INPUT, same.stdout + same.stderr
    assert "does not answer" in same.stdout + same.stderr
    assert "usage: " not in same.stdout + same.stderr
    assert "Traceback" not in same.stdout + same.stderr


def test_a_worker_loads_nothing_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {f"{name}.py": BROKEN for name in MODULES})
    monkeypatch.chdir(tmp_path)
    gateway = execnet.makegateway(worker(alone=True))
    try:
        asks = "import os, sys, secrets, yaml\nchannel.send((sys.flags.safe_path, sys.path, dict(os.environ)))"
        safe, path, environment = gateway.remote_exec(asks).receive(SECONDS)
    finally:
        gateway.exit()
    assert safe
    assert not {"", str(tmp_path)} & set(path)
    assert (environment[ONLY_NAMED], environment[NAMED]) == ("1", ",".join(PLUGINS))


def test_nothing_that_was_selected_is_the_words_of_vmatrix_alone(project: Path) -> None:
    said = run(project, "--tier", "smoke", "-k", "no_such_check", env={"PYTEST_ADDOPTS": "--collect-only"})
    assert said.returncode == EXIT_NOTHING_SELECTED
    assert "no check was selected" in said.stderr


# What a conftest.py of own checks can do to pytest, and what has to be said of it; the exit code is that of bad input.
WRONG = {
    "exits": ("import sys\nsys.exit(1)\n", "conftest.py:2: raises SystemExit when it is loaded: 1"),
    "exits well": ("import sys\nsys.exit(0)\n", "conftest.py:2: raises SystemExit when it is loaded: 0"),
    "ends Python": ("import os\nos._exit(0)\n", "conftest.py:2: raises SystemExit when it is loaded: os._exit(0)"),
    "ends Python while it collects": (
        "import os\ndef pytest_collection_modifyitems(items): os._exit(0)\n",
        "conftest.py:2: raises SystemExit when it is loaded: os._exit(0)",
    ),
    "answers for pytest": (
        "def pytest_cmdline_main(config): return 0\n",
        "conftest.py:1: the hook pytest_cmdline_main decides for vmatrix what is run; remove it",
    ),
    "takes out late": (
        "def pytest_collection_finish(session): session.items[:] = [i for i in session.items if 'life' in i.nodeid]\n",
        "conftest.py:1: a hook takes out ",
    ),
    "no such plugin": ("pytest_plugins = ['no_such_plugin']\n", "no_such_plugin"),
    "no such hook": ("def pytest_no_such_hook(): pass\n", "unknown hook 'pytest_no_such_hook'"),
    "an option that is there": (
        "def pytest_addoption(parser): parser.addoption('--tier')\n",
        "conftest.py:1: raises ValueError when it is loaded",
    ),
    "usage": (
        "import pytest\ndef pytest_configure(config): raise pytest.UsageError('no')\n",
        "pytest refuses the call because of the own checks",
    ),
    "at the beginning": ("def pytest_configure(config): 1 / 0\n", "conftest.py:1: raises ZeroDivisionError"),
    "exits at the beginning": (
        "import pytest\ndef pytest_configure(config): pytest.exit('no', 1)\n",
        "pytest.exit",
    ),
    "exits Python at the beginning": (
        "import sys\ndef pytest_configure(config): sys.exit(3)\n",
        "conftest.py:2: raises",
    ),
    "before checks": ("def pytest_sessionstart(session): 1 / 0\n", "conftest.py:1: raises ZeroDivisionError"),
    "while it collects": (
        "def pytest_collection_modifyitems(items): 1 / 0\n",
        "conftest.py:1: raises ZeroDivisionError",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_own_checks_do_to_pytest_is_bad_input(project: Path, name: str) -> None:
    source, words = WRONG[name]
    write(project, {"checks/conftest.py": source})
    said = run(project, "--tier", "smoke")
    assert said.returncode == EXIT_BAD_INPUT, said.stdout + said.stderr
    assert words in said.stderr
    assert said.stderr.count("error (") == 1, said.stderr
    assert not (project / "runs").exists()


class Ends:
    """A plugin by which pytest ends with a status, and a run with a verdict or without."""

    def __init__(self, status: int, verdict: int | None) -> None:
        self.status, self.verdict = status, verdict

    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        """End."""
        if self.verdict is not None:
            config.stash[VERDICT] = self.verdict
        return self.status


@pytest.mark.parametrize(
    ("status", "verdict", "code"),
    [
        *((status, None, EXIT_HARNESS) for status in range(1, 6)),
        *((status, verdict, verdict) for status in (1, 2, 3, 4, 5) for verdict in (0, 1, 2, 3, 4, 5, 70, 75)),
        (0, None, 0),
        (130, None, 130),
    ],
)
def test_a_status_of_pytest_is_no_word_of_a_run(
    status: int, verdict: int | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = PytestCall([])
    config = type("Config", (), {"stash": pytest.Stash()})()

    def main(words: object, plugins: object) -> int:
        call.config = config
        return Ends(status, verdict).pytest_cmdline_main(config)

    monkeypatch.setattr(pytest, "main", main)
    assert call.run() == code


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), 130), (ImportError("no"), EXIT_HARNESS), (SystemExit(1), EXIT_HARNESS)],
    ids=repr,
)
def test_what_ends_pytest_itself_is_no_word_of_a_run(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(words: object, plugins: object) -> int:
        raise error

    monkeypatch.setattr(pytest, "main", main)
    assert PytestCall([]).run() == code


@pytest.mark.parametrize("words", [(), ("-n", "1")], ids=["one process", "a worker"])
def test_temporary_folders_of_other_runs_are_left_alone(tmp_path: Path, words: tuple[str, ...]) -> None:
    others = tmp_path / "tmp" / f"pytest-of-{getpass.getuser()}"
    for number in range(9):  # pytest itself keeps three
        (others / f"pytest-{number}").mkdir(parents=True)
    write(tmp_path, {"test_it.py": "def test_it(tmp_path): print('in', tmp_path)\n"})
    call = [sys.executable, "-P", "-m", "harness.plugin", "-p", "no:cacheprovider", "-rP", *words, "test_it.py"]
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    done = subprocess.run(call, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"in {tmp_path}/tmp/{TEMPORARY}" in done.stdout
    assert sorted(path.name for path in others.iterdir()) == [f"pytest-{number}" for number in range(9)]
    assert list((tmp_path / "tmp").iterdir()) == [others]


def test_pytest_without_assertions_is_refused(tmp_path: Path) -> None:
    words = [sys.executable, "-O", "-P", "-m", "harness.plugin", "--tier", "smoke"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == EXIT_BAD_INPUT
    assert "Python runs without assertions" in done.stderr
