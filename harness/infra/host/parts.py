"""Which programs of an instance ended though they are to run, in words: for whoever waits for what they do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import InfraError, VmatrixError
from harness.files import write_atomically
from harness.infra.host import processes, record
from harness.infra.host.layout import Layout

LINES = 5  # of a program's log, in a message about something else


@dataclass(frozen=True)
class InstanceParts:
    """The programs of an instance that were started once, as a process sees them that waits for something."""

    layout: Layout

    def dead(self) -> list[str]:
        """Return those that ended; none of an instance that is being removed."""
        found = record.load(self.layout)
        if found is None or not found.usable:
            return []
        return [name for name in processes.recorded(self.layout) if not processes.runs(self.layout, name)]

    def trouble(self) -> str:
        """Return what to add to a time-out: which are dead, and their last lines; "" where all run."""
        return described(self.layout, self.dead())

    def lost(self) -> VmatrixError | None:
        """Return why waiting is in vain: a program is dead, and whoever starts such again has given it up."""
        if not self.layout.given_up.exists():  # asked at each probe of each wait
            return None
        given_up = read_given_up(self.layout)
        dead = [name for name in self.dead() if name in given_up]
        if not dead:
            return None
        return InfraError(
            f"{', '.join(dead)} of instance {self.layout.name} ended and is not started again: {given_up[dead[0]]}",
            hint=f"see the log; after fixing the cause: vmatrix infra up --infra-name {self.layout.name}",
            paths=[self.layout.logfile(name) for name in dead],
            detail=described(self.layout, dead),
        )


def described(layout: Layout, names: Sequence[str]) -> str:
    """Return that programs are dead, with the last lines of each, to be read below something else."""
    if not names:
        return ""
    said = (
        f"dead: {', '.join(names)} of instance {layout.name} (vmatrix infra up --infra-name {layout.name} starts them)"
    )
    return f"{said}\n{last_words(layout, names)}"


def last_words(layout: Layout, names: Sequence[str]) -> str:
    """Return the last lines of programs' logs."""
    lines: list[str] = []
    for name in names:
        last = processes.tail(layout, name).splitlines()[-LINES:]
        lines += [f"--- last lines of {layout.logfile(name)}", *last]
    return "\n".join(lines)


def give_up(layout: Layout, why: dict[str, str]) -> None:
    """Write down which programs nobody starts again, and why, for all processes that wait."""
    write_atomically(layout.given_up, json.dumps(why))


def read_given_up(layout: Layout) -> dict[str, str]:
    """Return which programs were given up, and why."""
    try:
        found = json.loads(layout.given_up.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(why) for name, why in found.items()} if isinstance(found, dict) else {}
