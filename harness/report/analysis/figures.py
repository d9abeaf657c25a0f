"""A cell's figures over all nights, and what is slower in its last record. Never a verdict on a night."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.history.record import Record
from harness.validate.performance.comparison import Comparison, by_key, compare
from harness.validate.performance.figures import KINDS, Figure, Key, named, took


@dataclass(frozen=True)
class FigureHistory:
    """What a cell's figures were.

    series: by kind, the worst of all places after the last phase by night; None: not measured, or of another phase.
    compared: the last record against those before, by phase.
    """

    series: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    compared: Mapping[str, Comparison] = field(default_factory=dict)


def figures_of(records: Sequence[tuple[int, Record]], nights: int) -> FigureHistory:
    """Return the figures of a cell's records, each with its night, oldest first."""
    measured = [(night, record) for night, record in records if record.figures]
    if not measured:
        return FigureHistory()
    last = measured[-1][1]
    stage = [*last.figures][-1]
    by_night = {night: of_record(record, stage) for night, record in measured if stage in record.figures}
    kinds = dict.fromkeys(name for found in by_night.values() for name, _ in found)
    ordered = [name for name in KINDS if name in kinds] + [name for name in kinds if name not in KINDS]
    return FigureHistory(
        {name: tuple(_worst(by_night.get(night, {}), name) for night in range(nights)) for name in ordered},
        {one: _compared([record for _, record in measured], one) for one in last.figures},
    )


def of_record(record: Record, stage: str) -> dict[Key, Figure]:
    """Return what a record says of a phase."""
    return by_key(named(text, *amounts) for text, amounts in record.figures[stage].items())


def _worst(found: Mapping[Key, Figure], name: str) -> float | None:
    places = [figure for (kind, _), figure in found.items() if kind == name]
    return max(places, key=took).value if places else None


def _compared(records: Sequence[Record], stage: str) -> Comparison:
    *past, now = [of_record(record, stage) for record in records if stage in record.figures]
    return compare(now, past)
