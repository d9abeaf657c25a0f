"""One cell run as the history keeps it: a frozen dataclass and its JSON line.

A line holds everything by itself, so that no damage to one line takes anything of another. What the history keeps of
a run never changes afterwards, but that old records are cut down (lines.forget). Does not cover how a run becomes a
record (harness/report/records.py) and where lines are kept (file, package).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from harness import sanitize
from harness.check_result import FindingKind, telling
from harness.events import CLOCK_SET, CellId, Number, Seconds, moment
from harness.model import Outcome

T = TypeVar("T")
LETTERS = {
    Outcome.PASSED: "p",
    Outcome.FAILED: "f",
    Outcome.NOT_RUN: "s",
}  # of a check's outcome; quarantined failures are `q`
ABSENT = "."
QUARANTINED_CHECK = "q"
OUTCOMES = {letter: outcome for outcome, letter in LETTERS.items()} | {QUARANTINED_CHECK: Outcome.FAILED}

Moment = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$")]
Amount = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
# Of one stage, by name and where ("pod_start_p99 w-0"): the value, and the calibration beside it (0: none). A figure
# without a place is called by its name alone.
StageFigures = Mapping[str, tuple[Amount, Amount]]


@dataclass(frozen=True)
class RunOrigin:
    """What was run and by whom; empty strings for what is not known.

    project: path of the project in GitLab.  commit: of the checkout, 40 hex digits.  merge_request: its number.
    pipeline: the id of the one that the night's other cells have too.  source: what began it, "schedule" for one.
    runner: which one of GitLab's had the job.
    ahead: seconds by which its host's clock was ahead of GitLab's, to which the record's times are corrected.
    changed: the checkout had uncommitted changes.  product: which revision was tested of one from another repository.
    """

    project: str = ""
    project_url: str = ""
    commit: str = ""
    branch: str = ""
    merge_request: str = ""
    pipeline: str = ""
    pipeline_url: str = ""
    job: str = ""
    job_url: str = ""
    source: str = ""
    runner: str = ""
    ahead: Annotated[float, Field(ge=-1e10, le=1e10, allow_inf_nan=False)] = 0.0
    tag: str = ""
    changed: bool = False
    product: str = ""


@dataclass(frozen=True)
class AttemptRecord:
    """What one attempt of the cell came to."""

    number: Number
    outcome: Outcome
    seconds: Seconds = 0.0
    blame: str = ""


@dataclass(frozen=True)
class StepRecord:
    """One step: its name with its parents' ("provision / machines"), and how it ended."""

    name: str
    outcome: str
    seconds: Seconds
    attempt: Number = 1
    blame: str = ""
    message: str = ""
    quarantine: str = ""

    @property
    def top(self) -> bool:
        """Tell whether the step is part of no other."""
        return " / " not in self.name


@dataclass(frozen=True)
class CheckRow:
    """What the checks came to after one stage of one attempt: a letter and seconds for each name of the table."""

    stage: str
    results: str
    attempt: Number = 1
    seconds: tuple[Seconds, ...] = ()


@dataclass(frozen=True)
class CheckTable:
    """Every check of the cell run: titles ("suite: name"), and a row for each stage of each attempt."""

    names: tuple[str, ...] = ()
    rows: tuple[CheckRow, ...] = ()


@dataclass(frozen=True)
class CheckNote:
    """What checks that failed or did not run said, all the same. Titles are repeated: the table may be forgotten.

    kind: why they did not run.  headline: the cause in one line.  signature: what equal failures share. Records that
    were written before findings were data have none of these.
    """

    checks: tuple[str, ...]
    message: str
    outcome: Outcome = Outcome.FAILED
    kind: FindingKind | None = None
    headline: str = ""
    signature: str = ""
    stage: str = ""
    attempt: Number = 1
    blame: str = ""
    quarantine: str = ""

    @property
    def cause(self) -> str:
        """Return the line that says what went wrong, or why they did not run."""
        return self.headline or telling(self.message, self.checks)


@dataclass(frozen=True)
class MachineRecord:
    """What a machine took of its node, in MiB.

    memory: what it declares.  asked: what it was admitted with; 0 for what it declares.
    deployed: after the first phase.  peak: the most.  clone, disk: its disk as it came up, and in the end.
    """

    memory: Number = 0
    asked: Number = 0
    deployed: Number = 0
    peak: Number = 0
    clone: Number = 0
    disk: Number = 0


@dataclass(frozen=True)
class Record:
    """One cell run.

    id: the same whenever the same results are made into a record, and of no other.
    axes: the cell's values, in the axes' order.  night: the date whose cells the tier had, or "".
    infra: kind of infra cluster.  provider: who provides it.
    blame: whose fault, of the attempt that counts; empty when nothing failed that counts.
    seconds: of the attempt that counts, without waiting; waited: for room; estimate: what its machines and phases
    alone suggested, 0 where nobody estimated.  parallel: cells that could be under way at once, itself included.
    counts: how many checks of the attempt that counts came to what.
    figures: what checks measured after each stage of the attempt that counts.
    usage: what each machine of that attempt took, by its name, where the infra cluster's nodes tell.
    around: where the attempt that counts ran: its nodes, and how busy its host was.
    symptoms: the lines with a known meaning that it showed, by the symptom's name: the first line of each.
    culprit: the commit that what failed in it came with, where that was looked for: its values, title, author, owners.
    logs: directory of the logs, relative to the job's directory.
    forgotten: whether details were dropped since: tables, messages but for their first line, inner steps.
    """

    id: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    run: str
    cell: CellId
    started: Moment
    finished: Moment
    outcome: Outcome
    v: Literal[1] = 1
    axes: Mapping[str, str] = field(default_factory=dict)
    tier: str = ""
    night: str = ""
    infra: str = ""
    provider: str = ""
    where: RunOrigin = field(default_factory=RunOrigin)
    blame: str = ""
    seconds: Seconds = 0.0
    waited: Seconds = 0.0
    estimate: Seconds = 0.0
    parallel: Number = 1
    attempts: tuple[AttemptRecord, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    checks: CheckTable = field(default_factory=CheckTable)
    notes: tuple[CheckNote, ...] = ()
    counts: Mapping[str, Number] = field(default_factory=dict)
    figures: Mapping[str, StageFigures] = field(default_factory=dict)
    usage: Mapping[str, MachineRecord] = field(default_factory=dict)
    around: Mapping[str, str] = field(default_factory=dict)
    culprit: Mapping[str, str] = field(default_factory=dict)
    symptoms: Mapping[str, str] = field(default_factory=dict)
    logs: str = ""
    forgotten: bool = False

    @property
    def last_attempt(self) -> int:
        """Return the number of the attempt that counts, 0 when none began."""
        return max((a.number for a in self.attempts), default=0)

    @property
    def unset_clock(self) -> bool:
        """Tell whether it began by a clock that was not set yet."""
        return self.started < str(CLOCK_SET.year)

    @property
    def start(self) -> datetime:
        """Return when it started."""
        return datetime.fromisoformat(self.started)


VERSION = 1


class Unreadable(ValueError):
    """A line is not a record; the text says why."""


@cache
def _adapter() -> TypeAdapter[Record]:
    return TypeAdapter(Record)  # made when there is a line: it takes as long as reading hundreds of them


@cache
def _adapter_of(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def part_of(kind: Callable[..., T], told: Mapping[str, Any]) -> T:
    """Return a part of a record, each of whose fields may be left out, of what a run has written down.

    What a later version has written there, or damage, is left out.
    """
    adapter: TypeAdapter[T] = _adapter_of(kind)
    try:
        return adapter.validate_python(told)
    except ValidationError as error:
        wrong = {mistake["loc"][0] for mistake in error.errors(include_url=False, include_input=False)}
        return adapter.validate_python({name: value for name, value in told.items() if name not in wrong})


def to_line(record: Record) -> bytes:
    """Return a record's line, with its line feed; defaults are left out. Unreadable when nobody could read it again."""
    line = _dumped(record)
    from_line(line)
    return line + b"\n"


def _dumped(record: Record) -> bytes:
    try:
        line = _adapter().dump_json(record, exclude_defaults=True, warnings=False)
    except (PydanticSerializationError, UnicodeEncodeError):  # a text that is none
        data = _adapter().dump_python(record, exclude_defaults=True, warnings=False)
        line = json.dumps(sanitize.sanitized_data(data)).encode()
    return line.replace(b"{", b'{"v":1,', 1)


def from_line(line: bytes) -> Record:
    """Return the record of a line; unknown keys are of a later version and do not count. Unreadable when it is none."""
    try:
        record = _adapter().validate_json(_clean(line), strict=True)
    except ValidationError as error:
        newer = _newer(line)
        if newer:
            raise Unreadable(newer) from None
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Unreadable(f"{where}: {first['msg']}" if where else first["msg"]) from None
    mistake = _mistake(record)
    if mistake:
        raise Unreadable(mistake)
    return record


def _clean(line: bytes) -> bytes:
    """Return a line with its texts sanitized; most have no character that could be wrong, and stay as they are."""
    if b"\\" not in line and line.isascii() and b"\x7f" not in line and len(line) <= sanitize.LINE:
        return line
    try:
        return json.dumps(sanitize.sanitized_data(json.loads(line)), ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return line  # whoever reads it says what is wrong


def _newer(line: bytes) -> str:
    """Tell of a record of a later version, which only looks broken to this one."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    version = found.get("v") if isinstance(found, dict) else None
    newer = isinstance(version, int) and version > VERSION
    return f"version {version} of the history; this vmatrix knows version {VERSION}: update it" if newer else ""


def _mistake(record: Record) -> str:
    try:
        began, ended = map(moment, (record.started, record.finished))
    except ValueError as error:
        return f"started, finished: {error}"
    if ended < began:
        return "finished: is before started"
    if record.outcome is Outcome.NOT_RUN:
        return f"outcome: {record.outcome} is a check's"
    width = len(record.checks.names)
    for number, row in enumerate(record.checks.rows):
        if len(row.results) != width or (row.seconds and len(row.seconds) != width):
            return f"checks.rows.{number}: is not as long as checks.names"
    return ""
