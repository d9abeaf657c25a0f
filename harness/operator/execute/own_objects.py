"""The objects of the API that an executor may touch; by hand there may be no API, and nothing of this is done."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import BadInput
from harness.kube.client import ApiFailure, Cluster
from harness.kube.in_cluster import in_cluster_kubeconfig
from harness.kube.objects import dig, parse_time
from harness.kube.patience import PATIENT
from harness.operator.execute import logs, progress
from harness.operator.execute.folder import OperationFolder
from harness.operator.execute.inputs import state_name
from harness.operator.execute.state import StateSecret
from harness.operator.execute.termination import Termination


def kubeconfig_of_pod(target: Path) -> Path:
    """Write a kubeconfig of the pod's service account.

    Raises:
        BadInput: this is no pod, or it has no token.
    """
    found = in_cluster_kubeconfig(target, os.environ)
    if found is None:
        raise BadInput("this is no pod with a service account", hint="pass --kubeconfig FILE instead of --in-cluster")
    return found


@dataclass(frozen=True)
class OwnObjects:
    """The state Secret, the log's ConfigMap and the Job of one operation. cluster: None where there is no API."""

    folder: OperationFolder
    cluster: Cluster | None

    @staticmethod
    def open(folder: OperationFolder, kubeconfig: Path | None) -> OwnObjects:
        """Open the API that a kubeconfig leads to, if there is one."""
        found = Cluster.from_kubeconfig(kubeconfig, patience=PATIENT) if kubeconfig is not None else None
        return OwnObjects(folder, found)

    @property
    def _state(self) -> StateSecret | None:
        if self.cluster is None:
            return None
        return StateSecret(self.cluster, self.folder.namespace, state_name(self.folder.cluster))

    def restore(self, target: Path) -> None:
        """Write what is kept of the cluster into a folder."""
        if (state := self._state) is not None:
            state.restore(target)

    def save(self, files: Mapping[str, bytes]) -> None:
        """Keep these files of the cluster and no others."""
        if (state := self._state) is not None:
            state.save(files)

    def annotate(self, value: str) -> None:
        """Say where the operation is."""
        if self.cluster is not None:
            progress.annotate(self.cluster, self.folder.namespace, self.folder.job, value)

    def elapsed(self) -> float:
        """Return the seconds since the Job began, and say that nothing is done yet; 0 where there is no Job.

        An evicted executor's successor has the rest of its time.
        """
        if self.cluster is None:
            return 0.0
        try:
            job = progress.annotate(self.cluster, self.folder.namespace, self.folder.job, "{}")
        except ApiFailure as failure:
            if failure.not_found:
                return 0.0
            raise
        began = dig(job, "status", "startTime")
        return max(0.0, (datetime.now(UTC) - parse_time(began)).total_seconds()) if began else 0.0

    def keep_log(self, text: str, end: Termination) -> None:
        """Keep the log of the operation, and how it ended."""
        if self.cluster is not None:
            logs.write(self.cluster, self.folder.namespace, self.folder.job, text, end)
