"""Output of commands: consoles, rows with ids, warnings, and how many of many are gone."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from harness.plan.quarantine import idle_globs
from harness.spec import Spec
from harness.spec.project import matrix_dir
from harness.streams import plain_console

WIDE = 250  # columns where there is no terminal: ids are there to be copied, never cut


def folding(*headings: str, **options: Any) -> Table:
    """Return a table without lines whose texts are folded, never cut."""
    return Table(*(Column(heading, overflow="fold") for heading in headings), box=None, **options)


def wide_console() -> Console:
    """Return a console for tables: as wide as the terminal, or wide enough for every id."""
    terminal = sys.stdout is not None and sys.stdout.isatty()  # None where it is closed
    return plain_console(width=None if terminal else WIDE)


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


def show_left_out(console: Console, rows: Sequence[str], command: str, *, verbose: bool) -> None:
    """Print what is left out, a row each, or without `verbose` how many rows there are and what prints them."""
    if verbose:
        for row in rows:
            console.print(row)
    elif rows:
        console.print(f"left out: {len(rows)} kinds of cells; `{command} -v` says which, and why")


def tell_written(paths: Iterable[Path]) -> None:
    """Print the paths of files, all of which are written: a reader that is gone, as of `| head -1`, loses no file."""
    console = plain_console()
    for path in paths:
        console.print(str(path))


def tell_idle(spec: Spec) -> None:
    """Say which globs of the matrix match nothing."""
    console = plain_console(stderr=True)
    for line in idle_globs(spec, matrix_dir()):
        console.print(f"warning: {line}")


SECONDS = 10.0  # between two lines: often enough to see that it goes on


class Countdown:
    """Counts what goes; told from any thread."""

    def __init__(self, say: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._lock = threading.Lock()
        self._gone = 0
        self._said_at = clock()

    def told(self, left: int) -> None:
        """Count one that is gone; say where this stands if nothing was said for a while, and it is not the last."""
        with self._lock:
            self._gone += 1
            if left and self._clock() - self._said_at >= SECONDS:
                self._said_at = self._clock()
                self._say(f"{self._gone} cells are gone, {left} to go")
