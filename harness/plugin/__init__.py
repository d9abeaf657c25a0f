"""The pytest plugin: cells as parameters of checks, their life in fixtures, workers, signals, exit codes, reports.

It does nothing unless cells are selected. Run directly: `pytest tests/cells --tier smoke -n auto`. The only
package that knows pytest's and pytest-xdist's hooks; what it calls knows neither.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from functools import partial

import pytest

from harness.errors import VmatrixError
from harness.plugin import items, state
from harness.plugin.fixtures import (
    api,
    artifact,
    cell,
    cell_dir,
    cells,
    expected,
    facts,
    guest,
    hosts,
    inspection,
    inspection_without_api,
    inventory,
    life,
    mirror,
    monitor,
    phase,
    probes,
    timeouts,
    view,
    waivers,
)
from harness.plugin.items import arrange, check_result, is_step, note_setup, parametrize
from harness.plugin.own_checks import Uncollected, own_checks_of, refuse_conftest, refuse_hooks
from harness.plugin.own_hooks import folder_in, make_importable
from harness.plugin.own_process import Ended, Late, OwnProcess
from harness.plugin.state import (
    CELLS,
    EXISTING,
    OWN,
    OWN_PROCESS,
    PLAN,
    RUN,
    VERDICT,
    add_options,
    message,
    on_worker,
)
from harness.report.live import doing, in_gitlab
from harness.streams import Output, output
from harness.threads import end_without_threads
from harness.until import heartbeat

LOAD_SECONDS = 120.0  # for a conftest.py, which is loaded before the project's settings are: as `own_load` by default

__all__ = [
    "api",
    "artifact",
    "cell",
    "cell_dir",
    "cells",
    "expected",
    "facts",
    "guest",
    "hosts",
    "inspection",
    "inspection_without_api",
    "inventory",
    "life",
    "mirror",
    "monitor",
    "phase",
    "probes",
    "timeouts",
    "view",
    "waivers",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a run; `vmatrix run` has the same."""
    add_options(parser.getgroup("vmatrix", "vmatrix: cells of the test matrix"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Show the progress of a run of cells as it happens: capture nothing. Have own checks find their modules."""
    options = early_config.known_args_namespace
    if not any(getattr(options, name) for name in state.SELECTING):
        return (yield)
    options.capture = "no"
    make_importable(options.file_or_dir)
    folder = folder_in(options.file_or_dir)
    if folder is None:
        return (yield)
    process = OwnProcess(folder, LOAD_SECONDS * float(getattr(options, "timeout_scale", None) or 1.0))
    early_config.stash[OWN_PROCESS] = process
    try:
        with process.loading():
            return (yield)
    except (Exception, SystemExit, Late) as failure:
        refuse_conftest(failure, options.file_or_dir)
        raise


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, int | pytest.ExitCode | None, int | None]:
    """Run cells to their end where their output cannot be written; the exit code says so."""
    if not state.asked_for_cells(config) or state.on_worker(config):
        return (yield)
    refuse_hooks(config.pluginmanager, config.args)
    with output() as streams:
        say, began = partial(streams.said.progress_line, gitlab=in_gitlab()), time.monotonic()
        with heartbeat(say, every=1.0, doing=partial(_under_way, config, streams, began)):
            code = yield
        return None if code is None else streams.ending(int(code))


def _under_way(config: pytest.Config, streams: Output, began: float) -> str:
    """Return what a run does where nothing was printed for a while and nobody sees a moving line, "" otherwise."""
    silent = streams.said.silent_seconds >= state.SILENCE_SECONDS
    if not silent or streams.said.isatty() or config.option.collectonly:
        return ""
    run, (_, check) = config.stash.get(RUN, None), config.stash.get(state.CURRENT, ("", ""))
    if run is not None and run.live is not None:
        return run.live.doing(check)
    own = config.stash.get(OWN, None)
    loading = f"loading {own.loading}" if own is not None and own.loading is not None else "collecting the checks"
    return doing(check or loading, began)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Answer `-n auto`: as many workers as the infra cluster may have room for cells."""
    if not state.asked_for_cells(config):
        return None
    try:
        return state.planned(config).most_at_once()
    except VmatrixError:
        return 1  # pytest_configure, which comes next, says what is wrong


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Open the run if cells are selected; refuse bad input before anything is touched."""
    config.addinivalue_line(
        "markers", "when(phase): run the check only after phases for which phase(cell, index) is true"
    )
    config.addinivalue_line("markers", "step(name): a step in a cell's life: provision, phase, teardown or gone")
    if config.option.help or not state.asked_for_cells(config):
        return
    end_without_threads()
    config.option.verbose = min(config.option.verbose, -1) if config.option.verbose <= 0 else config.option.verbose
    config.option.reportchars = ""
    config.option.tbstyle = "short"
    try:
        own = own_checks_of(state.planned(config), config.args)
        if own is not None:
            config.stash[OWN] = own
            config.pluginmanager.register(own, "vmatrix-own-checks")
            own.begin(config)
        if on_worker(config):
            from harness.plugin.workers import Worker

            config.pluginmanager.register(Worker(config), "vmatrix-worker")
            return
        config.pluginmanager.register(Uncollected(), "vmatrix-uncollected")
        if EXISTING in config.stash:
            from harness.plugin.single_process import ExistingCluster

            config.pluginmanager.register(ExistingCluster(config), "vmatrix-existing-cluster")
        elif getattr(config.option, "numprocesses", None):
            from harness.plugin.workers import RunController

            config.pluginmanager.register(RunController(config), "vmatrix-controller")
        else:
            from harness.plugin.single_process import SingleProcess

            config.pluginmanager.register(SingleProcess(config), "vmatrix-single-process")
    except VmatrixError as error:
        config.stash[VERDICT] = error.exit_code
        pytest.exit(message(error), returncode=error.exit_code)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one item of each step and check per cell, and per phase where it looks at a guest cluster.

    First of all, so that an item's brackets begin with its cell, whatever else the item has parameters for.
    """
    if "cell" not in metafunc.fixturenames:
        return
    plan = metafunc.config.stash.get(PLAN, None)
    if plan is None:
        raise pytest.UsageError("these checks need cells: pass --tier TIER or --cell CELL")
    parametrize(metafunc, plan)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Order: cell after cell, and within a cell its steps around its checks.

    What `-k` and its like leave out is checks; the steps of a cell that has a check left stay.
    """
    steps = [item for item in items if is_step(item)]
    own = config.stash.get(OWN, None)
    if own is not None:
        own.look_at(items)
        own.watch(config.hook.pytest_collection_modifyitems.get_hookimpls(), items)
    yield
    items[:] = dict.fromkeys(items)  # a hook may have added some twice
    plan = config.stash.get(PLAN, None)
    if plan is not None:
        arrange(config, items, steps, plan)
    if own is not None:
        own.promised = list(items)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> tuple[str, str, str] | None:
    """Print no dots in a run of cells: its steps and failures are lines of their own."""
    if config.stash.get(PLAN, None) is None or config.option.verbose > 0:
        return None
    if report.when == "call" or report.outcome != "passed":
        return report.outcome, "", ""
    return "", "", ""


def pytest_terminal_summary(config: pytest.Config) -> None:
    """Print the steps, the failures and where the reports are."""
    run = config.stash.get(RUN, None)
    if run is not None and run.started:
        run.show()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Print below pytest's last line what an interrupted run did and did not do."""
    yield
    run = session.config.stash.get(RUN, None)
    if run is not None and run.started and run.signalled:
        run.show_interruption()


@pytest.hookimpl(wrapper=True, trylast=True)  # within the wrapper that keeps what is logged
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Leave out the checks that the product leaves out, and those whose fixtures cannot be had in this cluster."""
    items.take_up(item)
    items.leave_out(item)
    return (yield from items.judged(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Write down what a check does not judge."""
    return (yield from items.judged(item))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Keep what a check raises: a hook around it may say nothing of that."""
    return (yield from items.noted(pyfuncitem))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write each check's outcome down as it happens."""
    from harness.validate.hosts import is_no_login, no_login

    items.restore_error(item, call)
    report = yield
    opened = item.config.stash.get(CELLS, None)
    its_cell = state.cell_of(item)
    own = item.config.stash.get(OWN, None)
    error = call.excinfo.value if call.excinfo is not None else None
    if is_step(item) and error is not None and not isinstance(error, VmatrixError):
        theirs = own is not None and own.ended_by(error)  # in a hook of theirs, which is about every item
        if isinstance(error, Exception) and opened is not None and its_cell is not None and not theirs:
            opened.record_step(its_cell, item.name.partition("[")[0].removeprefix("test_"), error)
    if opened is None or its_cell is None or is_step(item):
        return report
    if report.when == "setup":
        note_setup(item, report.duration)
    decisive = report.when == "call" or report.outcome != "passed"
    if decisive and not isinstance(error, KeyboardInterrupt):
        error = no_login(error) if isinstance(error, RuntimeError) and is_no_login(error) else error
        opened.record_check(
            its_cell,
            check_result(item, report, error),
            error,
            asserted=error is None or items.asserted(error),
            own=own is not None and (own.raised(error) or isinstance(error, Late | Ended)),
        )
    return report
