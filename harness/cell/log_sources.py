"""Where lines of a cell's logs come from: the consoles of its machines, and the files of the product's phases."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.cell.diagnose import CONSOLE
from harness.cell.existing import Existing
from harness.kube.client import Json
from harness.machines.kubevirt.launchers import launcher_pod
from harness.rundir import AttemptDir

CONSOLES, JOURNALS, PHASES = "console", "journal", "phases"
LOG_SOURCES = (PHASES, CONSOLES, JOURNALS)
LOOK_SECONDS = 0.3  # between looks at files: what a person takes for at once
CONTROL = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-_])|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class LogLine:
    """One line. source: what has written it, such as "cp-0 console" or "deploy"."""

    source: str
    text: str


Put = Callable[[LogLine], None]


class LogSource(Protocol):
    """What has lines. Both raise VmatrixError where it cannot be read, or no longer."""

    def last(self, put: Put) -> None:
        """Hand on the last lines that are there already."""

    def follow(self, put: Put) -> None:
        """Hand on lines as they come; called again when it ends, it goes on."""


@dataclass
class MachineConsole:
    """What a machine writes to its console, as the log of its launcher. tail: how many lines come first."""

    there: Existing
    machine: str
    tail: int
    _begun: str = ""  # the uid of the launcher whose log was read last

    def last(self, put: Put) -> None:
        """Hand on the last lines."""
        pod = self._launcher()
        if pod is not None:
            name = pod["metadata"]["name"]
            log = self.there.infra.cluster.pod_log(self.there.place.namespace, name, container=CONSOLE, tail=self.tail)
            self._hand_on(log.splitlines(), put)

    def follow(self, put: Put) -> None:
        """Hand on lines; of a launcher that comes later all, and none twice."""
        pod = self._launcher()
        if pod is None:
            return
        uid, name = str(pod["metadata"]["uid"]), pod["metadata"]["name"]
        tail = 0 if uid == self._begun else None if self._begun else self.tail
        cluster, namespace = self.there.infra.cluster, self.there.place.namespace
        lines = cluster.follow_pod_log(namespace, name, container=CONSOLE, tail=tail)
        for line in lines:
            self._begun = uid
            self._hand_on([line], put)

    def _launcher(self) -> Json | None:
        vmi = self.there.instances().get(self.machine)
        return launcher_pod(self.there.infra.cluster, self.there.place.namespace, vmi) if vmi is not None else None

    def _hand_on(self, lines: Iterable[str], put: Put) -> None:
        for line in lines:
            put(LogLine(f"{self.machine} {CONSOLES}", clean(line)))


@dataclass
class PhaseLogs:
    """What the product's phases print, from their files. tail: how many lines of the newest one come first."""

    files: AttemptDir
    tail: int
    stop: threading.Event
    _read: dict[str, int] = field(default_factory=dict)  # bytes, by stage

    def last(self, put: Put) -> None:
        """Hand on the last lines of the newest phase."""
        found = self.files.stage_logs()
        for stage, file in found.items():
            content = _whole_lines(file, 0)
            self._read[stage] = len(content)
            lines = content.decode("utf-8", "replace").splitlines()
            for line in lines[max(0, len(lines) - self.tail) :] if stage == [*found][-1] else ():
                put(LogLine(stage, clean(line)))

    def follow(self, put: Put) -> None:
        """Hand on lines until nobody listens any more."""
        if not self._read:
            self.last(put)
        ended = False
        while not ended:
            ended = self.stop.wait(LOOK_SECONDS)
            for stage, file in self.files.stage_logs().items():
                content = _whole_lines(file, begin := self._read.get(stage, 0))
                self._read[stage] = begin + len(content)
                for line in content.decode("utf-8", "replace").splitlines():
                    put(LogLine(stage, clean(line)))


def _whole_lines(file: Path, begin: int) -> bytes:
    try:
        with file.open("rb") as handle:
            handle.seek(begin)
            content = handle.read()
    except FileNotFoundError:
        return b""
    return content[: content.rfind(b"\n") + 1]


def clean(line: str) -> str:
    """Return a line without what would move a terminal's cursor or colour it."""
    return CONTROL.sub("", line)
