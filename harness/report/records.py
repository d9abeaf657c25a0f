"""Records of a run for the history: one for each of its cells, kept at its end or by `vmatrix history add`.

Everything comes from results.jsonl, so that a run that was killed can be added by another process later; what the
results do not say (where it ran, the cells' values) its start has written there.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.check_result import LINE, CheckResult, shortened
from harness.errors import BadInput
from harness.events import EARLIEST, LATEST, LONGEST_RUN, MOST_SECONDS, in_sequence, moment, recorded
from harness.events import read as read_events
from harness.history import origin
from harness.history.file import FileStore, content, replace_file
from harness.history.lines import History, Skipped, once, read, united
from harness.history.origin import JOB
from harness.history.record import (
    ABSENT,
    LETTERS,
    QUARANTINED_CHECK,
    AttemptRecord,
    CheckNote,
    CheckRow,
    CheckTable,
    MachineRecord,
    Record,
    RunOrigin,
    StepRecord,
    Unreadable,
    part_of,
    to_line,
)
from harness.history.store import file_of
from harness.model import Cell, Outcome
from harness.report.cell import CellResult, Step
from harness.report.results import STARTS, Culprit, RunResult, load
from harness.rundir import HISTORY, RESULTS, RunDir
from harness.sanitize import scrubber
from harness.schedule.durations import estimate
from harness.spec.models import QuarantineEntry
from harness.spec.settings import Settings
from harness.validate.performance.figures import carried_in

MOST_TEXT = 2000  # characters of a failure's text; the whole is in the logs
LONG_TEXTS = 8  # failed checks of a cell whose texts are kept so long; when more fail, they mostly say the same
SHORT_TEXT = 300
BLAMES = ("harness", "product", "infra", "user")  # of several, the first: as the exit code says it
EPOCH = "1970-01-01T00:00:00Z"
MOST_AHEAD = 3e9  # seconds, a century: no clock is so wrong
Scrub = Callable[[str], str]


def started_fields(
    values: Mapping[str, Mapping[str, str]], *, infra: str, provider: str, checkout: Path, directory: Path
) -> dict[str, Any]:
    """Return what a run's first event says for the history; `values` and `directory` are the cells' and the run's."""
    root = origin.root(os.environ)
    inside = directory.resolve()
    return {
        "values": {cell: dict(of_cell) for cell, of_cell in values.items()},
        "infra": infra,
        "provider": provider,
        "where": asdict(origin.where(checkout, os.environ)),
        "logs": str(inside.relative_to(root) if inside.is_relative_to(root) else inside),
    }


def records_of(
    run_dir: Path, *, quarantine: Sequence[QuarantineEntry] = (), cells: Iterable[str] | None = None
) -> tuple[Record, ...]:
    """Return the records of a run's cells: of all, or of those whose ids are in `cells`."""
    chosen = None if cells is None else set(cells)
    result = load(run_dir, quarantine=quarantine)
    written = read_events(run_dir)
    events = in_sequence(written)
    start: dict[str, Any] = next((e for e in events if e.get("event") in STARTS), {})
    since = next((e["time"] for e in written if e.get("event") in STARTS), EPOCH)  # as it was written: it is in the id
    again = [e for e in events if e.get("event") == "rerun-start" and "where" in e]
    culprits = {e["cell"]: e for e in events if e.get("event") == "culprit"}
    made = _Made(result, since, {**start, **(again[-1] if again else {})}, scrubber(os.environ), culprits)
    times = _times(events)
    unbegun = (_corrected(start.get("time", EPOCH), _ahead(start)),) * 2
    return tuple(
        made.record(cell, *times.get(cell.id, unbegun)) for cell in result.cells if chosen is None or cell.id in chosen
    )


def _times(events: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """Return when each cell's first and last events were, by its id: by GitLab's clock where jobs wrote them."""
    times: dict[str, tuple[str, str]] = {}
    ahead = timedelta()
    for event in events:
        if event.get("event") in STARTS:
            ahead = _ahead(event)
        cell = event.get("cell")
        if isinstance(cell, str):
            time = _corrected(event["time"], ahead)
            times[cell] = (times[cell][0] if cell in times else time, time)
    return times


def _corrected(time: str, ahead: timedelta) -> str:
    return min(max(moment(time) - ahead, EARLIEST), LATEST - timedelta(days=1)).isoformat()


def _ahead(start: Mapping[str, Any]) -> timedelta:
    """Return by how much the clock of the host that a call of the run was on was ahead; 0 where it was set since."""
    if "moved" in start:
        return timedelta()
    ahead = start.get("where", {}).get("ahead")
    told = isinstance(ahead, int | float) and abs(ahead) < MOST_AHEAD
    return timedelta(seconds=float(ahead)) if told else timedelta()


@dataclass(frozen=True)
class _Made:
    """What the records of one run have in common."""

    result: RunResult
    since: str
    last: Mapping[str, Any]
    scrub: Scrub
    culprits: Mapping[str, Mapping[str, Any]]

    def record(self, cell: CellResult, began: str, ended: str) -> Record:
        """Return one cell's record."""
        began, ended = _utc(began), _utc(ended)
        since = _utc(self.since)
        attempt = cell.last_attempt if cell.attempts else 0
        directory = self.last.get("logs", str(self.result.directory))
        return Record(
            id=f"{since.translate({ord(c): None for c in '-:.'})}.{self.result.run[:LONGEST_RUN]}.{cell.id}.{attempt}",
            run=self.result.run,
            cell=cell.id,
            started=began,
            finished=max(began, ended),  # a clock may be set back
            outcome=cell.outcome,
            axes=self.result.values.get(cell.id, {}),
            tier=self.result.tier or "",
            night=self.result.night,
            infra=self.last.get("infra", ""),
            provider=self.last.get("provider", ""),
            where=part_of(RunOrigin, {**self.last.get("where", {}), "product": self.result.product}),
            blame=_blame(cell.blames),
            seconds=_seconds(cell.last_seconds),
            waited=_seconds(cell.waited),
            parallel=self.result.parallel,
            attempts=tuple(self._attempt(cell, number) for number in cell.attempts),
            steps=tuple(self._step(s) for s in cell.steps if s.attempt == attempt or s.outcome != Outcome.PASSED),
            checks=self._table(cell),
            notes=self._notes(cell),
            counts=dict(Counter(c.outcome for c in cell.last_checks)),
            figures=_figures(cell),
            usage={machine: part_of(MachineRecord, took) for machine, took in cell.usage.items()},
            around={self.scrub(name): self.scrub(text) for name, text in cell.around.items()},
            symptoms={
                sighting.name: self.scrub(sighting.line)
                for sighting in self.result.symptoms
                if sighting.cell == cell.id
            },
            culprit=_culprit(self.culprits.get(cell.id, {}), self.scrub),
            logs=str(cell.logs(attempt or 1)).replace(str(self.result.directory), directory, 1),
        )

    def _attempt(self, cell: CellResult, number: int) -> AttemptRecord:
        whose = {f.blame: 1 for f in cell.failed_of(number) if f.blame and not f.quarantine}
        return AttemptRecord(number, cell.outcome_of(number), _seconds(cell.seconds_of(number)), _blame(whose))

    def _step(self, step: Step) -> StepRecord:
        hint = f"hint: {step.hint}" if step.hint else ""
        parts = (shortened(self.scrub(part).strip(), MOST_TEXT) for part in (step.summary, step.detail, hint))
        return StepRecord(
            name=step.name,
            outcome=step.outcome,
            seconds=_seconds(step.seconds),
            attempt=step.attempt,
            blame=step.blame,
            message="\n".join(part for part in parts if part),
            quarantine=step.quarantine,
        )

    def _notes(self, cell: CellResult) -> tuple[CheckNote, ...]:
        """Return what failed and what did not run; the same words once."""
        groups: dict[CheckNote, list[str]] = {}
        failures = 0
        for check in _kept(cell):
            if check.outcome == Outcome.PASSED:
                continue
            failures += check.outcome == Outcome.FAILED
            note = self._note(check, MOST_TEXT if failures <= LONG_TEXTS else SHORT_TEXT)
            groups.setdefault(note, []).append(check.title)
        return tuple(replace(note, checks=tuple(dict.fromkeys(titles))) for note, titles in groups.items())

    def _note(self, check: CheckResult, most: int) -> CheckNote:
        failed = check.outcome is Outcome.FAILED
        return CheckNote(
            checks=(),
            message=shortened(self.scrub(check.detail.strip()), most),
            outcome=check.outcome,
            kind=check.kind,
            headline=shortened(self.scrub(check.headline), LINE) if failed else "",
            signature=shortened(self.scrub(check.signature), LINE) if failed else "",
            stage=check.stage,
            attempt=check.attempt,
            blame=check.blame,
            quarantine=check.quarantine,
        )

    def _table(self, cell: CellResult) -> CheckTable:
        """Return every check of the cell; a second one of the same title in a stage is as good as the worse of them."""
        kept = _kept(cell)
        names = tuple(dict.fromkeys(c.title for c in kept))
        rows: dict[tuple[int, str], dict[str, CheckResult]] = {}
        for check in kept:
            row = rows.setdefault((check.attempt, check.stage), {})
            before = row.get(check.title)
            if before is None or before.outcome != Outcome.FAILED:
                row[check.title] = check
        return CheckTable(names, tuple(_row(stage, n, names, checks) for (n, stage), checks in rows.items()))


def _culprit(event: Mapping[str, Any], scrub: Scrub) -> dict[str, str]:
    """Return since which commit a cell fails by a suspect's values; nothing where no commit was found."""
    if not event or not event.get("commit"):
        return {}
    culprit = Culprit.of(event)
    values = " with ".join(f"{axis} {value}" for axis, value in culprit.values)
    texts = {
        "values": values,
        "commit": culprit.commit,
        "title": culprit.title,
        "author": culprit.author,
        "date": culprit.date,
    }
    return {name: scrub(text) for name, text in {**texts, "owners": ", ".join(culprit.owners)}.items() if text}


def _figures(cell: CellResult) -> dict[str, dict[str, tuple[float, float]]]:
    """Return what the checks of the attempt that counts measured, by stage; of one measured twice, the last."""
    figures_by_stage: dict[str, dict[str, tuple[float, float]]] = {}
    for check in cell.last_checks:
        for figure in carried_in(check.properties):
            figures_by_stage.setdefault(check.stage, {})[f"{figure.name} {figure.where}".strip()] = (
                figure.value,
                figure.calibration,
            )
    return figures_by_stage


def _kept(cell: CellResult) -> list[CheckResult]:
    """Return the checks of the attempt that counts, and of those before what failed."""
    return [c for c in cell.checks if c.attempt == cell.last_attempt or c.outcome == Outcome.FAILED]


def _row(stage: str, attempt: int, names: Sequence[str], checks: Mapping[str, CheckResult]) -> CheckRow:
    letter = {t: QUARANTINED_CHECK if c.quarantine else LETTERS.get(c.outcome, ABSENT) for t, c in checks.items()}
    seconds = tuple(_seconds(checks[name].seconds) if name in checks else 0.0 for name in names)
    return CheckRow(
        stage, "".join(letter.get(name, ABSENT) for name in names), attempt, seconds if any(seconds) else ()
    )


def _seconds(sum_of: float) -> float:
    return round(min(sum_of, MOST_SECONDS), 1)


def _blame(blames: Mapping[str, int]) -> str:
    return next((b for b in BLAMES if b in blames), next(iter(blames), ""))


def _utc(moment: str) -> str:
    """Return an RFC 3339 moment in UTC with milliseconds and a Z."""
    at = datetime.fromisoformat(moment).astimezone(UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


FOREIGN = "no run wrote it"
GIVEN = "pass run directories, directories of them, or history files (.jsonl)"
DAMAGE = (BadInput, ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)


@dataclass(frozen=True)
class Collected:
    """What was found: records, each once, and what could not be read."""

    records: tuple[Record, ...]
    skipped: tuple[Skipped, ...]


def keep(
    run_dir: Path, settings: Settings, *, quarantine: Sequence[QuarantineEntry], cells: Iterable[Cell] | None = None
) -> None:
    """Write a run's records beside its results and, outside of a job, into this machine's history file.

    A job's files are its own, and as artifacts of many jobs they would overwrite each other. There the records beside
    the results are added by the job that has them all.

    Args:
        cells: those that this call of the run had; all of the run without.

    Raises:
        InfraError: a file could not be written.
    """
    estimates = None if cells is None else {cell.id: round(estimate(cell), 1) for cell in cells}
    records = records_of(run_dir, quarantine=quarantine, cells=estimates)
    records = tuple(replace(record, estimate=(estimates or {}).get(record.cell, 0.0)) for record in records)
    own = RunDir(run_dir).history
    before = content(own) if os.path.lexists(own) else b""
    replace_file(own, united(before, *map(to_line, records)))
    if not os.environ.get(JOB):
        FileStore(file_of(settings)).append(records)


def collect(paths: Sequence[Path], *, quarantine: Sequence[QuarantineEntry]) -> Collected:
    """Return the records of runs and of history files.

    Args:
        paths: directories of runs, directories that hold some, .jsonl files. An empty directory holds no run; so does
            one that does not exist if it is the only one: a run may have died before it began.

    Raises:
        BadInput: a path does not exist, or is not such a thing.
    """
    runs: list[Path] = []
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            own = RunDir(path)
            runs += [path] if own.results.is_file() else [run.path for run in RunDir.all_in(path)]
            files += [p for p in (own.history,) if p.is_file() and path in runs] + sorted(path.glob(f"*/{HISTORY}"))
        elif path.name == RESULTS and path.is_file():
            runs.append(path.parent)
        elif path.is_file():
            files.append(path)
        elif os.path.lexists(path):
            raise BadInput(f"{path} is neither a folder nor a regular file", hint=GIVEN)
        elif len(paths) > 1 or path.suffix:
            raise BadInput(f"{path} does not exist", hint=GIVEN)
    records, skipped = _runs(runs, quarantine)
    history: History = read((str(file), content(file)) for file in files)
    # what a run itself wrote down comes first: it knew the quarantine of its day
    return Collected(once([*history.records, *records]), (*skipped, *history.skipped))


def refuse_without_runs(path: Path) -> None:
    """Refuse a path where no run and no history can be.

    Raises:
        BadInput: it does not exist; or it is a folder with other things, and neither a run's nor one of runs.
    """
    if not path.exists():
        raise BadInput(f"{path} does not exist", hint=GIVEN)
    if path.is_dir() and any(path.iterdir()):
        known = RunDir(path).results, RunDir(path).history, *path.glob(f"*/{RESULTS}"), *path.glob(f"*/{HISTORY}")
        if not any(map(os.path.lexists, known)):
            raise BadInput(f"{path} is not the folder of a run, and has no folder of one", hint=GIVEN)


def _runs(runs: Iterable[Path], quarantine: Sequence[QuarantineEntry]) -> tuple[list[Record], list[Skipped]]:
    """Return the records of runs' results; results that are damaged are named."""
    records: list[Record] = []
    skipped: list[Skipped] = []
    for run in runs:
        try:
            for record in records_of(run.resolve(), quarantine=quarantine):
                try:
                    to_line(record)
                except Unreadable as error:
                    skipped.append(Skipped(str(RunDir(run).results), 0, f"cell {record.cell}: {error}"))
                else:
                    records.append(record)
            skipped += [Skipped(str(RunDir(run).results), line, FOREIGN) for line in recorded(run).foreign]
        except DAMAGE as error:
            skipped.append(Skipped(str(RunDir(run).results), 0, f"{type(error).__name__}: {error}"))
    return records, skipped
