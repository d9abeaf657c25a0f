"""What an executor says of its end: an error, with the play, the task and the host that it is about."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

from harness.errors import Blame, InfraRetriable, VmatrixError
from harness.machines.runner.playbook_events import TaskFailure, ended_by
from harness.machines.runner.playbook_output import recap
from harness.operator.execute.progress import PlayProgress
from harness.operator.execute.termination import Termination

REVISION = "VMATRIX_REVISION"  # the variable of an image with the commit that it was made of
ANSWER = "see whether the machine is up, and whether an executor's pod reaches its address and port"
REPEATED = "the operation is repeated"


class ExecutorInterrupted(InfraRetriable):
    """An executor was told to end before its playbook had."""

    def __init__(self) -> None:
        super().__init__("the executor was told to end before the playbook had ended", hint=REPEATED)


def revision() -> str:
    """Return what the playbooks are of: a commit where the image names one, else the version of vmatrix."""
    return os.environ.get(REVISION) or metadata.version("vmatrix")


def success(output: str) -> Termination:
    """Return the end of a playbook that printed this."""
    return Termination("succeeded", recap=recap_of(output), revision=revision())


def before_anything(error: VmatrixError) -> Termination:
    """Return the end of an executor that could not read what it was given."""
    return Termination("failed", error.blame, summary=error.summary, hint=error.hint, revision=revision())


def failure(error: VmatrixError, at: PlayProgress, events: Path, output: str, log: str) -> Termination:
    """Return the end of a playbook that failed.

    Args:
        log: the command that shows the operation's log.
        at: where it was.  events: the failures that Ansible told; the first one says better where it was.
    """
    ended = ended_by(events)
    first = ended.first if ended is not None else TaskFailure(at.task, False, "", False, False, None, {}, at.play)
    return Termination(
        outcome="interrupted" if isinstance(error, ExecutorInterrupted) else "failed",
        blame=error.blame,
        play=first.play or at.play,
        task=first.task,
        host=first.host,
        summary=error.summary,
        hint=_hint(error, first, log),
        recap=recap_of(output),
        revision=revision(),
    )


def recap_of(output: str) -> dict[str, str]:
    """Return what was done on each host."""
    return {
        one.host: f"ok={one.ok} changed={one.changed} unreachable={one.unreachable} failed={one.failed}"
        for one in recap(output)
    }


def _hint(error: VmatrixError, first: TaskFailure, log: str) -> str:
    """Return what to do next. Files that the error names lie in a pod that is gone: the log is kept elsewhere."""
    if isinstance(error, InfraRetriable):
        return REPEATED
    if error.blame == Blame.INFRA and first.unreachable:
        return ANSWER
    return f"`{log}` shows all that Ansible said" if error.paths else error.hint
