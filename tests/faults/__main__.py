"""Breaks cells on purpose and counts what the checks say: `python -m tests.faults --help`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import VmatrixError
from harness.schedule.shards import parse_shard
from harness.session.plan import random_id
from harness.until import Deadline
from tests.faults import cells, commands, kept, passes, score
from tests.faults.cells import LAYOUTS, Patient
from tests.faults.fault import Fault, load
from tests.faults.suites import SUITES, Checks
from tests.faults.trial import Stuck, Trials, Verdict


def main(argv: Sequence[str]) -> int:
    """Try faults; return 0 when every one is found or missed as the list says, and the score is reached."""
    given = arguments(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the fault is undone, the cell torn down
    try:
        if given.commands:
            return _typed(given)
        return _passed(given) if given.passes else _tried(given)
    except VmatrixError as error:
        print(f"error ({error.blame.value}): {error.summary}\nhint: {error.hint}", file=sys.stderr)  # noqa: T201
        return error.exit_code


def _tried(given: argparse.Namespace) -> int:
    every = load()
    layouts = given.layout or list(LAYOUTS)
    earlier = kept.read(given.results, every) if given.resume else []
    known = {one.fault.id for one in earlier if one.as_expected}
    chosen = [fault for fault in every if fault.id in given.id] if given.id else every
    if given.shard:
        chosen = score.of_shard(chosen, layouts, parse_shard(given.shard))
    chosen = [fault for fault in chosen if (fault.quick or not given.quick) and fault.id not in known]
    session = _Session(given, Deadline.after(60 * given.minutes), len(every), earlier)
    for layout in layouts:
        mine = score.of_layout(chosen, layout, list(LAYOUTS) if given.resume else layouts)
        if mine and session.deadline.remaining():
            session.layout(layout, mine)
    print(score.report(session.verdicts, session.stuck))  # noqa: T201
    score.write(session.verdicts, given.results, len(every))
    return 1 if session.stuck or not score.good(session.verdicts) else 0


def _typed(given: argparse.Namespace) -> int:
    (layout,) = given.layout or ["single"]
    with _patient(given, layout) as patient:
        return 1 if commands.type_all(patient, _say) else 0


def _passed(given: argparse.Namespace) -> int:
    (layout,) = given.layout or ["single"]
    every = passes.read(given.results) if given.resume else []

    def tell(seen: passes.Pass) -> None:
        every.append(seen)
        passes.write(every, given.results)
        _say(passes.line(len(every), seen))

    with _patient(given, layout) as patient:
        checks = Checks(patient.guest.environment.cell, patient.mirror)
        Trials(patient, layout, checks, _say).prove_healthy(SUITES)
        try:
            with passes.busy(given.load):
                deadline = Deadline.after(60 * given.minutes)
                passes.run(patient, checks, given.passes - len(every), deadline, tell)
        finally:
            checks.clear(patient.inspection())
    _say(passes.report(every, given.passes))
    return 1 if any(seen.said for seen in every) or len(every) < given.passes else 0


@contextmanager
def _patient(given: argparse.Namespace, layout: str) -> Iterator[Patient]:
    """Give the cell that was named, or one that is made and torn down."""
    if given.run is not None:
        yield cells.kept(layout, given.run, given.infra_name)
        return
    run_id = random_id()
    with cells.made(layout, given.infra_name, run_id, given.results.resolve() / run_id) as patient:
        yield patient


@dataclass
class _Session:
    """One call: what it was given, until when it begins faults, and what became of them, earlier calls included."""

    given: argparse.Namespace
    deadline: Deadline
    listed: int
    verdicts: list[Verdict]
    stuck: list[str] = field(default_factory=list)

    def layout(self, layout: str, faults: Sequence[Fault]) -> None:
        with _patient(self.given, layout) as patient:
            self._try(patient, layout, faults)

    def _try(self, patient: Patient, layout: str, faults: Sequence[Fault]) -> None:
        checks = Checks(patient.guest.environment.cell, patient.mirror)
        trials = Trials(patient, layout, checks, _say, self._keep)
        try:
            trials.run(faults, self.deadline)
        except Stuck as trouble:
            self.stuck.append(f"{layout}: {trouble}")
            _say(self.stuck[-1])
        finally:
            trials.checks.clear(patient.inspection())

    def _keep(self, verdict: Verdict) -> None:
        self.verdicts[:] = kept.together(self.verdicts, [verdict])
        score.write(self.verdicts, self.given.results, self.listed)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Return what the command line says. results: a part of all faults has a folder of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the faults that `make test` tries")
    parser.add_argument("--id", action="append", help="only this fault; can be repeated")
    parser.add_argument("--layout", action="append", choices=[*LAYOUTS], help="only in this layout; can be repeated")
    parser.add_argument("--shard", help="I/N: part I of N; parts take about equally long")
    parser.add_argument(
        "--passes", type=int, default=0, help="instead: look so often at a healthy cell for false alarms"
    )
    parser.add_argument(
        "--commands", action="store_true", help="instead: type every command that a failed check prints"
    )
    parser.add_argument("--load", type=int, default=0, help="with --passes: processes that keep the host busy")
    parser.add_argument("--resume", action="store_true", help="go on where an earlier call stopped, by its results")
    parser.add_argument("--minutes", type=float, default=600, help="begin no fault after that")
    parser.add_argument(
        "--infra-name", default="faults", help="an embedded infrastructure; brought up if need be, left up"
    )
    parser.add_argument("--run", help="break the cell of that layout that this run kept: an id, or `last`")
    parser.add_argument("--results", type=Path, help="directory for the score; default: runs/faults, or a part's in it")
    given = parser.parse_args(argv)
    part = [given.shard.replace("/", "-of-")] if given.shard else []
    given.results = given.results or Path("runs", "faults", *part)
    return given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
