"""Rows with ids: a table where every id fits as a whole, else some lines for each row. An id is there to be copied."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

INDENT = 4
UNBOUND = 10_000


def show_rows(
    out: Console, headings: Sequence[str], rows: Sequence[Sequence[str]], *, whole: Sequence[str] = ("cell",)
) -> None:
    """Print rows; in a table only the last column is folded.

    Args:
        whole: the headings of ids, of which each has a line of its own where there is no room for a table.
    """
    table = Table(*(Column(name, no_wrap=name != headings[-1], overflow="fold") for name in headings), box=None)
    for row in rows:
        table.add_row(*map(Text, row))
    least = max((len(word) for row in rows if len(row) == len(headings) for word in row[-1].split()), default=0)
    last = max((len(row[-1]) for row in rows if len(row) == len(headings)), default=0)
    if Measurement.get(out, out.options.update(max_width=UNBOUND), table).maximum - last + least <= out.width:
        out.print(table)
        return
    for row in rows:
        for lines in _record(headings, row, whole):
            out.print(lines, soft_wrap=isinstance(lines, Text))


def _record(headings: Sequence[str], row: Sequence[str], whole: Sequence[str]) -> list[Text | Padding]:
    """Return the lines of one row: its ids, each in a line of its own, then everything else by name."""
    named = [(name, value) for name, value in zip(headings, row, strict=False) if value]
    ids = [Text(value, "bold") for name, value in named if name in whole]
    others = ", ".join(f"{name} {value}" for name, value in named if name not in whole)
    return [*ids, *([Padding(Text(others), (0, 0, 0, INDENT), expand=False)] if others else [])]
