"""The lines that a process writes, as they come and until a moment.

It needs no thread: CPython waits forever for one that begins and finds no memory.
"""

from __future__ import annotations

import codecs
import io
import os
import select
import time
from collections.abc import Iterator
from typing import IO

CHUNK = 65536  # bytes; what a pipe holds


class OutputLines:
    """What is read of a pipe. `ended`: all that was written has been read, and nobody has it open for writing."""

    def __init__(self, pipe: IO[str]) -> None:
        self.ended = False
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=True)
        self._descriptor = pipe.fileno()
        self._begun = ""  # a line whose end has not come

    def until(self, moment: float) -> Iterator[str]:
        """Yield lines with their ends until a moment (monotonic seconds) or the end of the output."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while not self.ended and (left := moment - time.monotonic()) > 0:
            if not poll.poll(left * 1000):
                return
            chunk = os.read(self._descriptor, CHUNK)
            self.ended = not chunk
            *whole, self._begun = (self._begun + self._decoder.decode(chunk, final=not chunk)).split("\n")
            yield from (f"{line}\n" for line in whole)
        if self.ended and self._begun:
            last, self._begun = self._begun, ""
            yield last
