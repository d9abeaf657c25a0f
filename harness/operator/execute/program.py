"""The program of an executor's pod: run one operation, and whatever happens say how it ended.

It begins anew with the same playbook, whatever ended an earlier executor: playbooks are built to be repeated.
"""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.errors import EXIT_OK, HarnessBug, VmatrixError
from harness.operator.execute import ending
from harness.operator.execute.folder import OperationFolder
from harness.operator.execute.operation_run import OperationRun
from harness.operator.execute.own_objects import OwnObjects, kubeconfig_of_pod

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class ExecuteOptions:
    """What an executor is told.

    folder: of the inputs.  work: for files of its own.  playbooks: where the entry is.
    report: the file that gets the termination message.
    kubeconfig: of the infra cluster; None: there is no API, or this is a pod of that cluster (`in_cluster`).
    """

    folder: Path
    work: Path
    playbooks: Path
    report: Path | None = None
    kubeconfig: Path | None = None
    in_cluster: bool = False


class _ToldToEnd(BaseException):
    """A signal came; nothing on the way may take it for an error of its own."""


def execute(options: ExecuteOptions) -> int:
    """Run an operation to its end; return the exit status.

    SIGTERM and SIGINT end it early, but not what is done at its end. A container's first process would not be ended by
    them without handlers.
    """
    runs: list[OperationRun] = []

    def run() -> None:
        folder = OperationFolder.load(options.folder)
        kubeconfig = kubeconfig_of_pod(options.work / "api") if options.in_cluster else options.kubeconfig
        runs.append(OperationRun(folder, options.playbooks, options.work, OwnObjects.open(folder, kubeconfig)))
        runs[0].run(kubeconfig)

    error = _error_of(run)
    if runs:
        end, error = runs[0].finish(error)
    elif error is not None:
        end = ending.before_anything(error)
        sys.stderr.write(f"{error.summary}\n{error.hint}\n")
    if options.report is not None:
        options.report.write_text(end.to_text(), encoding="utf-8")  # a pod's is mounted: nothing can take its place
    return EXIT_OK if error is None else error.exit_code


def _error_of(run: Callable[[], None]) -> VmatrixError | None:
    """Call something; return what it failed with. The first signal ends it, and none is heard any more after it."""
    heard = False

    def leave(_: int, __: object) -> None:
        nonlocal heard
        if not heard:
            heard = True
            raise _ToldToEnd

    for number in SIGNALS:
        signal.signal(number, leave)
    try:
        run()
        heard = True
    except _ToldToEnd:
        return ending.ExecutorInterrupted()
    except VmatrixError as error:
        heard = True
        return error
    except Exception as error:  # noqa: BLE001 - whatever it is: it must be in what is said at the end
        heard = True
        traceback.print_exc()
        return HarnessBug(f"{type(error).__name__}: {error}", detail=traceback.format_exc())
    return None
