"""Rows with ids: a table where every id fits as a whole, else some lines for each row. An id is there to be copied."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

INDENT = 4


def show_rows(
    out: Console, headings: Sequence[str], rows: Sequence[Sequence[str]], *, whole: Sequence[str] = ("cell",)
) -> None:
    """Print rows; in a table only the last column is folded.

    Args:
        whole: the headings of ids, of which each has a line of its own where there is no room for a table.
    """
    widths = [max(cell_len(row[n]) for row in (headings, *rows) if len(row) > n) for n in range(len(headings))]
    least = max((cell_len(word) for row in rows if len(row) == len(headings) for word in row[-1].split()), default=0)
    whole_width = sum(widths) + 2 * len(widths)
    if whole_width <= out.width:
        out.print(_lines(headings, rows, widths), soft_wrap=True)
        return
    if whole_width - widths[-1] + max(least, cell_len(headings[-1])) <= out.width:
        table = Table(*(Column(name, no_wrap=name != headings[-1], overflow="fold") for name in headings), box=None)
        for row in rows:
            table.add_row(*map(Text, row))
        out.print(table)
        return
    for row in rows:
        for lines in _record(headings, row, whole):
            out.print(lines, soft_wrap=isinstance(lines, Text))


def _lines(headings: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Text:
    """Return a table in which nothing is folded; rich would measure each of its cells several times."""
    made = [
        "".join(f" {set_cell_size(text, width)} " for text, width in zip(row, widths, strict=False)).rstrip()
        for row in (headings, *rows)
    ]
    return Text("\n").join([Text(made[0], "bold"), *map(Text, made[1:])])


def _record(headings: Sequence[str], row: Sequence[str], whole: Sequence[str]) -> list[Text | Padding]:
    """Return the lines of one row: its ids, each in a line of its own, then everything else by name."""
    named = [(name, value) for name, value in zip(headings, row, strict=False) if value]
    ids = [Text(value, "bold") for name, value in named if name in whole]
    others = ", ".join(f"{name} {value}" for name, value in named if name not in whole)
    return [*ids, *([Padding(Text(others), (0, 0, 0, INDENT), expand=False)] if others else [])]
