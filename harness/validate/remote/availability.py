"""Requests that one machine of a guest sends to addresses all through a phase: started, awaited, stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.errors import InfraError, ProductError
from harness.model import Machine
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.facts.availability import read_requests
from harness.validate.hosts import MACHINE, remote_command

PROGRAM = MACHINE / "availability.py"
INTERVAL_SECONDS = 0.5  # the resolution of outages
MOST_SECONDS = 4 * 3600.0  # longer than any phase: the machine stops by itself when vmatrix cannot stop it
STOP_SECONDS = 5.0  # for the local ssh client to end


@dataclass(frozen=True)
class RequestStream:
    """Requests under way: the process that sends them, its log, the names of the addresses, and the machine."""

    service: proc.Service
    log: Path
    names: tuple[str, ...]
    machine: str

    def output(self) -> str:
        """Return the lines so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for_success(self, deadline: Deadline, *, what: str, since_now: bool = False) -> None:
        """Wait for a successful request to every address.

        Args:
            since_now: only requests from now on count.

        Raises:
            InfraError: the machine has stopped sending.  ProductError: no request to an address succeeds in time.
        """
        skip = len(read_requests(self.output())) if since_now else 0

        def probe() -> bool | NotYet:
            rows = read_requests(self.output())[skip:]
            missing = [name for name in self.names if not any(of == name and not row.why for of, row in rows)]
            if not missing:
                return True
            if not self.service.alive():
                raise InfraError(
                    f"{self.machine} stopped sending requests during the phase",
                    hint=f"see the end of {self.log}; is the machine still running?",
                    paths=(self.log,),
                    detail=self.output()[-500:],
                )
            last = {of: row.why for of, row in rows}
            return NotYet("; ".join(f"{name}: {last.get(name, 'no request yet')}" for name in missing))

        try:
            until(probe, deadline=deadline, what=what, interval=0.3)
        except TimedOut as late:
            raise ProductError(late.summary, hint=f"{self.log} has every request", paths=(self.log,)) from late

    def stop(self) -> None:
        """Stop sending. Idempotent."""
        self.service.stop(grace=STOP_SECONDS)


def send_requests(
    machine: Machine, login: Sequence[str], addresses: Mapping[str, tuple[str, str]], log: Path, timeouts: Timeouts
) -> RequestStream:
    """Start to send requests from a machine.

    Args:
        login: the command that logs in to it; the remote command is appended.
        addresses: URL and, for https, the file of the CA on that machine, by name.
        log: gets the lines of machine/availability.py; overwritten.
    """
    timeout = timeouts.availability_request
    requests = [
        {"name": name, "url": url, "cafile": cafile, "timeout": timeout, "interval": INTERVAL_SECONDS}
        for name, (url, cafile) in addresses.items()
    ]
    given = json.dumps({"seconds": MOST_SECONDS, "requests": requests})
    command = remote_command(PROGRAM, given, timeouts=timeouts, seconds=MOST_SECONDS + STOP_SECONDS)
    as_root = "" if machine.user == "root" else "sudo "
    log.write_text("", encoding="utf-8")
    service = proc.spawn([*login, as_root + command], log=log)
    return RequestStream(service, log, tuple(addresses), machine.name)
