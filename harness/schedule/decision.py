"""What comes of asking whether cells may start."""

from __future__ import annotations

from dataclasses import dataclass

from harness.model import Cell


@dataclass(frozen=True)
class Refused:
    """A cell that may not start yet, and why, in words with numbers."""

    cell: Cell
    reason: str


@dataclass(frozen=True)
class Decision:
    """What came of trying cells in order: the one that may start and has its room, if any; why those before may not."""

    admitted: Cell | None
    refused: tuple[Refused, ...]
