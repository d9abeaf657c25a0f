"""Consoles of commands."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.table import Column, Table

WIDE = 250  # columns where there is no terminal: ids are there to be copied, never cut


def folding(*headings: str, **options: Any) -> Table:
    """Return a table without lines whose texts are folded, never cut."""
    return Table(*(Column(heading, overflow="fold") for heading in headings), box=None, **options)


def wide_console() -> Console:
    """Return a console for tables: as wide as the terminal, or wide enough for every id."""
    terminal = sys.stdout is not None and sys.stdout.isatty()  # None where it is closed
    return Console(highlight=False, soft_wrap=True, width=None if terminal else WIDE)
