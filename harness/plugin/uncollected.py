"""Say why checks cannot be collected; with cells, and of a given cluster, pytest's own summary of errors is off."""

from __future__ import annotations

import re
import sys

import pytest

from harness.errors import BadInput
from harness.plugin.state import RUN, message

RAISED = re.compile(r"^E +([\w.]+(?:Error|Exception|Failed|Exit)\b.*)$", re.MULTILINE)  # as pytest writes it


class Uncollected:
    """The hooks of a process that a person started."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what a collector failed with, a worker's too."""
        if report.failed:
            self.said.setdefault(report.nodeid, str(report.longrepr).strip())

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Print it, unless the run has ended with a message of its own."""
        run = session.config.stash.get(RUN, None)
        if run is not None and run.exit_code:  # checks of a kept cell or of a given cluster are no run
            return
        for name, text in self.said.items():
            found = RAISED.findall(text)
            cause = found[-1] if found else text.rpartition("\n")[2].strip()
            said = f"{name or 'a file of checks'} cannot be collected: {cause}"
            error = BadInput(said, detail=text, hint="fix that and try again")
            sys.stderr.write(f"error ({error.blame.value}): {message(error)}\n")
