"""Speed and size: `python -m tests.bench`. Prints figures beside their targets and writes them down as JSON.

A figure above its target is not a failure. What does not work at all is: exit code 1, after everything else was
measured. The infrastructure that it brings up is taken down whatever happens, a signal included.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType

from rich.console import Console

from harness.cell.steps import flatten
from harness.errors import BadInput, VmatrixError
from tests.bench import (
    cells,
    deliver,
    deploy,
    infra,
    lifecycle,
    machines,
    many,
    operator,
    own_image,
    parallel,
    planning,
    pods,
    products,
    report,
    schedule,
    suspects,
    sweep,
    through_operator,
)
from tests.bench.figures import Ledger, describe_host, show, stretch
from tests.bench.ground import Ground, clear, lay, warm
from tests.bench.history import append, commit, rows_of

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHORTEST_TABLE = 160  # columns, so that a log file gets whole lines
Measurement = Callable[[Ground, Ledger, int], None]
MEASUREMENTS: dict[str, Measurement] = {
    "image": own_image.measure,
    "machines": machines.measure,
    "cell": cells.measure,
    "deploy": deploy.measure,
    "operator": operator.measure,
    "many": many.measure,
    "many-etcd": many.measure_etcd,
    "sweep": sweep.measure,
    "through-operator": through_operator.measure,
    "lifecycle": lifecycle.measure,
    "parallel": parallel.measure,
    "products": products.measure,
}
# Measured only if they are named: the sources of the products may be anywhere, the lifecycle tiers take two hours, and
# many clusters or cells minutes.
ASKED = frozenset({"products", "lifecycle", "many", "many-etcd", "sweep", "rotation", "suspects"})
# what needs neither an infrastructure nor artifacts
COMPUTED: dict[str, Callable[[Ledger, int], None]] = {
    "planning": planning.measure,
    "schedule": schedule.measure,
    "report": report.measure,
    "rotation": planning.measure_nights,
    "suspects": suspects.measure,
}


class Stopped(BaseException):
    """A signal asked the bench to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def main() -> int:
    """Measure everything; return the exit code."""
    given = _arguments()
    console = Console(highlight=False, soft_wrap=False)
    if console.width < SHORTEST_TABLE:
        console = Console(highlight=False, width=SHORTEST_TABLE)
    at = datetime.now(UTC)
    stem = f"bench-{at:%Y%m%dT%H%M%S}"
    progress = Console(stderr=True, highlight=False, soft_wrap=True)
    for number in SIGNALS:
        signal.signal(number, _stop)
    try:
        ground = lay(given.name, (Path("runs") / stem).resolve(), lambda line: progress.print(line, markup=False))
    except BadInput as error:
        progress.print(f"{error.summary}\nhint: {error.hint}", markup=False)
        return error.exit_code
    ledger = Ledger(describe_host())
    stopped = 0
    try:
        _measure(ground, ledger, given)
    except Stopped as stop:
        stopped = stop.number
        ledger.problems.append(f"stopped by {stop} before everything was measured")
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # a second one must not leave half of it behind
        done = clear(ground)
        if done.returncode != 0:
            ledger.problems.append(f"`vmatrix infra down` ended with status {done.returncode}: {done.stdout}")
    file = given.json if given.json is not None else Path("runs") / f"{stem}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"time": at.isoformat(), **ledger.as_json()}, indent=2) + "\n", encoding="utf-8")
    show(ledger, console)
    console.print(f"figures: {file}")
    if given.record:
        append(rows_of(ledger, at.date(), commit()))
    if stopped:
        return 128 + stopped
    return 1 if ledger.problems else 0


def _measure(ground: Ground, ledger: Ledger, given: argparse.Namespace) -> None:
    """Take every measurement; one that fails does not keep the next from being taken."""
    runs, only = given.runs, given.only
    chosen: Measurement = partial(lifecycle.measure, cells=given.cells)
    measurements = {**MEASUREMENTS, "lifecycle": chosen}
    for name in (n for n in COMPUTED if n in only):
        _attempt(name, partial(COMPUTED[name], ledger, runs), ledger)
    if set(only) <= set(COMPUTED):
        return
    _attempt("artifacts", lambda: warm(ground), ledger)
    if "infra" in only:
        _attempt("infra", lambda: infra.measure(ground, ledger, runs), ledger)
    if "pods" in only:
        _attempt("pods", lambda: pods.measure(ground, ledger, runs), ledger)
    if "deliver" in only:
        _attempt("deliver", lambda: deliver.measure(ground, ledger, runs), ledger)
    if not _attempt("infra for the cells", lambda: infra.command(ground, "up"), ledger):
        return
    for name in (n for n in MEASUREMENTS if n in only):
        _attempt(name, partial(measurements[name], ground, ledger, runs), ledger)
    _attempt("controllers", lambda: infra.controllers(ground, ledger), ledger)


def _attempt(name: str, work: Callable[[], object], ledger: Ledger) -> bool:
    ledger.stretch[name] = stretch()
    try:
        work()
    except (VmatrixError, OSError, ExceptionGroup) as error:
        found = flatten(error)
        detail = f"\n{found.detail}" if isinstance(found, VmatrixError) and found.detail else ""
        ledger.problems.append(f"{name}: {found}{detail}")
        return False
    return True


def _stop(number: int, _: FrameType | None) -> None:
    raise Stopped(number)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--name", default="bench", help="of the embedded infrastructure that is brought up for it")
    parser.add_argument("--runs", type=int, default=1, help="how often each thing is measured; the median counts")
    parser.add_argument("--json", type=Path, help="where the figures go; runs/bench-TIME.json without it")
    parser.add_argument("--record", action="store_true", help="add the figures to history.csv and docs/benchmarks.md")
    every = (*COMPUTED, "infra", "pods", "deliver", *MEASUREMENTS)
    usual = [name for name in every if name not in ASKED]
    parser.add_argument("--only", nargs="+", choices=every, default=usual, help="measure nothing else")
    parser.add_argument("--cells", nargs="+", default=[], help="of `lifecycle`, chosen as by `vmatrix run`")
    given = parser.parse_args()
    if given.runs < 1:
        parser.error("--runs must be at least 1")
    return given


if __name__ == "__main__":
    sys.exit(main())
