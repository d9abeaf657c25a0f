"""The instance that points are carried out on, the world before them, and the table of what came of them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.infra.host.instance import raise_inotify_limit
from harness.infra.host.layout import Layout, layout_of
from harness.machines.reach.ssh import control_directory
from harness.model import Cell
from harness.paths import PROJECT, packaged_dir
from harness.plan.select import PlanSelection, selected
from harness.schedule.shards import parse_shard
from harness.spec import load_spec
from harness.until import Deadline, NotYet, TimedOut, until
from tests.embedded.run.runs import Ended, vmatrix
from tests.kill import whole_host
from tests.kill.table import CLEAN, DOUBLES, Results, read, written
from tests.kill.world import NAME

TABLE, BEGAN = pytest.StashKey[Results](), pytest.StashKey[float]()
COMMAND = "tox -e kill, or python -m tests.kill.world pytest -p no:cacheprovider tests/kill"
SHARING = 8  # points; then the instance goes, so that an interruption does not cost what came of more than these
INFRA_SECONDS = 900.0  # against hanging, as all below
SETTLE_SECONDS = 60.0  # against hanging: processes that were killed end when the kernel has the time


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add where the table goes."""
    parser.addoption("--keep-results", action="store_true", help="keep what came of the points in the table of docs/")
    parser.addoption("--missing", action="store_true", help="only points that the table has no clean result of")
    parser.addoption("--stop-after", type=float, default=math.inf, help="seconds after which no further point begins")


def pytest_configure(config: pytest.Config) -> None:
    """Name this checkout as the project of the commands that tests start in folders of their own."""
    if NAME not in os.environ:
        raise pytest.UsageError(f"these tests compare all of a host: {COMMAND}")
    if config.pluginmanager.hasplugin("cacheprovider"):
        raise pytest.UsageError(f"pytest's own cache would be a difference: {COMMAND}")
    config.stash[BEGAN] = time.monotonic()
    os.environ.setdefault(PROJECT, str(packaged_dir()))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is known to be clean, if only the rest is asked for, and what other shards have.

    `--shard` is an option of vmatrix's plugin. Here, a shard has points that follow each other: they share an instance.
    """
    if config.getoption("--missing"):
        _leave_out_clean(config, items)
    if text := config.getoption("shard"):
        try:
            shard = parse_shard(text)
        except BadInput as error:
            raise pytest.UsageError(f"{error.summary}; {error.hint}") from None
        first, last = (len(items) * end // shard.count for end in (shard.index - 1, shard.index))
        config.hook.pytest_deselected(items=items[:first] + items[last:])
        items[:] = items[first:last]


def _leave_out_clean(config: pytest.Config, items: list[pytest.Item]) -> None:
    known = {name for name, said in read().items() if said.startswith(CLEAN)}
    doubles = tuple(f"test_{name.replace('-', '_')}_" for name in known)
    done = [i for i in items if any(f"[{name}]" in i.name for name in known) or i.name.startswith(doubles)]
    config.hook.pytest_deselected(items=done)
    items[:] = [item for item in items if item not in done]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Begin no further point once the time is up; what the last one left is taken away as ever."""
    if time.monotonic() - item.config.stash[BEGAN] > item.config.getoption("--stop-after"):
        item.session.shouldstop = "the time is up"


@dataclass
class Ground:
    """An instance by name, and the world as it is without it, and with it alone."""

    layout: Layout
    single: Cell
    other: Cell  # runs beside it where a run needs workers
    without: Path
    results: Results
    before: set[str] = field(default_factory=set)
    alone: set[str] = field(default_factory=set)  # the world with the instance, and without any cell
    runs: list[str] = field(default_factory=list)  # that this instance had
    pending: list[str] = field(default_factory=list)  # points after which the instance stayed, and nothing else

    def infra(self, verb: str, folder: Path, env: dict[str, str] | None = None) -> Ended:
        """Bring the instance up, or take it down."""
        return vmatrix("infra", verb, "--name", self.layout.name, cwd=folder, env=env, seconds=INFRA_SECONDS)

    @contextmanager
    def noting(self, name: str) -> Iterator[None]:
        """Take a point down as failed if the body fails; one that is cut off has no result."""
        try:
            yield
        except Exception:
            self.results.note(name, "failed")
            raise

    def look(self) -> set[str]:
        """Return all that is in this world."""
        return whole_host.seen(self.without)

    def share(self, folder: Path) -> None:
        """Bring the instance up that several points share, unless it is up."""
        if len(self.pending) >= SHARING:
            self.clear(folder)
        if self.alone:
            return
        up = self.infra("up", folder)
        assert up.code == 0, up.stderr
        self.alone = self.look()

    def clear(self, folder: Path) -> None:
        """Take the shared instance down; what was pending is clean if the world is as before."""
        pending, self.pending = self.pending, []
        shared, self.alone, self.runs = bool(self.alone), set(), []
        if not shared:
            return
        down = self.infra("down", folder)
        for name in pending:
            self.results.note(name, "failed")
        assert down.code == 0, down.stdout + down.stderr
        self.require_the_same()
        for name in pending:
            self.results.note(name, CLEAN)

    def require_alone(self, run: str) -> None:
        """Compare the world with that of the instance alone.

        A run that had no namespace yet is in no answer to `reap`: its folder of sockets may wait for `infra down`.
        """
        self.runs.append(run)
        cells = (self.single.id, self.other.id)
        waiting = tuple(f"file {control_directory(run, cell)}" for run in self.runs for cell in cells)
        try:
            self._require(self.alone, lambda line: line[2:].startswith(waiting))
        except AssertionError:
            self.pending = []
            raise

    def require_the_same(self) -> None:
        """Compare the world with before. Raises AssertionError where something came or went."""
        assert not self.layout.root.exists()
        self._require(self.before, lambda _: False)

    def _require(self, wanted: set[str], passed: Callable[[str], bool]) -> None:
        def same() -> bool | NotYet:
            found = [line for line in whole_host.difference(wanted, self.look()) if not passed(line)]
            return NotYet("\n".join(found)) if found else True

        try:
            until(same, deadline=Deadline.after(SETTLE_SECONDS), what="this world to be as before", interval=1)
        except TimedOut as late:
            raise AssertionError(late.summary) from late


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory, results: Results) -> Iterator[Ground]:
    """Return the ground; with the limit that the first `infra up` raises until the next reboot."""
    spec = load_spec(packaged_dir() / "matrix")
    single, other = (selected(spec, "embedded", PlanSelection(tier=tier))[0].cell for tier in ("single", "smoke"))
    layout = layout_of(os.environ[NAME], "embedded")
    made = Ground(layout, single, other, tmp_path_factory.getbasetemp(), results)
    raise_inotify_limit()
    made.before = made.look()
    yield made
    made.clear(packaged_dir())  # folders of tests are gone by now
    made.infra("down", packaged_dir())


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest) -> Results:
    """Return what came of points so far; printed at the end, and kept at once if that is asked for."""
    found = Results(keeping=bool(request.config.getoption("--keep-results")))
    request.config.stash[TABLE] = found
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table."""
    if (found := config.stash.get(TABLE, None)) is not None:
        for line in written({**DOUBLES}, found.now):
            terminalreporter.write_line(line)
