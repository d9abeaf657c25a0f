"""What the operator would do for a file, and why: from the file alone, or compared with a cluster that is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import BadInput
from harness.kube.kinds.form import SpecMistake
from harness.operator.api.cluster import CurrentOperation, PlannedStep
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.rules import mistakes
from harness.operator.decide.accepted import against
from harness.operator.decide.assumed import claimed, invented
from harness.operator.decide.desired import Desired, desired
from harness.operator.decide.explained_product import product_of
from harness.operator.decide.live import LiveCluster, look
from harness.operator.decide.observed import observed
from harness.operator.decide.operations import Verdict, next_operation, plan
from harness.operator.decide.product_file import KnownProduct
from harness.operator.decide.releases import load_releases
from harness.operator.decide.waits import Wait
from harness.operator.decide.written import documents_of, judged, names_of
from harness.spec.shape import unknown

Products = Callable[[ClusterDeployment], tuple[KnownProduct | None, Sequence[SpecMistake]]]


@dataclass(frozen=True)
class Against:
    """What a file is compared with: the cluster of a name. kubeconfig: None: as kubectl finds it."""

    name: str
    kubeconfig: Path | None = None


@dataclass(frozen=True)
class ClusterOutlook:
    """What the operator would do for one ClusterDeployment. assumed: its machines are none that exist."""

    desired: Desired
    steps: tuple[PlannedStep, ...]
    verdict: Verdict
    assumed: bool

    def json(self) -> dict[str, Any]:
        """Return it as plain data."""
        one = self.desired
        return {
            "cluster": one.wish.metadata.name,
            "namespace": one.wish.metadata.namespace,
            "version": one.spec.version,
            "machines": [
                {"machine": host.machine, "host": host.name, "address": host.address, "set": host.set_name}
                for host in one.hosts
            ],
            "groups": {host.machine: list(host.groups) for host in one.hosts},
            "assumed": self.assumed,
            "variables": dict(one.variables),
            "plan": [step.model_dump() for step in self.steps],
            "now": _now(self.verdict),
        }


def _now(verdict: Verdict) -> dict[str, Any]:
    if isinstance(verdict, CurrentOperation):
        return {"operation": verdict.operation, "attempt": verdict.attempt}
    if isinstance(verdict, Wait):
        return {"waits": str(verdict.reason), "message": verdict.message, "again_seconds": verdict.again_seconds}
    return {}


def explain(file: Path, namespace: str, against: Against | None, now: datetime) -> list[ClusterOutlook]:
    """Return what the operator would do for each ClusterDeployment of a file, or for the one that is compared.

    Args:
        namespace: of objects that name none.

    Raises:
        BadInput: what is wrong with the file, with the line of each mistake.
    """
    documents = documents_of(file, namespace)
    names = names_of(documents)
    live = LiveCluster()
    if against is not None:
        if against.name not in names:
            said = unknown("ClusterDeployment", against.name, names)
            raise BadInput(said, hint=f"--against names the one of {file} to compare")
        live = look(against.name, names[against.name], against.kubeconfig)
    deployments, machines = judged(documents, creating=live.new)
    there = {machine.metadata.name for machine in live.machines}
    live = replace(live, machines=(*live.machines, *(one for one in machines if one.metadata.name not in there)))
    chosen = (cd for cd in deployments if against is None or cd.metadata.name == against.name)
    kubeconfig = against.kubeconfig if against is not None else None
    products = partial(product_of, file=file, kubeconfig=kubeconfig, compared=against is not None)
    return [_outlook(cd, live, products, now) for cd in chosen]


def _outlook(cd: ClusterDeployment, live: LiveCluster, products: Products, now: datetime) -> ClusterOutlook:
    """Return what would be done for a wish among machines, or among just those that it asks for if there are none."""
    if live.metadata is not None:  # the object that is there, as it would be once the file is applied
        annotations = {**live.metadata.annotations, **cd.metadata.annotations}
        cd = cd.model_copy(update={"metadata": live.metadata.model_copy(update={"annotations": annotations})})
    machines = claimed(cd, live.machines) if live.machines else invented(cd)
    world = observed(live.state, machines, now, live.backups)
    known = load_releases()
    around = [one.address for one in machines if one.spec.claim is not None and one.address]
    wrong = [*mistakes(cd, known.kubernetes, around, creating=live.new)]
    wrong += against(cd, machines, world)
    product, unusable = products(cd)
    said = [mistake.text for mistake in (*wrong, *unusable)]
    wanted = desired(cd, machines, known, world.applied, said, product)
    return ClusterOutlook(wanted, plan(wanted, world), next_operation(wanted, world), assumed=not live.machines)
