"""A history as lines: read with whatever damage it has, united without loss, cut down when old.

Pure functions on bytes and records; where the bytes lie is the stores' matter. A line that cannot be read is counted
and named, and never thrown away: it may be of a later version, or be mended by a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from harness.check_result import REMEMBERED, shortened, telling
from harness.history.record import CheckTable, Record, Unreadable, from_line, to_line
from harness.model import Outcome

LONGEST_LINE = 16 * 2**20  # bytes; the longest real one is some 50 kB
SHOWN = 80  # characters of a line that cannot be read


@dataclass(frozen=True)
class Skipped:
    """A line that is not a record: where it stands (from 1 on) and why not."""

    source: str
    line: int
    why: str


@dataclass(frozen=True)
class Line:
    """One line of a source: its number from 1 on, the record, or why it is none."""

    number: int
    raw: bytes
    record: Record | None
    why: str = ""


@dataclass(frozen=True)
class History:
    """All records, oldest first, each id once; and what could not be read."""

    records: tuple[Record, ...] = ()
    duplicates: int = 0
    skipped: tuple[Skipped, ...] = ()
    sources: tuple[str, ...] = ()


def parse(content: bytes) -> Iterator[Line]:
    """Yield the lines of a history file that are not blank; a torn last line is one that cannot be read."""
    for number, raw in enumerate(content.split(b"\n"), start=1):
        if raw.strip():
            yield _line(number, raw)


def _line(number: int, raw: bytes) -> Line:
    if len(raw) > LONGEST_LINE:
        return Line(number, raw, None, f"longer than {LONGEST_LINE // 2**20} MiB")
    try:
        return Line(number, raw, from_line(raw))
    except Unreadable as error:
        start = raw[:SHOWN].decode("utf-8", "replace")
        return Line(number, raw, None, f"{error}: {start!r}{'...' if len(raw) > SHOWN else ''}")


def read(sources: Iterable[tuple[str, bytes]]) -> History:
    """Return the history of several sources, each a name and its content."""
    found: list[Record] = []
    skipped: list[Skipped] = []
    names: list[str] = []
    for name, content in sources:
        names.append(name)
        for line in parse(content):
            if line.record is not None:
                found.append(line.record)
            else:
                skipped.append(Skipped(name, line.number, line.why))
    records = once(found)
    return History(records, len(found) - len(records), tuple(skipped), tuple(names))


def with_records(history: History, more: Iterable[Record]) -> History:
    """Return a history with more records; those that it has already are duplicates."""
    found = (*history.records, *more)
    records = once(found)
    return replace(history, records=records, duplicates=history.duplicates + len(found) - len(records))


def once(records: Iterable[Record]) -> tuple[Record, ...]:
    """Return records in order of their start, each id once.

    One by a clock that was not set yet comes after the record before it, wherever that comes: so it is not the oldest.
    Of several the one that has its details; then the one that ended last: a run may have been added while it went on;
    then the first.
    """
    by_id: dict[str, Record] = {}
    for record in records:
        known = by_id.get(record.id)
        if known is None or _worth(record) > _worth(known):
            by_id[record.id] = record
    after = ("", "")
    places: list[tuple[str, str, int]] = []
    for number, record in enumerate(by_id.values(), start=1):
        after = after if record.unset_clock else (record.started, record.id)
        places.append((*after, number if record.unset_clock else 0))
    return tuple(record for _, record in sorted(zip(places, by_id.values(), strict=True), key=lambda pair: pair[0]))


def _worth(record: Record) -> tuple[bool, str]:
    return not record.forgotten, record.finished


def united(*contents: bytes) -> bytes:
    """Return the union of several files' lines: each record once, by start; then what cannot be read, each once."""
    lines = [line for content in contents for line in parse(content)]
    raw_of: dict[tuple[str, bool, str], bytes] = {}
    for line in lines:
        if line.record is not None:
            raw_of.setdefault((line.record.id, *_worth(line.record)), line.raw)
    records = once(line.record for line in lines if line.record is not None)
    unreadable = dict.fromkeys(line.raw for line in lines if line.record is None)
    return b"".join(raw + b"\n" for raw in (*(raw_of[r.id, *_worth(r)] for r in records), *unreadable))


def missing(records: Iterable[Record], content: bytes) -> tuple[Record, ...]:
    """Return those of the records that a file does not have yet, or only as they were while their run went on."""
    known = {r.id: r for r in once(line.record for line in parse(content) if line.record is not None)}

    def has(record: Record) -> bool:
        there = known.get(record.id)
        return there is not None and not (there.outcome == "unfinished" and there.finished < record.finished)

    return tuple(record for record in once(records) if not has(record))


def cut_down(content: bytes, *, days: float, now: datetime) -> tuple[bytes, int]:
    """Return the file's lines with the details of old records dropped, and of how many records that was.

    Twice is as once. Lines that cannot be read stay as they are.
    """
    before = now.astimezone(UTC) - timedelta(days=days)
    dropped = 0
    kept: list[bytes] = []
    for line in parse(united(content)):
        record = line.record
        if record is not None and not record.forgotten and record.start < before:
            kept.append(to_line(forget(record)))
            dropped += 1
        else:
            kept.append(line.raw + b"\n")
    return b"".join(kept), dropped


def forget(record: Record) -> Record:
    """Return a record without details: outcome, blame, durations of the outer steps and what failed are kept."""
    return replace(
        record,
        checks=CheckTable(),
        notes=tuple(
            replace(n, message=shortened(n.cause, REMEMBERED), headline="")
            for n in record.notes
            if n.outcome is Outcome.FAILED
        ),
        steps=tuple(
            replace(s, message=telling(s.message, most=REMEMBERED)) for s in record.steps if s.top or s.message
        ),
        logs="",
        forgotten=True,
    )
