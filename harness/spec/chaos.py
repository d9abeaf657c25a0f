"""The setting `chaos`: which programs of a declared product are ended, and at which task of its executor."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from harness.errors import BadInput

Part = Literal["executor", "manager", "eviction"]
SEPARATOR = ";"  # names of tasks have commas
FORM = re.compile(r"(?P<part>executor|manager|eviction)(?::(?P<stage>[a-z][a-z0-9-]*))?@(?P<task>\S.*)")
FIRST = "deploy"  # the stage of whatever names none
HINT = "docs/chaos.md explains the setting `chaos`"


@dataclass(frozen=True)
class Blow:
    """One program's end.

    part: an executor or the manager, killed; or the eviction of an executor.
    stage: the phase, as steps and logs name it.  task: when the executor begins it.
    """

    part: Part
    stage: str
    task: str

    @property
    def text(self) -> str:
        """Return it as it is written in the setting."""
        return f"{self.part}:{self.stage}@{self.task}"


def blows(text: str | None) -> tuple[Blow, ...]:
    """Read the setting: PART@TASK or PART:STAGE@TASK, with semicolons.

    Raises:
        ValueError: it is written in another way.
    """
    found = []
    for word in filter(None, (each.strip() for each in (text or "").split(SEPARATOR))):
        match = FORM.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r} is not executor@TASK, manager@TASK or eviction@TASK, or PART:STAGE@TASK")
        found.append(Blow(match["part"], match["stage"] or FIRST, match["task"]))  # type: ignore[arg-type] # by FORM
    if text is not None and not found:
        raise ValueError("it names nothing; leave it out")
    return tuple(found)


def checked(text: str) -> str:
    """Return the setting as it is. Raises ValueError as `blows`."""
    blows(text)
    return text


def refuse_unreachable(text: str | None, stages: Iterable[str], *, on_host: bool) -> None:
    """Refuse what can never happen in a run.

    Args:
        stages: of the cells whose product has executors.
        on_host: whether pods of the infra cluster are processes of this host.

    Raises:
        BadInput: it cannot, and why.
    """
    wanted, there = blows(text), list(dict.fromkeys(stages))
    if wanted and not on_host:
        raise BadInput("the setting chaos kills processes of this host, and pods run elsewhere", hint=HINT)
    if wanted and not there:
        raise BadInput("the setting chaos is about executors, and no cell of the run has any", hint=HINT)
    strange = [blow for blow in wanted if blow.stage not in there]
    if strange:
        known = ", ".join(there)
        raise BadInput(f"the setting chaos: {strange[0].text}: no cell has a phase {strange[0].stage}", hint=known)
