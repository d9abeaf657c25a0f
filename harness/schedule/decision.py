"""What comes of asking whether cells may start."""

from __future__ import annotations

from dataclasses import dataclass

from harness.model import Cell


@dataclass(frozen=True)
class Admitted:
    """A cell that may start; its room is reserved."""

    cell: Cell


@dataclass(frozen=True)
class Refused:
    """A cell that may not start yet, and why, in words with numbers."""

    cell: Cell
    reason: str


@dataclass(frozen=True)
class Decision:
    """What came of trying cells in order: the one that may start, if any, and why those before it may not."""

    admitted: Admitted | None
    refused: tuple[Refused, ...]
