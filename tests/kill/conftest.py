"""The instance that points are carried out on, this host before them, and the table of what came of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.cell.labels import is_label_value
from harness.infra.host import record
from harness.infra.host.addresses import bridge_of
from harness.infra.host.layout import Layout, instances_dir, layout_of
from harness.machines.access import control_directory
from harness.model import Cell
from harness.paths import PROJECT, packaged_dir
from harness.plan.select import PlanSelection, selected
from harness.spec import load_spec
from harness.until import Deadline, NotYet, TimedOut, until
from tests.embedded.run.runs import Ended, vmatrix
from tests.kill import whole_host
from tests.kill.table import DOUBLES, Results, written

INFRA_SECONDS = 900.0  # against hanging, as all below
SETTLE_SECONDS = 60.0  # against hanging: processes that were killed end when the kernel has the time
SHARED = "--shared-host"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add how the comparison is made, and where the table goes."""
    parser.addoption(SHARED, action="store_true", help="compare only what mentions the instance: others work here, too")
    parser.addoption("--keep-results", action="store_true", help="keep what came of the points in the table of docs/")


def pytest_configure(config: pytest.Config) -> None:
    """Name this checkout as the project of the commands that tests start in folders of their own."""
    os.environ.setdefault(PROJECT, str(packaged_dir()))


@dataclass
class Ground:
    """An instance by name, and this host as it was before it."""

    layout: Layout
    single: Cell
    shared: bool
    without: Path
    before: set[str] = field(default_factory=set)
    counts: set[str] = field(default_factory=set)
    indices: set[int] = field(default_factory=set)  # that the instance had

    @property
    def clean(self) -> str:
        """Return the result of a point after which nothing is left."""
        return "clean, shared host" if self.shared else "clean"

    def infra(self, verb: str, folder: Path, env: dict[str, str] | None = None) -> Ended:
        """Bring the instance up, or take it down."""
        ended = vmatrix("infra", verb, "--name", self.layout.name, cwd=folder, env=env, seconds=INFRA_SECONDS)
        found = record.load(self.layout)
        if found is not None:
            self.indices.add(found.index)
        return ended

    def _own(self, runs: Iterable[str]) -> set[str]:
        """Return what things of the instance mention, as long as nobody else has its index by now."""
        folders = {str(control_directory(run, self.single.id)) for run in runs if is_label_value(run)}
        others = {found.index for root in instances_dir("embedded").glob("*/") if (found := _record(root)) is not None}
        bridges = {bridge_of(index) for index in self.indices - others}
        marks = {f"{bridge}{end}" for bridge in bridges for end in ("-", ":", " ", "h")}
        return {*folders, *marks, *runs, f"/{self.layout.name}"}

    def look(self) -> None:
        """Take down what is on this host."""
        self.before, self.counts = whole_host.steady(lambda: whole_host.seen(self.without))

    def require_the_same(self, *runs: str) -> None:
        """Compare this host with before. Raises AssertionError where something came or went."""
        assert not self.layout.root.exists()

        def same() -> bool | NotYet:
            tokens = self._own(runs) if self.shared else set()
            found = whole_host.difference(self.before, whole_host.seen(self.without), self.counts, *tokens)
            return NotYet("\n".join(found)) if found else True

        try:
            until(same, deadline=Deadline.after(SETTLE_SECONDS), what="this host to be as before", interval=1)
        except TimedOut as late:
            raise AssertionError(late.summary) from late


def _record(root: Path) -> record.InstanceRecord | None:
    return record.load(Layout(root.name, root))


@pytest.fixture(scope="session")
def ground(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Return the ground; an instance was up once, because the first one raises a limit until the next reboot."""
    (found,) = selected(load_spec(packaged_dir() / "matrix"), "embedded", PlanSelection(tier="single"))
    folder, layout = tmp_path_factory.mktemp("ground"), layout_of(f"kill-{os.getpid()}", "embedded")
    shared = bool(request.config.getoption(SHARED))
    made = Ground(layout, found.cell, shared, tmp_path_factory.getbasetemp())
    for verb in ("up", "down"):
        ended = made.infra(verb, folder)
        assert ended.code == 0, ended.stderr
    made.look()
    yield made
    made.infra("down", folder)


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest) -> Iterator[Results]:
    """Return what came of points so far; this session's are printed, and kept if that is asked for."""
    found = Results()
    yield found
    request.config.stash[TABLE] = found
    if request.config.getoption("--keep-results"):
        found.keep()


TABLE = pytest.StashKey[Results]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table."""
    if (found := config.stash.get(TABLE, None)) is not None:
        for line in written({**DOUBLES}, found.now):
            terminalreporter.write_line(line)
