"""Files that only this process may read, such as keys while they are used; those of processes that were killed go, too.

A process holds a lock on its folder's `lock`. Whoever starts takes away the folders whose lock is free.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from harness.files import if_unlocked

PREFIX = "vmatrix-private-"
LOCK = "lock"


class PrivateFiles:
    """A folder of this process (0700) with a folder for each use in it."""

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent or Path(tempfile.gettempdir())
        self._held = ExitStack()
        self.sweep()
        made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=self._parent))
        self._held.enter_context(if_unlocked(made / LOCK))  # before a sweep can see the folder
        self.folder = made.rename(self._parent / made.name.removeprefix("."))

    def sweep(self) -> None:
        """Take away what killed processes of this user left."""
        for folder in self._parent.glob(f"{PREFIX}*/"):
            if (folder / LOCK).is_file():
                with suppress(OSError), if_unlocked(folder / LOCK) as free:  # another user's, or one that just went
                    if free:
                        shutil.rmtree(folder)

    @contextmanager
    def use(self) -> Iterator[Path]:
        """Give a folder that goes, with what is in it, at the end of the body."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            yield Path(folder)

    def close(self) -> None:
        """Take everything away; can be called twice."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._held.close()
