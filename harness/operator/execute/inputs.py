"""What one operation is given, before there are objects of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.operator.api.etcdbackup import OperationSnapshot
from harness.operator.api.machine import KeyRef
from harness.operator.api.resources import CLUSTER_LABEL, GROUP, OPERATION_LABEL
from harness.operator.decide.hosts import Host
from harness.operator.decide.product_file import KnownProduct

ADOPT = "adopt"  # the operation that takes over a cluster
BACKUP = "backup"  # the operation that takes a snapshot of etcd
RESET = "reset"  # the operation after which nothing is kept of a cluster
KUBECONFIG = "kubeconfig"  # the file that the playbooks are told to keep; all else that they keep is named after it
SEQUENCE_LABEL, ATTEMPT_LABEL = f"{GROUP}/sequence", f"{GROUP}/attempt"


@dataclass(frozen=True)
class Execution:
    """One attempt at one operation.

    entry: the playbook.  hosts: reached at their addresses where they have no `through`.
    image: of the executor.  digest: of everything that is applied.
    variables: of the playbooks, without the paths of files that they keep.
    deadline_seconds: for all of it, from the Job's start on.
    snapshot: of etcd, which it takes or restores; its claim is mounted.
    product: whose playbook it is; None: vmatrix's own.
    """

    cluster: str
    namespace: str
    sequence: int
    operation: str
    entry: str
    hosts: tuple[Host, ...]
    image: str
    deadline_seconds: int
    digest: str
    attempt: int = 1
    variables: Mapping[str, Any] = field(default_factory=dict)
    snapshot: OperationSnapshot | None = None
    product: KnownProduct | None = None

    @property
    def job(self) -> str:
        """Return the name of the Job, which is that of its inputs' ConfigMap as well."""
        return job_name(self.cluster, self.sequence, self.operation, self.attempt)

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of everything that is made for it."""
        numbers = {SEQUENCE_LABEL: str(self.sequence), ATTEMPT_LABEL: str(self.attempt)}
        return {CLUSTER_LABEL: self.cluster, OPERATION_LABEL: self.operation, **numbers}


def key_file(key: KeyRef) -> str:
    """Return where a machine's SSH key lies below the folder of an operation's inputs."""
    return f"keys/{key.name}/{key.key}"


def job_name(cluster: str, sequence: int, operation: str, attempt: int = 1) -> str:
    """Return the name of an attempt's Job; the same attempt has no other, so it is never made twice."""
    name = f"{cluster}-{sequence}-{operation}"
    return name if attempt == 1 else f"{name}-{attempt}"


def executor_name(cluster: str) -> str:
    """Return the name of the ServiceAccount, Role and RoleBinding of a cluster's executors."""
    return f"{cluster}-executor"


def state_name(cluster: str) -> str:
    """Return the name of the Secret with what playbooks keep of a cluster."""
    return f"{cluster}-state"


def log_name(job: str) -> str:
    """Return the name of the ConfigMap that keeps a Job's log."""
    return f"{job}-log"
