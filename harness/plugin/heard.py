"""A run whose output cannot be written goes on to its end: its cells have to be judged and deleted all the same."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from harness import system
from harness.speech import ERRORS, OUTPUT, READER_GONE, Muted, escaping


class Output:
    """Both standard streams of a run; `ending` turns what became of them into its exit code."""

    def __init__(self) -> None:
        escaping(sys.stdout)
        escaping(sys.stderr)
        self.said = Muted(sys.stdout, OUTPUT)
        self.errors = Muted(sys.stderr, ERRORS)

    def ending(self, code: int) -> int:
        """Return the exit code of a run that ended with this one: that of lost output, where all else was well."""
        self.said.flush()
        lost = self.said.error
        if lost is None:
            return code
        if isinstance(lost, BrokenPipeError):
            return code or READER_GONE
        told = system.of(lost)
        if told is None:
            return code
        self.errors.write(f"error ({told.blame.value}): {told.summary}\nhint: {told.hint}\n")
        return code or told.exit_code


@contextmanager
def output() -> Iterator[Output]:
    """Let both standard streams fall silent, instead of failing, while the body runs."""
    plain, made = (sys.stdout, sys.stderr), Output()
    sys.stdout, sys.stderr = cast(TextIO, made.said), cast(TextIO, made.errors)
    try:
        yield made
    finally:
        sys.stdout, sys.stderr = plain
