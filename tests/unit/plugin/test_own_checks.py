"""A project's own checks: they are collected beside those that ship, and what is wrong with them is said at once."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness import plugin
from harness.errors import EXIT_BAD_INPUT, EXIT_NOTHING_SELECTED
from harness.events import Recorder
from harness.paths import PROJECT, packaged_dir
from harness.plugin.own_checks import OwnChecks, Uncollected
from harness.plugin.own_hooks import DECIDING
from harness.plugin.state import OWN
from harness.spec.suites import own_suites
from tests.unit.plugin.test_single_process import run
from tests.unit.programs import VMATRIX, run_loaded

SECONDS = 300.0  # against hanging: a call collects a few hundred checks
CLOSED = """\
apiVersion: v1
kind: Config
clusters: [{name: closed, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: nobody, user: {}}]
contexts: [{name: closed, context: {cluster: closed, user: nobody}}]
current-context: closed
"""
TIERS = """\
extends: default
tiers:
  smoke: {suites: [storage, nodes, own]}
  mr: {suites: [own, storage]}
"""
QUARANTINE = """\
quarantine:
  - {{cell: "*", check: "storage: TestClaims::*", issue: "https://example.org/1", reason: known, until: {until}}}
"""
RIGHT = "def test_it(api): pass\n"
PROCESSES = pytest.mark.parametrize(
    "words", [("--tier", "smoke"), ("--tier", "mr", "--parallel", "2")], ids=["one process", "workers"]
)
# What a file can hold, and what has to be said of it: line and text.
WRONG = {
    "test_raises.py": ("import os\n\nos.environ['NO_SUCH_VARIABLE']\n", "3: raises KeyError when it is loaded"),
    "test_syntax.py": ("def test_it(api):\n    assert (\n", "2: syntax error: '(' was never closed"),
    "test_module.py": ("import no_such_module\n", "1: No module named 'no_such_module'; install it, or correct"),
    "test_exits.py": ("import sys\nsys.exit(0)\n", "2: raises SystemExit when it is loaded"),
    "test_fixture.py": (
        "\ndef test_it(gest): pass\n",
        "2: test_it asks for the unknown fixture 'gest'; did you mean 'guest'?",
    ),
    "test_inner.py": (
        "import pytest\n\n@pytest.fixture\ndef mine(nodes): pass\n\ndef test_inner(mine, api): pass\n",
        "3: the fixture mine asks for the unknown fixture 'nodes'; there are api, cell,",
    ),
    "test_empty.py": ("def tset_it(api): pass\n", "1: no test in it"),
    "test_skips.py": ("import pytest\npytest.skip('later', allow_module_level=True)\n", "2: skips itself as a whole"),
    "test_nowhere.py": ("def test_nowhere(tmp_path): pass\n", "1: test_nowhere looks at no cell; ask for a fixture"),
    "test_local.py": (
        "def test_local(host, api): pass\n",
        "1: test_local: testinfra's fixture `host` is not a machine",
    ),
    "test_xfail.py": (
        "import pytest\n@pytest.mark.xfail\ndef test_xfail(api): pass\n",
        "2: test_xfail: `xfail` would hide the failure; list it in matrix/quarantine.yml",
    ),
    "test_mark.py": (
        "import pytest\n@pytest.mark.whne(phase=1)\ndef test_mark(api): pass\n",
        "2: raises Failed when it is loaded: 'whne' not found in `markers`",
    ),
    "test_no_values.py": (
        "import pytest\n@pytest.mark.parametrize('x', [])\ndef test_no_values(api, x): pass\n",
        "2: test_no_values: it is parametrized with no value, and would not be run",
    ),
    "test_skip_text.py": (
        "import pytest\n@pytest.mark.skipif('nope')\ndef test_skip_text(api): pass\n",
        "2: test_skip_text: Error evaluating 'skipif' condition nope NameError: name 'nope' is not defined; correct",
    ),
    "test_skip_why.py": (
        "import pytest\n@pytest.mark.skipif(True)\ndef test_skip_why(api): pass\n",
        "2: test_skip_why: Error evaluating 'skipif': you need to specify reason=STRING",
    ),
    "test_when.py": (
        "import pytest\n@pytest.mark.when('reset')\ndef test_when(api): pass\n",
        "2: test_when: write the mark as `when(phase=CONDITION)`",
    ),
    "test_phase.py": (
        "import pytest\nfrom harness.checks import after\n"
        "@pytest.mark.when(phase=after('rest'))\ndef test_phase(api): pass\n",
        "3: test_phase: the product has no phase 'rest'; it has deploy,",
    ),
    "test_condition.py": (
        "import pytest\n@pytest.mark.when(phase=lambda cell, phase: cell.no)\ndef test_condition(api): pass\n",
        "2: test_condition: the condition of its mark `when` raises AttributeError",
    ),
    "test_coroutine.py": (
        "async def test_later(api): pass\n",
        "1: test_later is a coroutine function, which",
    ),
    "test_awaits.py": (
        "import pytest\n@pytest.fixture\nasync def mine(): return 1\ndef test_awaits(mine, api): pass\n",
        "2: the fixture mine is a coroutine function, which nobody awaits",
    ),
    "test_yields_later.py": (
        "async def test_steps(api):\n    yield 1\n",
        "1: test_steps is a coroutine function, which would not be run",
    ),
    "test_scope.py": (
        "import pytest\n@pytest.fixture(scope='session')\ndef wide(probes): return 1\ndef test_scope(wide): pass\n",
        "2: the fixture wide has scope 'session' and asks for probes, whose scope is 'module'; give both",
    ),
    "test_itself.py": (
        "import pytest\n@pytest.fixture\ndef same(same): return 1\ndef test_itself(same, api): pass\n",
        "2: the fixture same asks for itself; rename one of them",
    ),
    "test_hidden.py": (
        "def test_same_name(api): pass\n\ndef test_same_name(api): assert 0\n",
        "3: test_same_name has the name of the one in line 1, which is never run",
    ),
    "test_class.py": (
        "class TestThings:\n    def __init__(self): pass\n    def test_thing(self, api): pass\n\n"
        "def test_beside(api): pass\n",
        "1: cannot collect test class 'TestThings' because it has a __init__ constructor; pytest leaves it out",
    ),
    "test_unittest.py": (
        "import unittest\nclass TestOld(unittest.TestCase):\n    def test_old(self): pass\n",
        "3: test_old looks at no cell",
    ),
    "test_cell_given.py": (
        "import pytest\n@pytest.mark.parametrize('cell', [1])\ndef test_given(cell): pass\n",
        "1: ",
    ),
    "test_twice_a.py": ("def test_twice(api): pass\n", ""),
    "test_twice_b.py": ("def test_twice(api): pass\n", "1: test_twice_a.py has a check test_twice of suite own, too"),
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose tiers name own suites, with one right check in each."""
    write(
        tmp_path,
        {
            "vmatrix.yml": "",
            "pytest.ini": "[pytest]\naddopts = --no-such-option\n",  # the team's, for other tests
            "conftest.py": "1 / 0\n",
            "closed.yml": CLOSED,
            "matrix/tiers.yml": TIERS,
            "checks/test_nodes.py": "import helper\n\n\n" + RIGHT,
            "checks/helper.py": "",
            "checks/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef mine(guest): return 1\n",
            "checks/storage/test_nodes.py": "class TestClaims:\n    def test_it(self, mine, storage): pass\n",
            "checks/storage/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef storage(hosts): return 1\n",
        },
    )
    return tmp_path


def write(project: Path, files: Mapping[str, str]) -> None:
    """Write files of a project."""
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")


def call(project: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Call vmatrix on a cluster that does not answer; nothing can come of it but an error."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("VMATRIX_", "CI_"))}
    options = {"PROVIDER": "kubeconfig", "KUBECONFIG": str(project / "closed.yml"), "INFRA_PROFILE": "embedded"}
    given = {**options, "MIRROR_HTTP": "http://127.0.0.1:9", "REGISTRY": "127.0.0.1:9", "RUNS": str(project / "runs")}
    env = {**ours, **{f"VMATRIX_{name}": value for name, value in given.items()}, PROJECT: str(project)}
    return run_loaded(words, cwd=project, env=env)


def run_vmatrix(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Call `vmatrix run`."""
    return call(project, VMATRIX, "run", *words)


def pytest_call(project: Path, *words: str) -> list[str]:
    """Return the words of the pytest call that a run makes; it ends there, for want of a check."""
    said = run_vmatrix(project, *words, "-k", "no_such_check")
    assert said.returncode == EXIT_NOTHING_SELECTED, said.stdout + said.stderr
    command = next(line for line in said.stderr.splitlines() if line.startswith("$ pytest "))
    return shlex.split(command.removesuffix(" -k no_such_check"))[2:]


def collected(project: Path, *words: str) -> list[str]:
    """Return the names of the items of a run, in order, without their cell."""
    listed = call(project, sys.executable, "-m", "pytest", *pytest_call(project, *words), "--collect-only", "-q")
    assert listed.returncode == 0, listed.stdout + listed.stderr
    return [re.sub(r"\[.*", "", line) for line in listed.stdout.splitlines() if "::" in line]


def test_own_checks_run_where_the_tier_names_their_suite(project: Path) -> None:
    names = collected(project, "--tier", "smoke")
    checks = [name for name in names if not name.startswith("life/")]
    assert checks[0] == "checks/storage/test_nodes.py::TestClaims::test_it", "not in the tier's order"
    assert checks[-1] == "checks/test_nodes.py::test_it"
    assert all(name.startswith("nodes/test_") for name in checks[1:-1])
    assert len(checks) > 10
    assert names[-1].endswith("::test_gone")


def test_a_suite_that_the_tier_does_not_name_is_not_even_read(project: Path) -> None:
    write(project, {"matrix/tiers.yml": "extends: default\ntiers: {smoke: {suites: [own]}}\n"})
    write(project, {"checks/storage/test_wrong.py": "raise ValueError\n", "checks/storage/conftest.py": "1 / 0\n"})
    checks = [name for name in collected(project, "--tier", "smoke") if not name.startswith("life/")]
    assert checks == ["checks/test_nodes.py::test_it"]


def test_without_a_tier_that_names_them_the_call_is_as_ever(project: Path) -> None:
    write(project, {"matrix/tiers.yml": "extends: default\ntiers: {smoke: {suites: [nodes]}}\n"})
    write(project, {"checks/conftest.py": "1 / 0\n"})
    words = pytest_call(project, "--tier", "smoke")
    checks, settings = str(packaged_dir() / "tests" / "cells"), str(packaged_dir() / "pyproject.toml")
    options = ["-c", settings, "--confcutdir", checks, "-p", "no:cacheprovider"]
    assert words == [checks, *options, "--tier", "smoke"]


@PROCESSES
def test_everything_that_is_wrong_is_said_at_once_and_nothing_is_made(project: Path, words: tuple[str, ...]) -> None:
    write(project, {f"checks/{name}": source for name, (source, _) in WRONG.items()})
    said = run_vmatrix(project, *words)
    assert said.returncode == EXIT_BAD_INPUT, said.stdout + said.stderr
    assert said.stderr.count("error (user): ") == 1
    told = said.stderr.partition("error (user): ")[2]
    wanted = {f"{project / 'checks' / name}:{text}" for name, (_, text) in WRONG.items() if text}
    assert [text for text in wanted if text not in told] == []
    assert told.startswith(f"{len(wanted)} mistakes in {project / 'checks'}:\n")
    assert "hint: docs/own-checks.md" in told
    assert "does not answer" not in said.stdout + said.stderr, "the infra cluster was asked"
    assert "Traceback" not in said.stdout + said.stderr
    assert not (project / "runs").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("list", "--tier", "smoke"),
        ("list",),
        ("plan", "--tier", "smoke"),
        ("explain", "k1363-d13-c2-fl-nf-c1w1-fresh-*"),
    ],
)
def test_commands_that_show_cells_look_at_their_checks_first(project: Path, words: tuple[str, ...]) -> None:
    write(project, {"checks/test_later.py": "async def test_later(api): pass\n"})
    said = call(project, VMATRIX, *words)
    assert said.returncode == EXIT_BAD_INPUT, said.stdout + said.stderr
    assert f"{project / 'checks' / 'test_later.py'}:1: test_later is a coroutine function" in said.stderr
    assert said.stderr.count("error (user): ") == 1
    assert not (project / "runs").exists()


HOOK = "def pytest_collection_modifyitems(items):\n    "


@pytest.mark.parametrize("words", [("list", "--tier", "smoke"), ("run", "--parallel", "1"), ("run", "--parallel", "2")])
def test_a_conftest_that_takes_all_checks_out_is_one_mistake(project: Path, words: tuple[str, ...]) -> None:
    with (project / "checks" / "conftest.py").open("a", encoding="utf-8") as conftest:
        conftest.write(f"\n{HOOK}items.clear()\n")
    said = call(project, VMATRIX, *words)
    assert said.returncode == EXIT_BAD_INPUT, said.stdout + said.stderr
    assert "pytest_collection_modifyitems takes out all 2 checks of this folder; leave one in" in said.stderr
    assert f"{project / 'checks' / 'conftest.py'}:" in said.stderr
    assert not (project / "runs").exists()


DECIDES = "\n\n".join(f"def {name}(): return True" for name in sorted(DECIDING))
MARKS = """\
import pytest
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.skip(reason="slow") if "nodes" in item.nodeid else pytest.mark.xfail(run=False))
"""
WRAPS = """\
import pytest
@pytest.hookimpl({form}=True, tryfirst=True)
def pytest_collection_modifyitems(items):
    done = yield
    items.clear()
    return done
"""
# What a conftest.py of own checks may not do to what was promised, by its text, and what is said of it.
VANISHING: dict[str, tuple[str, list[str]]] = {
    "answers hooks": (DECIDES, [f": the hook {name} decides for vmatrix what is run" for name in DECIDING]),
    "wraps": (WRAPS.format(form="wrapper"), [":2: the hook pytest_collection_modifyitems is a wrapper; write it"]),
    "wraps as before": (
        WRAPS.format(form="hookwrapper").replace("    return done\n", ""),
        [":2: the hook pytest_collection_modifyitems is a wrapper; write it without `yield`"],
    ),
    "ignores": ("collect_ignore = ['test_nodes.py']\n", [":1: collect_ignore would leave files out"]),
    "ignores by a glob": ("collect_ignore_glob = ['*']\n", [":1: collect_ignore_glob would leave files out"]),
    "marks": (MARKS, ["gets a mark xfail from a hook in", "gets a mark skip or skipif or xfail from a hook in"]),
    "replaces": (
        "import pytest\n@pytest.fixture\ndef api(): return 1\n@pytest.fixture\ndef cell(): return 1\n",
        [":2: the fixture api takes the place of vmatrix's", ":4: the fixture cell takes the place of vmatrix's"],
    ),
}


@pytest.mark.parametrize("name", VANISHING)
def test_nothing_that_was_promised_vanishes_by_a_conftest(project: Path, name: str) -> None:
    source, texts = VANISHING[name]
    write(project, {"checks/conftest.py": source, "checks/storage/test_claims.py": "def test_claim(api): pass\n"})
    write(project, {"checks/storage/conftest.py": "import pytest\n@pytest.fixture\ndef storage(hosts): return 1\n"})
    write(project, {"checks/storage/test_nodes.py": "def test_it(storage): pass\n"})
    said = run_vmatrix(project, "--tier", "smoke")
    assert said.returncode == EXIT_BAD_INPUT, said.stdout + said.stderr
    assert [text for text in texts if text not in said.stderr] == [], said.stderr
    assert said.stderr.count("error (user): ") == 1
    assert "does not answer" not in said.stderr, "the infra cluster was asked"


def test_a_conftest_may_add_to_what_there_is(project: Path) -> None:
    source = """\
import pytest
@pytest.fixture
def api(api): return api
def pytest_collection_modifyitems(items):
    items += list(items)
    for item in items:
        if "TestClaims" in item.nodeid:
            item.add_marker(pytest.mark.skip(reason="slow"))
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    yield
@pytest.fixture
def mine(guest): return 1
"""
    write(project, {"checks/conftest.py": source})
    names = collected(project, "--tier", "smoke")
    assert names.count("checks/test_nodes.py::test_it") == 1
    assert "checks/storage/test_nodes.py::TestClaims::test_it" in names


def test_a_process_that_a_check_forks_ends_as_it_wants(project: Path) -> None:
    forks = "import os\nif os.fork() == 0:\n    os._exit(7)\nassert os.waitstatus_to_exitcode(os.wait()[1]) == 7\n"
    write(project, {"checks/helper.py": forks})
    assert "checks/test_nodes.py::test_it" in collected(project, "--tier", "smoke")


def test_a_conftest_takes_out_checks_of_its_folder_alone(project: Path) -> None:
    with (project / "checks" / "conftest.py").open("a", encoding="utf-8") as conftest:
        conftest.write(f"\n{HOOK}items[:] = [item for item in items if 'TestClaims' in item.nodeid]\n")
    names = collected(project, "--tier", "smoke")
    assert "checks/storage/test_nodes.py::TestClaims::test_it" in names
    assert "checks/test_nodes.py::test_it" not in names
    assert len([name for name in names if name.startswith("nodes/test_")]) > 10
    assert names[-1].endswith("::test_gone")


def test_the_examples_of_the_page_are_right(project: Path) -> None:
    page = (packaged_dir() / "docs" / "own-checks.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n# (checks/\S+)\n(.*?)```", page, re.DOTALL)
    assert len(examples) >= 2
    write(project, {f"{name}": source for name, source in examples})
    names = [name for name in collected(project, "--tier", "smoke") if name.startswith("checks/")]
    for name, source in examples:
        for test in re.findall(r"^def (test_\w+)", source, re.MULTILINE):
            assert f"{name}::{test}" in names, "it is not run"
    assert call(project, VMATRIX, "list", "--tier", "smoke").returncode == 0


def without_ended_workers(text: str) -> str:
    """Return an output without what Python says of the file that a worker read from when it was ended."""
    return re.sub(r"Traceback[^\n]*\n(?: [^\n]*\n)+ResourceWarning: unclosed file [^\n]*", "", text)


@pytest.mark.parametrize("name", ["conftest.py", "storage/conftest.py"])
@PROCESSES
def test_a_conftest_that_cannot_be_loaded_is_said_the_same_way(
    project: Path, name: str, words: tuple[str, ...]
) -> None:
    write(project, {f"checks/{name}": "\n\n1 / 0\n"})
    said = run_vmatrix(project, *words)
    assert said.returncode == EXIT_BAD_INPUT, said.stdout + said.stderr
    assert said.stderr.count("error (user): ") == 1
    place = f"{project / 'checks' / name}:3: raises ZeroDivisionError when it is loaded: division by zero"
    assert place in said.stderr
    assert "Traceback" not in without_ended_workers(said.stdout + said.stderr)
    assert not (project / "runs").exists()


def test_a_tier_with_own_checks_is_no_call_of_the_others_alone(project: Path) -> None:
    checks = packaged_dir() / "tests" / "cells"
    said = call(project, sys.executable, "-m", "pytest", str(checks), "-p", "no:cacheprovider", "--tier", "smoke")
    assert said.returncode == EXIT_BAD_INPUT, said.stdout + said.stderr
    assert "tier smoke names own, storage, and this call has no check of that" in said.stdout + said.stderr
    assert f"add {project / 'checks'} to the call" in said.stdout + said.stderr


def test_a_suite_has_one_folder(project: Path) -> None:
    write(project, {"checks/network/test_it.py": RIGHT, "checks/own/test_it.py": RIGHT})
    said = call(project, VMATRIX, "list", "--tier", "smoke")
    assert said.returncode == EXIT_BAD_INPUT
    assert f"{project / 'checks' / 'network'}: vmatrix has a suite 'network', and a name has one folder" in said.stderr
    assert f"{project / 'checks' / 'own'}: 'own' is the suite of the files directly in" in said.stderr


def test_unknown_suites_are_told_which_there_are(project: Path) -> None:
    write(project, {"matrix/tiers.yml": "extends: default\ntiers: {smoke: {suites: [storgae]}}\n"})
    write(project, {"matrix/quarantine.yml": QUARANTINE.format(until=datetime.now(UTC).date())})
    said = call(project, VMATRIX, "list", "--tier", "smoke")
    assert said.returncode == EXIT_BAD_INPUT
    assert "unknown suite (a folder of tests/cells or of checks/) 'storgae'; did you mean 'storage'?" in said.stderr
    assert "quarantine" not in said.stderr


def test_explain_names_the_files_of_own_suites(project: Path) -> None:
    said = call(project, VMATRIX, "explain", "--full", "k1363-d13-c2-fl-nf-c1w1-fresh-*")
    assert re.search(r"own:\n\s+- test_nodes.py\n", said.stdout), said.stderr
    assert re.search(r"storage:\n\s+- test_nodes.py\n", said.stdout)


def test_files_in_folders_below_a_suite_are_of_it(tmp_path: Path) -> None:
    for name in (
        "test_a.py",
        "b_test.py",
        "disks/test_c.py",
        "disks/deep/test_d.py",
        "empty/helper.py",
        ".x/test_e.py",
    ):
        write(tmp_path, {f"checks/{name}": ""})
    found = {suite.name: [file.name for file in suite.files] for suite in own_suites(tmp_path)}
    assert found == {"own": ["b_test.py", "test_a.py"], "disks": ["test_d.py", "test_c.py"]}


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


def test_what_ended_a_worker_of_this_call_is_read_from_the_results(tmp_path: Path) -> None:
    own = OwnChecks(tmp_path, cast(Any, SimpleNamespace(directory=tmp_path)))
    assert own.broken_in_a_worker() is None
    recorder = Recorder(tmp_path)
    recorder.write("run-start", run="r", cells=[])
    recorder.write("own-checks-broken", summary="1 mistake in checks:\nchecks/conftest.py:2: raises ZeroDivisionError")
    broken = own.broken_in_a_worker()
    assert broken is not None
    assert broken.exit_code == EXIT_BAD_INPUT
    assert "checks/conftest.py:2" in broken.summary
    recorder.write("rerun-start", run="r", cells=[])
    assert own.broken_in_a_worker() is None


def test_a_file_that_is_loaded_for_long_is_named() -> None:
    said = SimpleNamespace(silent_seconds=1e9, isatty=lambda: False)
    config = SimpleNamespace(stash=pytest.Stash(), option=SimpleNamespace(collectonly=False))
    streams: Any = SimpleNamespace(said=said)
    assert "collecting the checks" in plugin._under_way(cast("pytest.Config", config), streams, 0.0)
    config.stash[OWN] = cast("OwnChecks", SimpleNamespace(loading=Path("checks/test_hangs.py")))
    assert "loading checks/test_hangs.py" in plugin._under_way(cast("pytest.Config", config), streams, 0.0)


def test_the_file_that_is_loaded_is_known(tmp_path: Path) -> None:
    own = OwnChecks(tmp_path, SimpleNamespace(suites=lambda: None))  # type: ignore[arg-type]
    collector: Any = SimpleNamespace(path=tmp_path / "test_x.py", nodeid="test_x.py")
    collecting = own.pytest_make_collect_report(collector)
    next(collecting)
    assert own.loading == tmp_path / "test_x.py"
    with pytest.raises(StopIteration):
        collecting.send(pytest.CollectReport("test_x.py", "passed", None, []))
    assert own.loading is None
