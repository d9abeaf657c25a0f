"""Consoles of commands."""

from __future__ import annotations

import sys

from rich.console import Console

WIDE = 250  # columns where there is no terminal: ids are there to be copied, never cut


def wide_console() -> Console:
    """Return a console for tables: as wide as the terminal, or wide enough for every id."""
    return Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDE)
