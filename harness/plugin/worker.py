"""A worker: the cells that the controller sends it, one at a time, until it is told to stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from types import FrameType

import pytest
from rich.console import Console

from harness import providers
from harness.plugin.state import CELLS, NAMED, ONLY_NAMED, planned
from harness.session import Cells
from harness.session.run import Interrupted


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

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Run what is sent; an interrupt ends the loop, and the cells end in `pytest_sessionfinish`."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        try:
            return (yield)
        except Interrupted:
            return True

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
