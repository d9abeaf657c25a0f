"""Past cell runs in the history: the passed ones, for durations, and the measured ones, for memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from harness.events import Seconds
from harness.history.record import MachineRecord
from harness.model import Outcome


@dataclass(frozen=True)
class PassedRun:
    """What of a record in the history (harness/history/record.py) tells how long its cell takes."""

    v: Literal[1]
    id: str
    cell: str
    started: str
    outcome: Literal["passed"]
    provider: str
    seconds: Seconds
    estimate: Seconds = 0.0
    axes: Mapping[str, str] = field(default_factory=dict)


@cache
def _adapter() -> TypeAdapter[PassedRun]:
    return TypeAdapter(PassedRun)  # made when there is a history


def passed(content: bytes) -> Iterator[PassedRun]:
    """Yield the passed runs that lines of the history tell of; other lines are left out."""
    for line in content.splitlines():
        try:
            run = _adapter().validate_json(line, strict=True)
        except ValidationError:
            continue
        if run.seconds > 0:
            yield run


MARK = b'"usage"'  # a line without it has no measurement, and is not read


@dataclass(frozen=True)
class MeasuredRun:
    """What of a record in the history (harness/history/record.py) tells how much its cell's machines take."""

    v: Literal[1]
    id: str
    cell: str
    started: str
    outcome: Outcome
    provider: str
    usage: Mapping[str, MachineRecord]
    axes: Mapping[str, str] = field(default_factory=dict)


@cache
def _measured_adapter() -> TypeAdapter[MeasuredRun]:
    return TypeAdapter(MeasuredRun)  # made when there is a history


def measured(content: bytes) -> Iterator[MeasuredRun]:
    """Yield the measured runs that lines of the history tell of; other lines are left out."""
    for line in content.splitlines():
        if MARK not in line:
            continue
        try:
            run = _measured_adapter().validate_json(line, strict=True)
        except ValidationError:
            continue
        if run.usage:
            yield run
