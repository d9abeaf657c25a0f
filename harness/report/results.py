"""A run's results.jsonl as frozen dataclasses: when it ran, its cells, their attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.check_result import CheckResult
from harness.events import Took, in_sequence, recorded
from harness.model import Outcome
from harness.plan.quarantine import match
from harness.report.cell import OUTCOMES, TEARDOWN, CellResult, Step, WorkerAssignment
from harness.rundir import RunDir
from harness.spec.models import QuarantineEntry

Event = dict[str, Any]
ENDS_KEEPING = {TEARDOWN, "worker"}  # steps after which nothing of a cell is left: a lost worker's remains are reaped


def seconds_between(start: str, end: str) -> float:
    """Return the seconds from one RFC 3339 moment to another, 0 when the clock was set back."""
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def was_kept(events: list[Event]) -> bool:
    """Tell whether a cell was kept and no later attempt took it away: a teardown is of all attempts of a cell."""
    kept = False
    for event in events:
        if event["event"] == "kept":
            kept = True
        elif event["event"] == "step-end" and event["step"][-1] in ENDS_KEEPING:
            kept = False
    return kept


def cell_result(cell: str, run_dir: Path, events: list[Event]) -> CellResult:
    """Return one cell from its events.

    Each event has in `since` when its call of the run began, and in `signalled` whether the call had been told to end.
    """
    steps = _steps(events)
    failed = [s for s in steps if s.outcome == Outcome.FAILED]
    # an inner step's failure is its parents' too: show the innermost, once
    inner = tuple(s for s in failed if not any(_inside(other, s) for other in failed))
    last_call = [e for e in events if e["since"] == events[-1]["since"]]
    admitted = next((_admitted(e) for e in reversed(last_call) if e["event"] == "admitted"), None)
    cut = frozenset(int(e["attempt"]) for e in events if e["signalled"] and e.get("step") == [TEARDOWN])
    return CellResult(
        cell,
        str(RunDir(run_dir).attempt(cell).path),
        steps,
        _checks(events),
        inner,
        admitted,
        cut,
        was_kept(events),
        _usage(events),
        next((e["around"] for e in reversed(events) if e["event"] == "placed"), {}),
    )


def _usage(events: list[Event]) -> dict[str, dict[str, int]]:
    """Return what machines took in the last attempt, if that was measured; of two accounts of it, the later."""
    told = [e for e in events if e["event"] == "usage"]
    last = max((int(e["attempt"]) for e in events if "attempt" in e), default=0)
    took: dict[str, dict[str, Any]] = next((e["took"] for e in reversed(told) if int(e["attempt"]) == last), {})
    known = Took.model_fields  # others are of a later version
    return {machine: {name: n for name, n in of.items() if name in known} for machine, of in took.items()}


def _inside(inner: Step, outer: Step) -> bool:
    depth = len(outer.path)
    return inner.attempt == outer.attempt and len(inner.path) > depth and inner.path[:depth] == outer.path


def _admitted(event: Event) -> WorkerAssignment:
    return WorkerAssignment(
        worker=event.get("worker", ""),
        after=seconds_between(event["since"], event["time"]),
        expected=float(event.get("expected", 0.0)),
        source=event.get("source", ""),
    )


def _checks(events: list[Event]) -> tuple[CheckResult, ...]:
    """Return checks in the order in which they ended; one that passed and then failed to clean up has failed."""
    checks: list[CheckResult] = []
    for event in events:
        if event["event"] != "check":
            continue
        check = CheckResult.of(event)
        before = checks[-1] if checks else None
        if (
            before is not None
            and (before.outcome, check.outcome) == (Outcome.PASSED, Outcome.FAILED)
            and _same(before, check)
        ):
            check = replace(check, seconds=before.seconds + check.seconds)
            checks.pop()
        checks.append(check)
    return tuple(checks)


def _same(check: CheckResult, other: CheckResult) -> bool:
    return (check.attempt, check.stage, check.title) == (other.attempt, other.stage, other.title)


def _steps(events: list[Event]) -> tuple[Step, ...]:
    """Return steps in the order in which they began; one without an end is unfinished.

    A step may come twice in an attempt: a teardown that was interrupted or failed is tried again.
    """
    steps: list[Step] = []
    under_way: dict[tuple[int, tuple[str, ...]], int] = {}
    for event in events:
        if event["event"] not in ("step-start", "step-end"):
            continue
        key = int(event["attempt"]), tuple(event["step"])
        if event["event"] == "step-start":
            under_way[key] = len(steps)
            steps.append(Step(path=key[1], attempt=key[0], outcome=Outcome.UNFINISHED, seconds=0.0))
        elif key in under_way:
            steps[under_way.pop(key)] = _ended(key, event)
    return tuple(steps)


def _ended(key: tuple[int, tuple[str, ...]], event: Mapping[str, Any]) -> Step:
    return Step(
        path=key[1],
        attempt=key[0],
        outcome=Outcome(event.get("outcome", Outcome.UNFINISHED)),
        seconds=float(event.get("seconds", 0.0)),
        blame=event.get("blame", ""),
        summary=event.get("summary", ""),
        hint=event.get("hint", ""),
        detail=event.get("detail", ""),
        paths=tuple(event.get("paths", ())),
        exit_code=int(event.get("exit_code", 0)),
    )


LEFT_OUT = "left-out"  # event of a cell of which nothing was selected

STARTS = ("run-start", "rerun-start")


@dataclass(frozen=True)
class Session:
    """One call of a run: the first one, or a rerun of what had failed.

    seconds: from its start to its last event.  parallel: how many cells could be under way at once.
    exit_code: None when it was killed, or is still under way.
    """

    started: str
    seconds: float
    command: str
    cells: int
    parallel: int
    exit_code: int | None


@dataclass(frozen=True)
class Sighting:
    """A symptom in a cell: how many lines fit, and the first of them with its file, "" for a message."""

    cell: str
    name: str
    count: int
    line: str
    file: str = ""
    means: str = ""

    @staticmethod
    def of(told: Mapping[str, Any]) -> Sighting:
        """Return what a run has written down; fields of a later version are left out."""
        return Sighting(**{f.name: told[f.name] for f in fields(Sighting) if f.name in told})


@dataclass(frozen=True)
class Culprit:
    """The commit that values fail since, as bisection found it; or why it found none.

    checks: what fails.  commit, title, author, date: of the commit, "" without.  owners: of the files that it changes.
    paths: the files of the values, where there is no commit.
    """

    values: tuple[tuple[str, str], ...]
    checks: tuple[str, ...]
    commit: str = ""
    title: str = ""
    author: str = ""
    date: str = ""
    owners: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    why: str = ""

    @staticmethod
    def of(event: Mapping[str, Any]) -> Culprit:
        """Return what a run has written down."""
        checks, owners, paths = (tuple(map(str, event.get(name, ()))) for name in ("checks", "owners", "paths"))
        commit, title, author, date, why = (
            str(event.get(name, "")) for name in ("commit", "title", "author", "date", "unknown")
        )
        values = tuple((str(axis), str(value)) for axis, value in event["suspect"].items())
        return Culprit(values, checks, commit, title, author, date, owners, paths, why)

    @property
    def event(self) -> dict[str, Any]:
        """Return the fields of the event that says it."""
        texts = {"commit": self.commit, "title": self.title, "author": self.author, "date": self.date}
        lists = {"checks": list(self.checks), "owners": list(self.owners), "paths": list(self.paths)}
        return {"suspect": dict(self.values), **lists, **texts, "unknown": self.why}

    @property
    def said(self) -> str:
        """Return it as the end of a sentence about the suspect."""
        since = f"since {self.title} ({self.author}, {self.date})" if self.commit else f"since when: {self.why}"
        owners = f"; owners: {', '.join(self.owners)}" if self.owners else ""
        return since + (owners or (f"; look at {', '.join(self.paths)}" if self.paths else ""))


@dataclass(frozen=True)
class RunResult:
    """A run: its id, how it was started, its cells in plan order, its exit code (None when it was killed).

    kept: ids of failed cells that were left as they were and not taken away since.
    error: what ended the run outside of any cell, empty without.
    signal: the number of the one that ended the last call, 0 without.
    not_run: of a call that a signal ended, how many steps and checks of each cell it did not get to.
    infra: what became of parts of the infra cluster that ended meanwhile, a sentence each.
    product: what was tested, where its sources are no part of the project; empty otherwise.
    foreign: the lines of its results file that no run wrote; they are read past.
    values: the value of each cell on every axis.  together: the groups of axes that some tier covers together.
    further: the cells that were added to tell suspects apart.  no_further: why there are no more, a sentence each.
    culprits: since when suspects fail.  symptoms: lines of failed cells with a known meaning; each as `Sighting`.
    night: the date whose cells the tier had, "" where nights do not differ.
    """

    run: str
    directory: Path
    cleanup: str
    cells: tuple[CellResult, ...]
    sessions: tuple[Session, ...] = ()
    tier: str | None = None
    night: str = ""
    together: tuple[tuple[str, ...], ...] = ()
    kept: frozenset[str] = frozenset()
    error: str = ""
    signal: int = 0
    not_run: Mapping[str, int] = field(default_factory=dict)
    product: str = ""
    infra: tuple[str, ...] = ()
    foreign: tuple[int, ...] = ()
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    further: tuple[str, ...] = ()
    no_further: tuple[str, ...] = ()
    culprits: tuple[Culprit, ...] = ()
    symptoms: tuple[Sighting, ...] = ()
    given_up: tuple[str, ...] = ()

    @property
    def started(self) -> str:
        """Return when the run started first, RFC 3339."""
        return self.sessions[0].started if self.sessions else ""

    @property
    def command(self) -> str:
        """Return the last call."""
        return self.sessions[-1].command if self.sessions else ""

    @property
    def parallel(self) -> int:
        """Return how many cells could be under way at once in the last call."""
        return self.sessions[-1].parallel if self.sessions else 1

    @property
    def exit_code(self) -> int | None:
        """Return the last call's exit code."""
        return self.sessions[-1].exit_code if self.sessions else None

    @property
    def outcomes(self) -> dict[str, int]:
        """Return how many cells had which outcome, the worst first."""
        counts = Counter(cell.outcome for cell in self.cells)
        return {word: counts[word] for word in OUTCOMES if counts[word]}


def load(run_dir: Path, *, quarantine: Sequence[QuarantineEntry] = ()) -> RunResult:
    """Load a run's results; an empty run when nothing was written yet."""
    journal = recorded(run_dir)
    events = in_sequence(journal.events)
    start = next((e for e in events if e["event"] == "run-start"), {})
    ids = dict.fromkeys([*start.get("cells", []), *(e["cell"] for e in events if "cell" in e)])
    by_cell: dict[str, list[Event]] = {i: [] for i in ids}
    outside = {e["cell"] for e in events if e["event"] == LEFT_OUT} - {
        e["cell"] for e in events if "cell" in e and e["event"] != LEFT_OUT
    }
    for cell in outside:
        del ids[cell], by_cell[cell]
    calls = _calls(events)
    for call in calls:
        signalled = False
        for event in call:
            signalled = signalled or event["event"] == "signal"
            if event.get("cell") in by_cell:
                by_cell[event["cell"]].append({**event, "since": call[0]["time"], "signalled": signalled})
    last = calls[-1] if calls else []
    values = {cell: of_cell for e in events for cell, of_cell in (e.get("values") or {}).items()}
    errors = [e.get("summary", "") for e in last if e["event"] == "run-error"]
    symptoms = next((e for e in reversed(events) if e["event"] == "symptoms"), {"sightings": (), "given_up": ()})
    followed = [e for e in events if e["event"] == "follow-up"]
    return RunResult(
        run=start.get("run", run_dir.name),
        directory=run_dir,
        cleanup=start.get("cleanup", ""),
        cells=tuple(excused(cell_result(i, run_dir, by_cell[i]), values.get(i, {}), quarantine) for i in ids),
        sessions=tuple(_session(call) for call in calls if call[0]["event"] in STARTS),
        tier=start.get("tier"),
        night=start.get("night", ""),
        together=tuple(tuple(group) for group in start.get("together", ())),
        kept=frozenset(i for i in ids if was_kept(by_cell[i])),
        error=errors[-1] if errors else "",
        signal=next((int(e["number"]) for e in last if e["event"] == "signal"), 0),
        not_run=next((e["not_run"] for e in last if e["event"] == "run-end" and "not_run" in e), {}),
        product=product_in(events),
        infra=tuple(" ".join(str(e["said"]).split()) for e in last if e["event"] == "infra"),
        foreign=journal.foreign,
        values=values,
        further=tuple(dict.fromkeys(str(cell) for e in followed for cell in e["cells"])),
        no_further=tuple(map(str, followed[-1]["no_further"])) if followed else (),
        symptoms=tuple(Sighting.of(sighting) for sighting in symptoms["sightings"]),
        given_up=tuple(map(str, symptoms["given_up"])),
        culprits=tuple(Culprit.of(e) for e in events if e["event"] == "culprit"),
    )


def product_in(events: Iterable[Mapping[str, Any]]) -> str:
    """Return which product was tested, as the run wrote it down; "" where its sources are part of the project."""
    return next((str(e["said"]) for e in reversed([*events]) if e["event"] == "product"), "")


def excused(cell: CellResult, values: Mapping[str, str], entries: Sequence[QuarantineEntry]) -> CellResult:
    """Return the cell, here with its values by axis, with the failures marked that are in quarantine."""
    today = datetime.now(UTC).date()

    def issue(check: str | None) -> str:
        entry = match(entries, cell.id, values, check, today)
        return entry.issue if entry is not None else ""

    def step(step_to_judge: Step) -> Step:
        counts = (
            step_to_judge.outcome == Outcome.FAILED and step_to_judge.path[0] != TEARDOWN
        )  # what stays behind is never excused
        return replace(step_to_judge, quarantine=issue(None)) if counts else step_to_judge

    def check(check_to_judge: CheckResult) -> CheckResult:
        return (
            replace(check_to_judge, quarantine=issue(check_to_judge.title))
            if check_to_judge.outcome == Outcome.FAILED
            else check_to_judge
        )

    return replace(
        cell,
        steps=tuple(map(step, cell.steps)),
        failures=tuple(map(step, cell.failures)),
        checks=tuple(map(check, cell.checks)),
    )


def _calls(events: list[Event]) -> list[list[Event]]:
    """Return the events of each call of the run, the first one and every rerun."""
    calls: list[list[Event]] = []
    for event in events:
        if event["event"] in STARTS or not calls:
            calls.append([])
        calls[-1].append(event)
    return calls


def _session(call: list[Event]) -> Session:
    first, last = call[0], call[-1]
    return Session(
        started=first["time"],
        seconds=seconds_between(first["time"], last["time"]),
        command=first.get("command", ""),
        cells=len(first.get("cells", [])),
        parallel=int(first.get("parallel", 1)),
        exit_code=int(last["exit_code"]) if last["event"] == "run-end" else None,
    )
