"""A record as its line of JSON, and back; whatever stands in a line, it does no harm."""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from harness.history.record import Record
from harness.sanitize import LINE, sanitized_data

VERSION = 1


class Unreadable(ValueError):
    """A line is no record; the text says why."""


@cache
def _adapter() -> TypeAdapter[Record]:
    return TypeAdapter(Record)  # made when there is a line: it takes as long as reading hundreds of them


def to_line(record: Record) -> bytes:
    """Return a record's line, with its line feed; defaults are left out."""
    try:
        line = _adapter().dump_json(record, exclude_defaults=True)
    except (PydanticSerializationError, UnicodeEncodeError):  # a text that is none
        line = json.dumps(sanitized_data(_adapter().dump_python(record, exclude_defaults=True))).encode()
    return line.replace(b"{", b'{"v":1,', 1) + b"\n"


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
    if b"\\" not in line and line.isascii() and b"\x7f" not in line and len(line) <= LINE:
        return line
    try:
        return json.dumps(sanitized_data(json.loads(line)), ensure_ascii=False).encode()
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
        began, ended = (datetime.fromisoformat(moment) for moment in (record.started, record.finished))
    except ValueError as error:
        return f"started, finished: {error}"
    if ended < began:
        return "finished: is before started"
    width = len(record.checks.names)
    for number, row in enumerate(record.checks.rows):
        if len(row.results) != width or (row.seconds and len(row.seconds) != width):
            return f"checks.rows.{number}: is not as long as checks.names"
    return ""
