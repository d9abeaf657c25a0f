"""The pytest plugin: cells as parameters of checks, their life in fixtures, signals, exit codes, reports.

It does nothing unless a tier or a cell is asked for. Run directly: `pytest tests/cells --tier smoke`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.errors import EXIT_BAD_INPUT, NothingSelected, VmatrixError

if TYPE_CHECKING:
    from harness.cell.life import Life
    from harness.model import Cell, GuestCluster, Mirror
    from harness.session import Session
    from harness.spec.models import Timeouts

ORDER = {"provision": 0, "deploy": 1, "teardown": 9}
CHECK_RANK = 5
SESSION: pytest.StashKey[Session] = pytest.StashKey()
SETUP_SECONDS: pytest.StashKey[float] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; each has a setting of the same name in vmatrix.yml where that makes sense."""
    group = parser.getgroup("vmatrix", "vmatrix: cells of the test matrix")
    group.addoption("--tier", help="the tier whose cells are run")
    group.addoption(
        "--cell", action="append", default=[], metavar="GLOB", help="only cells whose id matches; repeatable"
    )
    group.addoption("--provider", help="infra provider: local or kubeconfig")
    group.addoption("--infra-name", help="name of the embedded infrastructure")
    group.addoption("--infra-kubeconfig", dest="kubeconfig", help="kubeconfig of the infra cluster")
    group.addoption("--run-id", help="the run's id (6 lower-case letters or digits); made up without it")
    group.addoption("--runs", help="directory of the runs' results")
    group.addoption("--timeout-scale", type=float, help="factor on every number in matrix/timeouts.yml")
    group.addoption("--keep-on-failure", action="store_true", default=None, help="keep failed cells until they expire")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Let a run of cells show its progress as it happens: nothing is captured."""
    given = early_config.known_args_namespace
    if given.tier or given.cell:
        given.capture = "no"
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Open the session when cells are asked for; refuse bad input before anything is touched."""
    config.addinivalue_line("markers", "step(name): a step of a cell's life: provision, deploy or teardown")
    if not (config.getoption("tier") or config.getoption("cell")) or config.option.help:
        return
    if getattr(config.option, "numprocesses", None):
        pytest.exit("cells run one after the other: leave -n out", returncode=EXIT_BAD_INPUT)
    config.option.verbose = min(config.option.verbose, -1) if config.option.verbose <= 0 else config.option.verbose
    config.option.reportchars = ""
    config.option.tbstyle = "short"
    from harness.session import Session

    names = ("provider", "infra_name", "kubeconfig", "runs", "timeout_scale", "keep_on_failure")
    options = {name: config.getoption(name) for name in names}
    try:
        config.stash[SESSION] = Session.plan(
            tier=config.getoption("tier"),
            patterns=config.getoption("cell"),
            options=options,
            run_id=config.getoption("run_id"),
            command=shlex.join(["pytest", *config.invocation_params.args]),
        )
    except VmatrixError as error:
        pytest.exit(_message(error), returncode=error.exit_code)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one item of each check per cell."""
    if "cell" not in metafunc.fixturenames:
        return
    session = metafunc.config.stash.get(SESSION, None)
    if session is None:
        raise pytest.UsageError("these checks run on cells: say which with --tier TIER or --cell GLOB")
    cells = session.cells_for(metafunc.module.__file__)
    metafunc.parametrize("cell", cells, ids=[c.id for c in cells], scope="session", indirect=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order: cell after cell, and within a cell its steps around its checks."""
    session = config.stash.get(SESSION, None)
    if session is None:
        return
    suites = session.suites()
    if suites is not None:
        left_out = [i for i in items if _cell_of(i) is not None and not _is_step(i) and _suite(i) not in suites]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [i for i in items if i not in set(left_out)]
    position = {cell.id: number for number, cell in enumerate(session.cells)}

    def key(entry: tuple[int, pytest.Item]) -> tuple[int, int, int]:
        number, item = entry
        found = _cell_of(item)
        return position.get(found.id if found else "", len(position)), _rank(item), number

    items[:] = [item for _, item in sorted(enumerate(items), key=key)]


def _is_step(item: pytest.Item) -> bool:
    return item.get_closest_marker("step") is not None


def _rank(item: pytest.Item) -> int:
    mark = item.get_closest_marker("step")
    return ORDER[mark.args[0]] if mark is not None else CHECK_RANK


def _cell_of(item: pytest.Item) -> Cell | None:
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("cell") if callspec is not None else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Say how to clean up before anything exists, then bring the infra up; without it no item is run."""
    opened = session.config.stash.get(SESSION, None)
    if opened is None or session.config.option.collectonly:
        return None
    if session.testsfailed:
        return None  # the checks could not be collected: pytest says why
    if not session.items:
        return _refuse(opened, NothingSelected("no check was selected", hint="`--collect-only` shows what there is"))
    opened.console_from(sys.stdout)
    try:
        opened.start()
    except VmatrixError as error:
        return _refuse(opened, error)
    return None


def _refuse(opened: Session, error: VmatrixError) -> bool:
    opened.abandon(error)
    sys.stderr.write(f"error ({error.blame.value}): {_message(error)}\n")
    return True


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Tear down what is left, write the reports, and say by exit code whose fault it was."""
    opened = session.config.stash.get(SESSION, None)
    if opened is None or session.config.option.collectonly:
        return
    session.exitstatus = opened.finish(int(exitstatus)) if opened.started else opened.exit_code or exitstatus
    if session.config.option.verbose < 2:
        session.config.option.tbstyle = "no"  # the failures are shown with blame and hint instead


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> tuple[str, str, str] | None:
    """Print no dots in a run of cells: its steps and failures are lines of their own."""
    if config.stash.get(SESSION, None) is None or config.option.verbose > 0:
        return None
    if report.when == "call" or report.outcome != "passed":
        return report.outcome, "", ""
    return "", "", ""


def pytest_terminal_summary(config: pytest.Config) -> None:
    """Print the steps, the failures and where the reports are."""
    opened = config.stash.get(SESSION, None)
    if opened is not None and opened.started:
        opened.show()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write each check's outcome down as it happens."""
    report = yield
    session = item.config.stash.get(SESSION, None)
    cell = _cell_of(item)
    if session is None or cell is None or _is_step(item):
        return report
    if report.when == "setup":
        item.stash[SETUP_SECONDS] = report.duration  # what a check's fixtures ask of the cluster is part of the check
    decisive = report.when == "call" or report.outcome != "passed"
    error = call.excinfo.value if call.excinfo is not None else None
    if decisive and not isinstance(error, KeyboardInterrupt):
        outcome = {"passed": "passed", "failed": "failed", "skipped": "not-run"}[report.outcome]
        session.record_check(
            cell,
            _suite(item),
            item.name,
            outcome=outcome,
            seconds=report.duration + (item.stash.get(SETUP_SECONDS, 0.0) if report.when == "call" else 0.0),
            detail=_detail(report),
            error=error,
            asserted=error is None or isinstance(error, AssertionError | pytest.fail.Exception),
            properties=dict(report.user_properties),
        )
    return report


def _detail(report: pytest.TestReport) -> str:
    """Return a failure's text, or the reason why a check did not run."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return report.longreprtext


def _suite(item: pytest.Item) -> str:
    """Return the suite: the folder of tests/cells that the check lies in."""
    return item.path.parent.name


def _message(error: VmatrixError) -> str:
    parts = [error.summary, f"hint: {error.hint}" if error.hint else "", *(str(p) for p in error.paths), error.detail]
    return "\n".join(part for part in parts if part)


@pytest.fixture(scope="session")
def cell(request: pytest.FixtureRequest) -> Cell:
    """The cell of the check."""
    found: Cell = request.param
    return found


@pytest.fixture(scope="session")
def vmatrix_session(request: pytest.FixtureRequest) -> Session:
    """The run."""
    found = request.config.stash.get(SESSION, None)
    if found is None:
        raise pytest.UsageError("these checks run on cells: say which with --tier TIER or --cell GLOB")
    return found


@pytest.fixture(scope="session")
def life(cell: Cell, vmatrix_session: Session) -> Life:
    """The cell's life; its verbs can be called any number of times."""
    return vmatrix_session.life(cell)


@pytest.fixture(scope="session")
def guest(life: Life) -> GuestCluster:
    """The deployed guest cluster. When a step has failed, the step's own item says so and checks are not run."""
    if life.failure is not None:
        pytest.skip(f"not run: {life.failure.summary}")
    return life.deploy()


@pytest.fixture(scope="session")
def mirror(vmatrix_session: Session) -> Mirror:
    """Where guests find binaries and images."""
    return vmatrix_session.site.mirror


@pytest.fixture(scope="session")
def timeouts(vmatrix_session: Session) -> Timeouts:
    """The numbers of matrix/timeouts.yml, scaled, in seconds."""
    return vmatrix_session.site.timeouts


@pytest.fixture(scope="session")
def artifact(vmatrix_session: Session) -> Callable[[str, str], Path]:
    """Return the directory of an artifact's files: artifact("kubectl", "1.36.3")."""
    return vmatrix_session.artifact


@pytest.fixture(scope="session")
def cell_dir(life: Life) -> Path:
    """The cell's directory for logs and results."""
    return life.attempt.directory
