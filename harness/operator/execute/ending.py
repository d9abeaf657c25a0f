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
# Plays and tasks of the packaged playbooks that fail because of what the object asks for, and of nothing else.
REQUEST_PLAYS = frozenset(
    {
        "Check the request before any machine changes",
        "Refuse settings that cannot work",
        "Refuse a Kubernetes version that differs from the running one",
    }
)
REQUEST_TASKS = frozenset({"settings : Say what failed, and that the former settings run"})


class ExecutorInterrupted(InfraRetriable):
    """An executor was told to end before its playbook had."""

    def __init__(self) -> None:
        super().__init__("the executor was told to end before the playbook had ended", hint=REPEATED)


def revision() -> str:
    """Return what the playbooks are of: a commit where the image names one, else the version of vmatrix."""
    return os.environ.get(REVISION) or metadata.version("vmatrix")


def end_of(error: VmatrixError | None, at: PlayProgress, events: Path, output: str, log: str) -> Termination:
    """Return the end of a playbook; `error`: what it failed with.

    Args:
        at: where it was.  events: the failures that Ansible told; the first one says better where it was.
        output: what it printed.  log: the command that shows the operation's log.
    """
    done = {
        one.host: f"ok={one.ok} changed={one.changed} unreachable={one.unreachable} failed={one.failed}"
        for one in recap(output)
    }
    if error is None:
        return Termination("succeeded", recap=done, revision=revision())
    ended = ended_by(events)
    first = ended.first if ended is not None else None
    return Termination(
        outcome="interrupted" if isinstance(error, ExecutorInterrupted) else "failed",
        blame=Blame.USER if first is not None and _by_request(error, first) else error.blame,
        play=(first.play if first is not None else "") or at.play,
        task=first.task if first is not None else at.task,
        host=first.host if first is not None else "",
        summary=error.summary,
        hint=_hint(error, first is not None and first.unreachable, log),
        recap=done,
        revision=revision(),
    )


def _by_request(error: VmatrixError, first: TaskFailure) -> bool:
    """Tell whether what was asked for is to blame: the playbooks judged it, or its settings were taken back."""
    judged = first.play in REQUEST_PLAYS or first.task in REQUEST_TASKS
    return judged and not first.unreachable and error.blame == Blame.PRODUCT


def _hint(error: VmatrixError, unreachable: bool, log: str) -> str:
    """Return what to do next. Files that the error names lie in a pod that is gone: the log is kept elsewhere."""
    if isinstance(error, InfraRetriable):
        return REPEATED
    if error.blame == Blame.INFRA and unreachable:
        return ANSWER
    return f"`{log}` shows all that Ansible said" if error.paths else error.hint
