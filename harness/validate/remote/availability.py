"""Ask addresses all through a phase, from one machine of the guest that stays: started, waited for, stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.errors import InfraError, ProductError
from harness.model import Machine
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.facts.availability import read_rows
from harness.validate.remote.hosts import remote_command

PROGRAM = Path(__file__).with_name("on_node_availability.py")
INTERVAL_SECONDS = 0.5
ANSWER_SECONDS = 3.0  # an answer that takes longer is none: a caller would have given up
MOST_SECONDS = 4 * 3600.0  # after which the machine ends it, should nobody else
STOP_SECONDS = 5.0


@dataclass(frozen=True)
class RequestStream:
    """Questions under way: the process that runs them, where its lines go, and from which machine they are asked."""

    service: proc.Service
    log: Path
    names: tuple[str, ...]
    machine: str

    def said(self) -> str:
        """Return the lines so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for_good_answers(self, deadline: Deadline, *, what: str, since_now: bool = False) -> None:
        """Wait until every question has got a good answer.

        Args:
            since_now: only those count that come from now on.

        Raises:
            InfraError: the machine no longer asks.  ProductError: a question gets no good answer in time.
        """
        skip = len(read_rows(self.said())) if since_now else 0

        def probe() -> bool | NotYet:
            rows = read_rows(self.said())[skip:]
            missing = [name for name in self.names if not any(of == name and not row.why for of, row in rows)]
            if not missing:
                return True
            if not self.service.alive():
                raise InfraError(
                    f"{self.machine} stopped asking, which it should do all through the phase",
                    hint=f"the end of {self.log} may say why; is the machine still running?",
                    paths=(self.log,),
                    detail=self.said()[-500:],
                )
            last = {of: row.why for of, row in rows}
            return NotYet("; ".join(f"{name}: {last.get(name, 'not asked yet')}" for name in missing))

        try:
            until(probe, deadline=deadline, what=what, interval=0.3)
        except TimedOut as late:
            raise ProductError(
                late.summary, hint=f"what was answered when is in {self.log}", paths=(self.log,)
            ) from late

    def stop(self) -> None:
        """Stop asking. Idempotent."""
        self.service.stop(grace=STOP_SECONDS)


def ask_from(
    machine: Machine, login: Sequence[str], questions: Mapping[str, tuple[str, str]], log: Path
) -> RequestStream:
    """Begin to ask from a machine.

    Args:
        login: the command that logs in to it; the remote command is appended.
        questions: URL and, for https, the file of the CA on that machine, by name.
        log: gets the lines of on_node_availability.py; what is in it goes.
    """
    asked = [
        {"name": name, "url": url, "cafile": cafile, "timeout": ANSWER_SECONDS, "interval": INTERVAL_SECONDS}
        for name, (url, cafile) in questions.items()
    ]
    given = json.dumps({"seconds": MOST_SECONDS, "questions": asked})
    command = remote_command(PROGRAM, given, seconds=MOST_SECONDS + STOP_SECONDS)
    as_root = "" if machine.user == "root" else "sudo "
    log.write_text("", encoding="utf-8")
    service = proc.spawn([*login, as_root + command], log=log)
    return RequestStream(service, log, tuple(questions), machine.name)
