"""The program of an executor's pod: run one operation, and whatever happens say how it ended.

It begins anew with the same playbook, whatever ended an earlier executor: playbooks are built to be repeated.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from harness.errors import EXIT_OK, BadInput, HarnessBug, VmatrixError
from harness.kube.api import PATIENT
from harness.kube.client import Cluster
from harness.kube.in_cluster import in_cluster_kubeconfig
from harness.operator.execute import termination
from harness.operator.execute.inputs import OperationFolder
from harness.operator.execute.object_store import Bucket, StoreTrouble
from harness.operator.execute.operation_run import OperationRun
from harness.operator.execute.own_objects import OwnObjects
from harness.operator.execute.snapshots import SnapshotStore
from harness.operator.execute.termination import Termination


class _ToldToEnd(BaseException):
    """A signal came; nothing on the way may take it for an error of its own."""


def execute(
    folder: Path,
    work: Path,
    playbooks: Path | None,
    *,
    report: Path | None = None,
    kubeconfig: Path | None = None,
    in_cluster: bool = False,
    snapshots: Path | None = None,
    store: Path | None = None,
) -> int:
    """Run an operation to its end; return the exit status.

    SIGTERM and SIGINT end it early, but not what is done at its end. A container's first process would not be ended by
    them without handlers.

    Args:
        folder: of the inputs.  work: for files of its own.  playbooks: where the entry is; None: those of vmatrix,
            or for a product file where this program runs.
        report: the file that gets the termination message.
        snapshots: the folder with snapshots of etcd; None: `snapshots` in that of the inputs.
        store: the folder with the Secrets of a bucket; None: `store` in that of the inputs.
        kubeconfig: of the infra cluster; None: there is no API, or this is a pod of that cluster (`in_cluster`).
    """
    runs: list[OperationRun] = []

    def run() -> None:
        inputs = OperationFolder.load(folder)
        path = _kubeconfig_of_pod(work / "api") if in_cluster else kubeconfig
        cluster = Cluster.from_kubeconfig(path, patience=PATIENT) if path is not None else None
        kept = _snapshots(inputs, snapshots or folder / "snapshots", store or folder / "store")
        runs.append(OperationRun(inputs, playbooks, work, OwnObjects(inputs, cluster), kept))
        runs[0].run(path)

    error = _error_of(run)
    if runs:
        end, error = runs[0].finish(error)
    elif error is not None:
        end = Termination(
            "failed",
            error.blame,
            summary=error.summary,
            hint=error.hint,
            revision=termination.revision(),
            reason=error.reason if isinstance(error, StoreTrouble) else "",
        )
        sys.stderr.write(f"error ({error.blame.value}): {error.summary}\nhint: {error.hint}\n")
    if report is not None:
        report.write_text(end.to_text(), encoding="utf-8")  # a pod's is mounted: nothing can take its place
    return EXIT_OK if error is None else error.exit_code


def _snapshots(inputs: OperationFolder, folder: Path, secrets: Path) -> SnapshotStore | None:
    """Return the place of an operation's snapshot, None where it is about none."""
    if inputs.snapshot is None:
        return None
    where = inputs.snapshot.s3
    bucket = Bucket.open(where, secrets) if where is not None else None
    return SnapshotStore(folder, inputs.cluster, inputs.snapshot, bucket)


def _kubeconfig_of_pod(target: Path) -> Path:
    kubeconfig = in_cluster_kubeconfig(target, os.environ)
    if kubeconfig is None:
        raise BadInput(
            "this is not a pod with a service account", hint="pass --kubeconfig FILE instead of --in-cluster"
        )
    return kubeconfig


def _error_of(run: Callable[[], None]) -> VmatrixError | None:
    """Call something; return what it failed with. The first signal ends it, and none is heard any more after it."""
    heard = False

    def leave(_: int, __: object) -> None:
        nonlocal heard
        if not heard:
            heard = True
            raise _ToldToEnd

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    try:
        run()
        heard = True
    except _ToldToEnd:
        return termination.ExecutorInterrupted()
    except VmatrixError as error:
        heard = True
        return error
    except Exception as error:  # noqa: BLE001 - whatever it is: it must be in what is said at the end
        heard = True
        traceback.print_exc()
        return HarnessBug(f"{type(error).__name__}: {error}", detail=traceback.format_exc())
    return None
