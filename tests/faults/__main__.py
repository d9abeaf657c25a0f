"""Breaks cells on purpose and counts what the checks say: `python -m tests.faults --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.errors import VmatrixError
from harness.session.plan import random_id
from tests.faults import cells, score
from tests.faults.cells import LAYOUTS, Patient
from tests.faults.fault import Fault, load
from tests.faults.suites import Checks
from tests.faults.trial import Stuck, Trials, Verdict


def main(argv: Sequence[str]) -> int:
    """Try faults; return 0 when every one is found or missed as the list says, and the score is reached."""
    given = _arguments(argv)
    try:
        return _tried(given)
    except VmatrixError as error:
        print(f"error ({error.blame.value}): {error.summary}\nhint: {error.hint}", file=sys.stderr)  # noqa: T201
        return error.exit_code


def _tried(given: argparse.Namespace) -> int:
    faults = [fault for fault in load() if not given.id or fault.id in given.id]
    chosen = [fault for fault in faults if fault.quick or not given.quick]
    stuck: list[str] = []
    verdicts: list[Verdict] = []
    for layout in given.layout or list(LAYOUTS):
        mine = score.of_layout(chosen, layout, given.layout or list(LAYOUTS))
        if mine:
            verdicts += _layout(given, layout, mine, stuck)
    print(score.report(verdicts, stuck))  # noqa: T201
    score.write(verdicts, given.results)
    return 1 if stuck or not score.good(verdicts) else 0


def _layout(given: argparse.Namespace, layout: str, faults: Sequence[Fault], stuck: list[str]) -> list[Verdict]:
    run_id = random_id()
    if given.cell is not None:
        return _try(cells.kept(layout, given.cell), layout, faults, stuck, quick=given.quick)
    with cells.made(layout, given.infra_name, run_id, given.results.resolve() / run_id) as patient:
        return _try(patient, layout, faults, stuck, quick=given.quick)


def _try(patient: Patient, layout: str, faults: Sequence[Fault], stuck: list[str], *, quick: bool) -> list[Verdict]:
    checks = Checks(patient.guest.environment.cell, patient.mirror)
    trials = Trials(patient, layout, checks, _say, own_suite=quick)
    try:
        trials.run(faults)
    except Stuck as trouble:
        stuck.append(f"{layout}: {trouble}")
        _say(stuck[-1])
    finally:
        trials.checks.clear(patient.inspection())
    return trials.done


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the faults that `make test` tries")
    parser.add_argument("--id", action="append", help="only this fault; can be repeated")
    parser.add_argument("--layout", action="append", choices=[*LAYOUTS], help="only in this layout; can be repeated")
    parser.add_argument("--infra-name", default="faults", help="an embedded infrastructure that is up")
    parser.add_argument("--cell", type=Path, help="directory of a cell of that layout that a run kept")
    parser.add_argument("--results", type=Path, default=Path("runs/faults"), help="directory for the score")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
