"""Cells side by side: the controller that hands them to workers by way of pytest-xdist, and what a worker does."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from signal import Signals
from types import FrameType

import pytest
from xdist.workermanage import NodeManager, WorkerController

from harness import providers
from harness.errors import BadInput, NothingSelected, VmatrixError
from harness.plugin.own_checks import OwnChecks
from harness.plugin.own_process import last_frame, not_ended
from harness.plugin.single_process import finish, interrupted_early, note_unreached, refuse, tell_unused
from harness.plugin.state import (
    ALONE,
    CELLS,
    CURRENT,
    NAMED,
    ONLY_NAMED,
    OWN,
    PLUGINS,
    RUN,
    STACKS,
    WORKER_INPUT,
    planned,
    stack_in,
    stacks_of,
)
from harness.session import Cells, Run
from harness.session.admit import Waiting
from harness.session.dispatch import Death, Dispatch
from harness.session.run import Interrupted
from harness.streams import plain_console
from harness.until import heartbeat, under_way

LAST_ITEM = "::test_gone["
TICK_SECONDS = 0.5  # how late a cell may be sent to a worker that waits
END_SECONDS = 5.0  # a process whose channel is closed ends at once, or has become another program
PROGRESS_SECONDS = 20.0  # a controller that says something after 30 s of silence knows what


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
        self._unheard = True  # no error of a worker was printed yet

    def pytest_configure_node(self, node: WorkerController) -> None:
        """Tell a worker what the run is."""
        node.workerinput[WORKER_INPUT] = self.plan.for_workers()
        if (stacks := stacks_of(self.config)) is not None:
            node.workerinput[STACKS] = str(stacks)

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
        self.scheduling = CellScheduling(self.dispatch, session, self.run.parallel, own)
        return None

    def pytest_xdist_make_scheduler(self) -> CellScheduling | None:
        """Return the scheduler that hands out whole cells."""
        return self.scheduling

    def pytest_testnodedown(self, node: WorkerController, error: object) -> None:
        """Let go of a worker that the project's own checks have ended: its cell ends in it, and is not lost.

        Print why one could not begin: nothing else would say it.
        """
        if isinstance(error, str) and error.startswith("Traceback") and self._unheard:
            self._unheard = False
            sys.stderr.write(f"a worker has ended:\n{error}")
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


def worker(*, alone: bool) -> str:
    """Return a worker as execnet specifies it: without modules of the working directory.

    Args:
        alone: with no other plugins than those of vmatrix, as the call itself.

    https://execnet.readthedocs.io/en/latest/basics.html#xspec
    """
    plugins = (f"env:{ONLY_NAMED}=1", f"env:{NAMED}={','.join(PLUGINS)}") if alone else ()
    return "//".join(("popen", f"python={shlex.join([sys.executable, '-P'])}", *plugins))


def ended_by(node: WorkerController) -> str:
    """Return how a worker's process ended: "SIGSEGV", "exit status 1"; "" where nobody can tell."""
    popen = getattr(getattr(node.gateway, "_io", None), "popen", None)  # execnet has no public way
    try:
        code = popen.wait(END_SECONDS) if popen is not None else None
    except subprocess.TimeoutExpired:
        return ""
    return "" if code is None else Signals(-code).name if code < 0 else f"exit status {code}"


class CellScheduling:
    """pytest-xdist's scheduler: whole cells, one at a time per worker, as the dispatch decides.

    All calls come from xdist's loop; a thread puts an empty event into it now and then, so that waiting ends.
    """

    def __init__(self, dispatch: Dispatch, session: pytest.Session, workers: int, own: OwnChecks | None = None) -> None:
        self.dispatch = dispatch
        self._own = own
        self.problem: BadInput | None = None
        self._session = session
        self._expected = workers
        self._loads: dict[WorkerController, Load] = {}
        self._items: dict[str, list[int]] = {}
        self._collection: Sequence[str] | None = None
        self._closed = threading.Event()

    @property
    def nodes(self) -> list[WorkerController]:
        """Return the workers."""
        return list(self._loads)

    @property
    def collection_is_completed(self) -> bool:
        """Tell whether the first workers have all said what their items are."""
        return self._collection is not None

    @property
    def collection(self) -> Sequence[str]:
        """Return the names of all items; none before the workers have said what theirs are."""
        return self._collection or ()

    @property
    def has_pending(self) -> bool:
        """Tell whether a worker has items left."""
        return any(load.left for load in self._loads.values())

    @property
    def tests_finished(self) -> bool:
        """Tell whether the workers may be told to end."""
        if self.problem is not None:
            return True
        return self._collection is not None and self.dispatch.finished

    def add_node(self, node: WorkerController) -> None:
        """Take a new worker."""
        self._loads[node] = Load()

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Take a worker's items; all workers have the same."""
        self._loads[node].collection = collection
        known = [load.collection for load in self._loads.values() if load.collection is not None]
        if any(list(other) != list(collection) for other in known):
            self.problem = BadInput("the workers collected different checks", hint="run without -n to see why")
        if self._collection is None and len(known) == self._expected:
            self._collection = collection
            self._sort_items(collection)
        if self._collection is not None and self.problem is None:
            for worker, load in self._loads.items():
                if load.collection is not None and worker.gateway.id not in self.dispatch.workers:
                    self.dispatch.add_worker(worker.gateway.id, worker.gateway._rinfo().pid)

    def _sort_items(self, collection: Sequence[str]) -> None:
        if self._session.testsfailed:
            self.problem = BadInput("the checks could not be collected", hint="see pytest's message above")
            return
        cells = self.dispatch.run.plan.cells
        try:
            self._items = items_of([cell.id for cell in cells], collection)
        except BadInput as problem:
            self.problem = problem
            return
        for cell in cells:
            if cell.id not in self._items:
                self.dispatch.leave_out(cell)

    def schedule(self) -> None:
        """Begin, and go on when a worker was replaced."""
        if not self._closed.is_set() and not any(t.name == "ticks" for t in threading.enumerate()):
            threading.Thread(target=self._tick, daemon=True, name="ticks").start()
        self._send()

    def _tick(self) -> None:
        """Wake xdist's loop: an event of its own that carries nothing."""
        while not self._closed.wait(TICK_SECONDS):
            for node in self.nodes[:1]:
                node.notify_inproc("unscheduled", node=node, indices=[])

    def _send(self) -> None:
        if self.problem is not None:
            return
        while (chosen := self.dispatch.next()) is not None:
            node = next(n for n in self._loads if n.gateway.id == chosen.worker)
            items = self._items[chosen.cell.id]
            self._loads[node].left = set(items[:-1])
            node.send_runtest_some(items)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Take note that an item has ended; the cell has, when only its last item is left."""
        load = self._loads.get(node)
        if load is None or item_index not in load.left:
            return
        load.left.discard(item_index)
        if not load.left:
            self.dispatch.done(node.gateway.id)
            self._send()

    def remove_pending_tests_from_node(self, node: WorkerController, indices: Sequence[int]) -> None:
        """Use the event that carries nothing: look whether a cell can start now."""
        self._send()

    def mark_test_pending(self, item: str) -> None:
        """Refuse what xdist's --maxfail-like plugins may ask for: an item never runs twice."""
        raise NotImplementedError(f"{item} cannot be run again in the same attempt")

    def remove_node(self, node: WorkerController) -> str | None:
        """Take note that a worker has gone; return the item that it was at, if it died in the middle of a cell."""
        load = self._loads.pop(node)
        at = min(load.left, default=None)
        stopping = self.dispatch.stopping
        if at is None or not stopping:
            self.dispatch.lost(node.gateway.id, self._death(node, load, at))
        ended_by_itself = hasattr(node, "workeroutput")  # as after a signal: xdist knows of no item then
        if at is None or stopping or load.collection is None or ended_by_itself:
            return None
        return str(load.collection[at])

    def _death(self, node: WorkerController, load: Load, at: int | None) -> Death:
        """Return what is known of the end of a worker's process."""
        name = str(load.collection[at]) if at is not None and load.collection is not None else ""
        file, _, function = name.partition("::")
        path = self._session.config.rootpath / file
        own = self._own is not None and bool(name) and self._own.is_own(path)
        check = f"{self._own.suite_of(path)}: {function}" if own and self._own is not None else name
        stuck = self._stuck(node) if own else ""
        return Death(check.partition("[")[0], own, ended_by(node), stuck)

    def _stuck(self, node: WorkerController) -> str:
        """Return where a worker's own check was when it was ended for not ending, "" where it was not."""
        stacks = stacks_of(self._session.config)
        file = stack_in(stacks, node.gateway.id) if stacks is not None else None
        stack = file.read_text(encoding="utf-8", errors="replace") if file is not None and file.exists() else ""
        frame = last_frame(stack, self._own.folder) if self._own is not None and stack else None
        if frame is None:
            return ""
        return not_ended(self.dispatch.run.plan.project.timeouts.own_check, "own_check", *frame)

    def let_go(self, node: WorkerController) -> None:
        """Take note that a worker ends by itself, with its cell."""
        self._loads.pop(node, None)
        self.dispatch.let_go(node.gateway.id)

    def close(self) -> None:
        """End the ticks."""
        self._closed.set()


@dataclass
class Load:
    """What a worker has to do: its items as indices, and of them those of its cell that have not ended."""

    collection: Sequence[str] | None = None
    left: set[int] = field(default_factory=set)


def items_of(cells: Iterable[str], collection: Sequence[str]) -> dict[str, list[int]]:
    """Return the items of each cell that has any, as indices of the collection.

    Args:
        cells: ids.  collection: the names of all items, those of a cell in the order in which they run.

    Raises:
        NothingSelected: no cell has an item.  BadInput: the items of a cell do not end as its life does.
    """
    items_by_cell = {cell: _items(cell, collection) for cell in cells}
    begun = {cell: items for cell, items in items_by_cell.items() if items}
    if not begun:
        raise NothingSelected("no check was selected", hint="`--collect-only` lists the checks")
    for cell, items in begun.items():
        if LAST_ITEM not in collection[items[-1]]:
            raise BadInput(
                f"{cell}: the selection leaves out the last step",
                hint="run the whole of tests/cells, or run without -n",
            )
    return begun


def _items(cell: str, collection: Sequence[str]) -> list[int]:
    marks = (f"[{cell}]", f"[{cell}-")
    return [number for number, name in enumerate(collection) if any(mark in name for mark in marks)]


class Worker:
    """The hooks of a worker. Its controller sends SIGTERM to end it; a person's Ctrl-C is the controller's to hear."""

    def __init__(self, config: pytest.Config) -> None:
        plan = planned(config)
        self.parent = os.getppid()
        for name in (
            ONLY_NAMED,
            NAMED,
        ):  # pytest has read them; programs that this process starts choose for themselves
            os.environ.pop(name, None)
        self.stopped = False
        silent = plain_console(quiet=True)  # the controller says what this process writes down
        self.cells = Cells(plan, lambda: providers.join_site(plan.project, plan.cells), silent)
        config.stash[CELLS] = self.cells
        self.config = config
        self.task = ""  # of the product, as it says it
        self.cells.on_task = partial(setattr, self, "task")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Run what is sent; an interrupt ends the loop, and the cells end in `pytest_sessionfinish`."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        try:
            with heartbeat(self._tell, every=PROGRESS_SECONDS, doing=self._doing):
                return (yield)
        except Interrupted:
            return True

    def _doing(self) -> str:
        _, check = self.config.stash.get(CURRENT, ("", ""))
        return "; ".join(part for part in (check or self.task, under_way()) if part)

    def _tell(self, text: str) -> None:
        """Write down what the cell of this worker is doing; the controller shows it where nothing else is said."""
        cell, _ = self.config.stash.get(CURRENT, ("", ""))
        if cell:
            with suppress(OSError):  # on a full disk, what a check comes to is the first that has to be said
                self.cells.recorder.write("progress", cell=cell, said=text)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        orphaned = os.getppid() != self.parent
        if self.stopped or (number == signal.SIGINT and not orphaned):
            return
        self.stopped = True
        self.cells.keep = False
        raise Interrupted(signal.Signals(number).name)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """End the cells that are still open."""
        try:
            self.cells.close_all()
        except Interrupted:  # the first signal came during the end
            self.cells.close_all()
