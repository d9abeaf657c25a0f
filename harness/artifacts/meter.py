"""How much processor time work takes: of what a thread does itself and of the processes that it started.

Time by the clock tells little on a host that does other things as well. Linux says which thread started a process;
where its kernel does not (CONFIG_PROC_CHILDREN), there is no figure. Also covers how fast this host's processors are.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
TRIES = 3  # of the piece of work: the fastest counts
PIECE = 3 * 2**19  # bytes to compress: some hundredths of a second
REFERENCE_SECONDS = 0.027  # of one piece on the host of the catalogue's figures, with all of its processors at it


@dataclass
class Meter:
    """The processor time of one thread's work, from now on; looked at by any thread, now and then.

    What a process used that has ended counts as when it was looked at last. Those that run already do not count.
    """

    thread: int = field(default_factory=threading.get_native_id)
    _ended: float = 0.0
    _seen: dict[int, float] = field(default_factory=dict)
    _most: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        task = PROC / "self" / "task" / str(self.thread)
        self._before, self._others = _used(task, children=False), frozenset(_children(task))

    def look(self) -> float | None:
        """Return the seconds so far, None where the kernel does not tell which thread started what."""
        task = PROC / "self" / "task" / str(self.thread)
        if not (task / "children").exists():
            return self._most or None
        with self._lock:
            now = {pid: _whole(pid) for pid in _children(task) if pid not in self._others}
            self._ended += sum(seconds for pid, seconds in self._seen.items() if pid not in now)
            self._seen = now
            own = _used(task, children=False) - self._before
            self._most = max(self._most, self._ended + sum(now.values()) + own)
            return self._most


def speed() -> float:
    """Return how many times as long a fixed piece of work takes here as on the host of the catalogue's figures.

    All processors do it at once, as in a build: two may share a core.
    """
    data = b"".join(zlib.crc32(number.to_bytes(4, "big")).to_bytes(4, "big") * 2 for number in range(PIECE // 8))
    taken: list[float] = []

    def work() -> None:
        for _ in range(TRIES):
            began = time.thread_time()
            zlib.compress(data, 6)
            taken.append(time.thread_time() - began)

    threads = [threading.Thread(target=work, name=f"speed {number}") for number in range(processors())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return min(taken) / REFERENCE_SECONDS


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


def _whole(pid: int) -> float:
    """Return the processor time of a process, of its children that have ended, and of those that it has."""
    home = PROC / str(pid)
    try:
        tasks = sorted((home / "task").iterdir())
    except OSError:
        return 0.0
    return _used(home, children=True) + sum(_whole(child) for task in tasks for child in _children(task))


def _children(task: Path) -> Iterator[int]:
    """Yield the processes that a thread has started."""
    try:
        yield from map(int, (task / "children").read_text(encoding="ascii").split())
    except OSError:  # it has ended
        return


def _used(home: Path, *, children: bool) -> float:
    """Return the processor time of a process or thread, with that of children that it has waited for."""
    try:
        fields = (home / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15] if children else fields[11:13])) / TICKS
