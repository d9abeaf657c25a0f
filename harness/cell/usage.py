"""What a cell's machines take of their nodes while it lives: looked at again and again, the most of it kept.

A node's account has no peak that leaves page cache out, so what lasts less than the pause between two looks may be
missed; the margin of matrix/infras.yml is for that, too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from harness.errors import VmatrixError
from harness.infra.cluster.capacity import PodUsage, usage_of
from harness.kube import Cluster
from harness.machines.kubevirt.presence import Sighting

log = logging.getLogger(__name__)
LOOK_SECONDS = 2.0  # pacing: a look costs the node a few files for each machine


@dataclass(frozen=True)
class MachineUsage:
    """What a machine took, in MiB.

    deployed: memory after the first phase.  peak: the most memory.  clone: its disk as it came up.  disk: its disk
    when it was seen last.
    """

    deployed: int = 0
    peak: int = 0
    clone: int = 0
    disk: int = 0

    def seen(self, now: PodUsage) -> MachineUsage:
        """Return it with a further look."""
        return replace(self, peak=max(self.peak, now.memory), clone=self.clone or now.disk, disk=now.disk or self.disk)


class UsageWatch:
    """Looks at the machines of one attempt, on a daemon thread, until it is told to stop."""

    def __init__(self, cluster: Cluster, machines: Sequence[Sighting]) -> None:
        self._cluster = cluster
        self._machines = {seen.launcher: seen.machine for seen in machines if seen.launcher}
        self._nodes = sorted({seen.node for seen in machines if seen.node})
        self._found: dict[str, MachineUsage] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.thread: threading.Thread | None = None

    def start(self) -> UsageWatch:
        """Begin to look; return this."""
        self.thread = threading.Thread(target=self._go_on, daemon=True, name="usage")
        self.thread.start()
        return self

    def _go_on(self) -> None:
        while not self._stopped.is_set():
            self.look()
            self._stopped.wait(LOOK_SECONDS)

    def look(self) -> dict[str, PodUsage]:
        """Look once, and return what the machines take now, by their names; an API in trouble fails nothing."""
        try:
            nodes = usage_of(self._cluster, self._nodes)
        except VmatrixError as error:
            log.debug("what machines take could not be read: %s", error)
            return {}
        now = {
            self._machines[uid]: pod
            for node in nodes.values()
            for uid, pod in node.pods.items()
            if uid in self._machines
        }
        with self._lock:
            for machine, pod in now.items():
                self._found[machine] = self._found.get(machine, MachineUsage()).seen(pod)
        return now

    def deployed(self) -> None:
        """Take note of what the machines take now that the first phase has ended."""
        now = self.look()
        with self._lock:
            for machine, pod in now.items():
                self._found[machine] = replace(self._found[machine], deployed=pod.memory)

    def stop(self) -> Mapping[str, Mapping[str, int]]:
        """Look no more; return what each machine took, as plain data."""
        self._stopped.set()
        with self._lock:
            return {machine: asdict(used) for machine, used in sorted(self._found.items())}
