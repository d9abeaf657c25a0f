"""Side by side: which cell goes to which worker when, what the workers report, and what is left of one that died.

Knows nothing of pytest-xdist: a worker is a name and a process id.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from harness.cell.existing import CellSelector
from harness.cell.life import START_OVER
from harness.cell.steps import StepEvent, Steps
from harness.cell.teardown import reap
from harness.errors import BadInput, HarnessBug, InfraError, InfraRetriable, Leaked, VmatrixError
from harness.events import Follower
from harness.model import Cell, Outcome
from harness.session.admit import LOOK_SECONDS, Waiting, no_room
from harness.session.run import Run


class CellQueue:
    """The cells of a run that have not started, in the order in which they are to be tried."""

    def __init__(self, cells: Iterable[Cell], seconds: Callable[[Cell], float]) -> None:
        """Order the cells by expected `seconds`; of equally long ones that with more memory comes first."""

        self._waiting = sorted(cells, key=lambda c: (-seconds(c), -sum(m.memory_mib for m in c.machines), c.id))

    def __len__(self) -> int:
        """Return how many cells have not started."""
        return len(self._waiting)

    @property
    def waiting(self) -> tuple[Cell, ...]:
        """Return the cells that have not started, the first to be tried first."""
        return tuple(self._waiting)

    def take(self, cell: Cell) -> None:
        """Take a cell that was found to fit out of the queue."""
        if cell not in self._waiting:
            raise HarnessBug(f"cell {cell.id} was to start but is not waiting")
        self._waiting.remove(cell)


OWN_HINT = "correct the check: docs/own-checks.md says what a check may do"
KILLED = "SIGKILL"
GRACE_SECONDS = 30.0  # beside the time-outs of what a worker does at its end


@dataclass(frozen=True)
class Assigned:
    """A cell that a worker gets to run."""

    worker: str
    cell: Cell


@dataclass(frozen=True)
class Death:
    """How a worker's process ended before its cell did.

    check: that was under way, "" for none or unknown.  own: whether it is the project's own.
    how: a signal's name or the exit status, "" for unknown.  stuck: what is said of a check that did not end, or "".
    """

    check: str = ""
    own: bool = False
    how: str = ""
    stuck: str = ""

    def error(self, cell: Cell, pid: int) -> VmatrixError:
        """Return the failure of the cell: of its own check, unless the process was killed, which anybody can do."""
        how = f" ({self.how})" if self.how else ""
        known = f" in {self.check}{how}" if self.check else how
        if self.stuck:
            return BadInput(f"{self.check} {self.stuck}", hint=OWN_HINT)
        if self.own and self.how not in ("", KILLED):
            return BadInput(f"{self.check} ended the process that runs the checks of {cell.id}{how}", hint=OWN_HINT)
        return HarnessBug(
            f"the worker process of {cell.id} ended before its cell did{known}",
            hint=f"it was killed, perhaps for lack of memory: see the kernel's log (process id {pid})",
        )


@dataclass
class Dispatch:
    """The cells of a run on its workers."""

    run: Run
    waiting: Waiting
    queue: CellQueue
    follower: Follower
    workers: dict[str, int] = field(default_factory=dict)  # name -> process id
    busy: dict[str, Cell] = field(default_factory=dict)
    _next_look: float = 0.0
    _idle_since: float | None = None
    _attempts: dict[str, int] = field(default_factory=dict)  # by cell: a worker may have begun another one
    _bad: set[str] = field(default_factory=set)  # cells in whose present attempt something failed
    _stop_at: float | None = None

    @staticmethod
    def of(run: Run, waiting: Waiting) -> Dispatch:
        """Return the dispatch of a run that has started."""
        queue = CellQueue(run.plan.cells, lambda cell: waiting.expected(cell).seconds)
        made = Dispatch(run, waiting, queue, Follower(run.plan.directory))
        made.follower.skip()
        run.on_signal = made.stop
        return made

    @property
    def stopping(self) -> bool:
        """Tell whether the run was told to end."""
        return self._stop_at is not None

    @property
    def finished(self) -> bool:
        """Tell whether no cell waits and no worker has one."""
        return self.stopping or ((self.failed or not len(self.queue)) and not self.busy)

    def add_worker(self, name: str, pid: int) -> None:
        """Take a worker that is ready for cells."""
        self.workers[name] = pid
        self._next_look = 0.0
        if self.stopping:
            self._signal(name, signal.SIGTERM)

    def leave_out(self, cell: Cell) -> None:
        """Take note that nothing of a cell was selected."""
        self.queue.take(cell)
        self.run.leave_out([cell])

    def done(self, worker: str) -> None:
        """Take note that a worker has ended its cell."""
        self.busy.pop(worker, None)
        self._next_look = 0.0
        self.listen()

    def listen(self) -> None:
        """Pass on what the workers have written down since the last time."""
        live = self.run.live
        for event in self.follower.read():
            if live is not None:
                live.on_event(event)
            self._judge(event)
            if event["event"] not in ("step-start", "step-end"):
                continue
            self._attempts[event["cell"]] = int(event["attempt"])
            path, seconds = tuple(event["step"]), float(event.get("seconds", 0.0))
            told = StepEvent(event["cell"], path, event.get("outcome"), seconds, event.get("summary", ""))
            if live is not None:
                live.on_step(told)
            self.waiting.on_step(told)

    def _judge(self, event: Mapping[str, Any]) -> None:
        """Take note of a cell in which something failed, unless it starts over."""
        if "cell" not in event:
            return
        if event.get("outcome") == Outcome.FAILED:
            self._bad.add(event["cell"])
        elif event.get("step") == [START_OVER]:
            self._bad.discard(event["cell"])

    @property
    def failed(self) -> bool:
        """Tell whether a cell that ended has failed, and no further one is to begin."""
        return self.run.plan.fail_fast and bool(self._bad - {cell.id for cell in self.busy.values()})

    def next(self) -> Assigned | None:
        """Return the next cell to start and the worker that gets it; None when nothing can start now."""
        self.listen()
        if self.stopping:
            self._kill_late()
            return None
        free = [name for name in self.workers if name not in self.busy]
        if self.failed or not free or not len(self.queue) or time.monotonic() < self._next_look:
            return None
        cell = self._admitted()
        if cell is None:
            self._next_look = time.monotonic() + LOOK_SECONDS
            return None
        self.queue.take(cell)
        self.busy[free[0]] = cell
        self._idle_since = None
        expected = self.waiting.expected(cell)
        self.run.recorder.write(
            "admitted",
            cell=cell.id,
            attempt=self.run.plan.first_attempt(cell),
            worker=free[0],
            expected=round(expected.seconds),
            source=expected.source,
        )
        return Assigned(free[0], cell)

    def _admitted(self) -> Cell | None:
        try:
            decision = self.waiting.first(self.queue.waiting)
        except InfraRetriable as error:
            self.waiting.say("", error.summary)
            reason = error.summary
        else:
            if decision.admitted is not None:
                return decision.admitted
            for refused in decision.refused:
                self.waiting.say(refused.cell.id, refused.reason)
            reason = decision.refused[0].reason
        self._give_up_late(reason)
        return None

    def _give_up_late(self, reason: str) -> None:
        """End the wait when none of our cells is under way and others have left us no room for too long."""
        if self.busy:
            self._idle_since = None
            return
        if self._idle_since is None:
            self._idle_since = time.monotonic()
        if time.monotonic() - self._idle_since < self.waiting.seconds:
            return
        for cell in self.queue.waiting:
            self.queue.take(cell)
            self._fail(cell, "admission", no_room(cell, self.waiting.seconds, reason))

    def _fail(self, cell: Cell, step: str, error: VmatrixError) -> None:
        """Write down that a cell failed in this process, not in a worker."""
        attempt = self._attempts.get(cell.id, self.run.plan.first_attempt(cell))
        steps = Steps(self.run.recorder, cell.id, attempt)
        with suppress(type(error)), steps.step(step):
            raise error

    def lost(self, worker: str, death: Death | None = None) -> None:
        """Take note that a worker's process has gone; what its cell had in the infra cluster is removed."""
        pid = self.workers.pop(worker, 0)
        cell = self.busy.pop(worker, None)
        if cell is None:
            return
        self.listen()
        self._fail(cell, "worker", (death or Death()).error(cell, pid))
        if self.stopping:
            return  # the end of the run takes everything away at once
        try:
            seconds = self.run.site.timeouts.teardown
            selector = CellSelector(run=self.run.plan.run, cell=cell.id, namespace=self.run.site.namespace)
            reap(self.run.site.cluster, selector, seconds=seconds)
            self.waiting.admission.gone(cell.id)
        except (Leaked, InfraError) as error:
            self.waiting.say(cell.id, f"what it left still exists: {error.summary}")

    def let_go(self, worker: str) -> None:
        """Take note that a worker ends by itself, with its cell."""
        self.workers.pop(worker, None)
        self.busy.pop(worker, None)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the run: every worker tears its cell down; one that takes too long is killed."""
        timeouts = self.run.site.timeouts
        self._stop_at = time.monotonic() + timeouts.collect + timeouts.teardown + GRACE_SECONDS
        for name in list(self.workers):
            self._signal(name, signal.SIGTERM)

    def _kill_late(self) -> None:
        if self._stop_at is not None and time.monotonic() > self._stop_at:
            for name in list(self.workers):
                self._signal(name, signal.SIGKILL)

    def _signal(self, worker: str, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.workers[worker], number)
