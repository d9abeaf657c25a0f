"""A guest's console as a stream: what it writes from now on, until the machine is gone. Nothing can be typed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import IO

from harness.embedded.subresources import answers

CHUNK = 64 * 1024
LOOK_SECONDS = 0.1  # between looks at a console's file: what a person does not notice


class Console:
    """What a machine writes to its console, which its supervisor appends to a file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    async def read(self) -> bytes:
        """Return what was written next; nothing when the machine, and the file with it, is gone."""
        while not (content := self._file.read(CHUNK)):
            if os.fstat(self._file.fileno()).st_nlink == 0:
                return b""
            await asyncio.sleep(LOOK_SECONDS)
        return content

    async def write(self, content: bytes) -> None:
        """Drop what is typed: machines are started without a keyboard."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def opened(path: Path) -> Console:
    """Open the console of a machine where it is now.

    Raises:
        StatusError: the machine has none.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise answers.internal(f"dialing virt-handler: {error.strerror}") from error
    file.seek(0, os.SEEK_END)
    return Console(file)
