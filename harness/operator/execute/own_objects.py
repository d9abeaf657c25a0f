"""The objects of the API that an executor may touch; by hand there may be no API, and nothing of this is done.

What playbooks keep of a cluster "on the controller" is in a Secret while no executor runs: the kubeconfig, how machines
join, the CA and the client of an external etcd, the access of drains. A playbook that finds none of it makes it anew
from the control plane; an etcd that lost its first member cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import InfraError, InfraRetriable
from harness.files import write_atomically
from harness.kube.client import ApiFailure, Cluster
from harness.kube.failures import Json
from harness.kube.objects import dig, parse_time, secret_content, secret_data
from harness.kube.resources import SECRET
from harness.operator.api.resources import GIVEN_UP
from harness.operator.execute import logs, termination
from harness.operator.execute.inputs import OperationFolder, state_name
from harness.operator.execute.termination import Termination


@dataclass(frozen=True)
class OwnObjects:
    """The state Secret, the log's ConfigMap and the Job of one operation. cluster: None where there is no API."""

    folder: OperationFolder
    cluster: Cluster | None

    def restore(self, target: Path) -> None:
        """Write what is kept of the cluster into a folder.

        Raises:
            InfraRetriable: there is no such Secret.
        """
        if self.cluster is not None:
            for name, content in secret_content(self._state(self.cluster)).items():
                write_atomically(target / name, content, mode=0o600)

    def save(self, files: Mapping[str, bytes]) -> None:
        """Keep these files of the cluster and no others; write nothing where they are kept already.

        Raises:
            InfraRetriable: there is no such Secret.  ApiFailure, Unreachable: it could not be written.
        """
        if self.cluster is None:
            return
        encoded = secret_data(files)
        for last in (False, True):
            secret = self._state(self.cluster)
            if (secret.get("data") or {}) == encoded:
                return
            try:
                self.cluster.replace(SECRET, {**secret, "data": encoded})
                return
            except ApiFailure as failure:
                if last or not failure.conflict:
                    raise

    def annotate(self, value: str) -> None:
        """Say where the operation is."""
        if self.cluster is not None:
            termination.annotate(self.cluster, self.folder.namespace, self.folder.job, value)

    def elapsed(self) -> float:
        """Return the seconds since the Job began, and say that nothing is done yet; 0 where there is no Job.

        An evicted executor's successor has the rest of its time. A manager that gives an operation up marks the Job
        only while nothing is said here, so no machine is touched after that.

        Raises:
            InfraError: the operation was given up.
        """
        if self.cluster is None:
            return 0.0
        try:
            job = termination.annotate(self.cluster, self.folder.namespace, self.folder.job, "{}")
        except ApiFailure as failure:
            if failure.not_found:
                return 0.0
            raise
        if dig(job, "metadata", "annotations", GIVEN_UP):
            raise InfraError("the operation was given up before it began", hint="the operator decides anew")
        began = dig(job, "status", "startTime")
        return max(0.0, (datetime.now(UTC) - parse_time(began)).total_seconds()) if began else 0.0

    def keep_log(self, text: str, end: Termination) -> None:
        """Keep the log of the operation, and how it ended."""
        if self.cluster is not None:
            logs.write(self.cluster, self.folder.namespace, self.folder.job, text, end)

    def _state(self, cluster: Cluster) -> Json:
        name = state_name(self.folder.cluster)
        secret = cluster.get(SECRET, name, self.folder.namespace)
        if secret is None:
            raise InfraRetriable(
                f"Secret {name}, which keeps what the playbooks need of the cluster, is gone",
                hint="the operation is repeated, and the Secret made anew",
            )
        return secret
