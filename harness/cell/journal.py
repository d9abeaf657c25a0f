"""The journal of a machine, over SSH, as it is written; after a reboot it goes on where it was."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from harness import proc
from harness.cell.existing import Existing
from harness.cell.log_sources import JOURNALS, LogLine, Put, clean
from harness.machines.access import DIES_WITH_US, run_on, ssh_command

JOURNALCTL = ("sudo", "journalctl", "--no-pager", "--quiet", "--output", "short-unix")
READ_SECONDS = 60.0  # for the last lines of a journal, once


@dataclass
class Journal:
    """A machine's journal. tail: how many lines that are there already come first."""

    there: Existing
    machine: str
    tail: int
    _stamp: str = ""  # seconds since the epoch, of the last line
    _seen: set[str] = field(default_factory=set)  # the lines of that moment

    def last(self, put: Put) -> None:
        """Hand on the last lines."""
        words = shlex.join([*JOURNALCTL, "--lines", str(self.tail)])
        machine = self.there.machine(self.machine)
        done = run_on(machine, words, private_key=self._key(), timeout=READ_SECONDS)
        if done.returncode != 0:
            raise proc.CommandFailed(done, why=f"ended with status {done.returncode}")
        for line in done.stdout.splitlines():
            self._hand_on(line, put)

    def follow(self, put: Put) -> None:
        """Hand on lines until the connection ends; none twice."""
        if self.machine not in self.there.instances():
            return
        ssh = ssh_command(self.there.machine(self.machine), self._key())
        for line in proc.stream([*DIES_WITH_US, *ssh, shlex.join(self._command())]):
            self._hand_on(line, put)

    def _key(self) -> Path:
        return self.there.file(self.there.files.key, "the cell's private key")

    def _command(self) -> list[str]:
        since = ["--no-tail", "--since", f"@{self._stamp}"] if self._stamp else ["--lines", str(self.tail)]
        return [*JOURNALCTL, "--follow", *since]

    def _hand_on(self, line: str, put: Put) -> None:
        stamp, _, text = line.partition(" ")
        if stamp != self._stamp:
            self._stamp, self._seen = (stamp, set()) if _is_moment(stamp) else (self._stamp, self._seen)
        elif line in self._seen:
            return
        self._seen.add(line)
        said = f"{_readable(stamp)} {text}" if _is_moment(stamp) else line
        put(LogLine(f"{self.machine} {JOURNALS}", clean(said)))


def _is_moment(word: str) -> bool:
    return word.replace(".", "", 1).isdecimal()


def _readable(stamp: str) -> str:
    return datetime.fromtimestamp(float(stamp), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
