"""The process that hands cells to workers: infra up and reports as in a single process, the rest by pytest-xdist."""

from __future__ import annotations

import shlex
import sys

import pytest
from xdist.workermanage import NodeManager, WorkerController

from harness.errors import VmatrixError
from harness.plugin.scheduling import CellScheduling
from harness.plugin.single_process import finish, interrupted_early, refuse, tell_unused
from harness.plugin.state import ALONE, NAMED, ONLY_NAMED, OWN, PLUGINS, RUN, WORKER_INPUT, planned
from harness.plugin.unreached import note_unreached
from harness.session import Run
from harness.session.admit import Waiting
from harness.session.dispatch import Dispatch


def worker(*, alone: bool) -> str:
    """Return a worker as execnet specifies it: without modules of the working directory.

    Args:
        alone: with no other plugins than those of vmatrix, as the call itself.

    https://execnet.readthedocs.io/en/latest/basics.html#xspec
    """
    plugins = (f"env:{ONLY_NAMED}=1", f"env:{NAMED}={','.join(PLUGINS)}") if alone else ()
    return "//".join(("popen", f"python={shlex.join([sys.executable, '-P'])}", *plugins))


class RunController:
    """The hooks of a run with workers, in the process that was started for it."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.plan = planned(config)
        self.run = Run(self.plan, parallel=int(config.option.numprocesses))
        config.stash[RUN] = self.run
        config.option.tx = [worker(alone=config.pluginmanager.has_plugin(ALONE))] * len(config.option.tx)
        self.waiting: Waiting | None = None
        self.dispatch: Dispatch | None = None
        self.scheduling: CellScheduling | None = None

    def pytest_configure_node(self, node: WorkerController) -> None:
        """Tell a worker what the run is."""
        node.workerinput[WORKER_INPUT] = self.plan.for_workers()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keep xdist from reporting on its workers: people want to see cells, and first how to clean up."""
        distributed = session.config.pluginmanager.get_plugin("dsession")
        if distributed is not None:
            distributed.terminal = None
            session.config.pluginmanager.unregister(name="terminaldistreporter")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Print how to clean up before anything exists, then bring the infra up; without it no cell is sent."""
        if session.config.option.collectonly:
            return None  # xdist starts no workers either
        own = session.config.stash.get(OWN, None)
        if own is not None and (wrong := own.collect_alone(session)) is not None:
            return refuse(self.run, wrong)
        self.run.console_to(sys.stdout)
        try:
            live = self.run.start()
            tell_unused(self.run, own)
            self.waiting = Waiting.on(self.run.site, self.plan, live.on_waiting)
        except VmatrixError as error:
            return refuse(self.run, error)
        timeouts = self.run.site.timeouts
        NodeManager.EXIT_TIMEOUT = int(timeouts.collect + timeouts.teardown)  # of workers that are still tearing down
        self.dispatch = Dispatch.of(self.run, self.waiting)
        self.scheduling = CellScheduling(self.dispatch, session, self.run.parallel)
        return None

    def pytest_xdist_make_scheduler(self) -> CellScheduling | None:
        """Return the scheduler that hands out whole cells."""
        return self.scheduling

    def pytest_testnodedown(self, node: WorkerController) -> None:
        """Let go of a worker that the project's own checks have ended: its cell ends in it, and is not lost."""
        own = self.config.stash.get(OWN, None)
        if self.scheduling is not None and own is not None and own.broken_in_a_worker() is not None:
            self.scheduling.let_go(node)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Give Ctrl-C its exit code before the run has begun, too."""
        interrupted_early(self.run, excinfo)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Once the workers have ended: delete what is left, write the reports, set the exit code."""
        if self.scheduling is not None:
            self.scheduling.close()
            if self.scheduling.problem is not None:
                refuse(self.run, self.scheduling.problem)
            note_unreached(self.run, session.config, self.scheduling.collection)
        if self.dispatch is not None:
            self.dispatch.listen()
        finish(self.run, session, exitstatus)
        if self.waiting is not None:
            self.waiting.stop()
