"""A worker: the cells that the controller sends it, one at a time, until it is told to stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import suppress
from functools import partial
from types import FrameType

import pytest
from rich.console import Console

from harness import providers
from harness.plugin.state import CELLS, CURRENT, NAMED, ONLY_NAMED, planned
from harness.session import Cells
from harness.session.run import Interrupted
from harness.until import heartbeat, under_way

PROGRESS_SECONDS = 20.0  # a controller that says something after 30 s of silence knows what


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
        silent = Console(quiet=True)  # the controller says what this process writes down
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
