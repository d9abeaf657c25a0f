"""A cluster as it is, read once: its ClusterDeployment, what the operator did for it, and the Machines around it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.errors import BadInput
from harness.kube.failures import ApiFailure
from harness.kube.kinds.models import Metadata
from harness.operator.api.cluster import DeclaredCluster
from harness.operator.api.etcdbackup import EtcdBackup
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, ETCD_BACKUP, MACHINE
from harness.operator.usual import open_usual


@dataclass(frozen=True)
class LiveCluster:
    """What there is.

    metadata: of the ClusterDeployment, None where there is none.  state: its Cluster.  machines: of its namespace.
    backups: of its namespace, too.
    """

    metadata: Metadata | None = None
    state: DeclaredCluster | None = None
    machines: tuple[DeclaredMachine, ...] = ()
    backups: tuple[EtcdBackup, ...] = ()

    @property
    def new(self) -> bool:
        """Tell whether nothing was begun for it yet."""
        return self.state is None or not self.state.status.sequence


def look(name: str, namespace: str, kubeconfig: Path | None) -> LiveCluster:
    """Read a cluster.

    Args:
        kubeconfig: of the cluster that the operator works in; None: as kubectl finds it.

    Raises:
        BadInput: there is no kubeconfig, or the operator's kinds are not there.  InfraError: the API does not answer.
    """
    api = open_usual(kubeconfig)
    try:
        machines = api.list(MACHINE, namespace).items
        backups = api.list(ETCD_BACKUP, namespace).items
        found = api.get(CLUSTER_DEPLOYMENT, name, namespace)
        state = api.get(CLUSTER, name, namespace)
    except ApiFailure as failure:
        if not failure.not_found:
            raise
        said = f"the cluster has no kind {MACHINE.kind} of {MACHINE.api_version}"
        raise BadInput(said, hint="add it: `vmatrix operator crds | kubectl apply --server-side -f -`") from failure
    return LiveCluster(
        Metadata.model_validate(found["metadata"]) if found is not None else None,
        DeclaredCluster.model_validate(state) if state is not None else None,
        tuple(DeclaredMachine.model_validate(machine) for machine in machines),
        tuple(EtcdBackup.model_validate(backup) for backup in backups),
    )
