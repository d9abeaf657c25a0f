"""The objects of a cell around its machines: namespace, quota, network policy; and all of them in order. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.kube.client import Json
from harness.machines.kubevirt.manifests import GoldenImage, MachinePlan, golden, machine, render
from harness.machines.network_rules import DNS, LAUNCHER, VIRT_API
from harness.model import LABEL_ATTEMPT, LABEL_CELL, LABEL_RUN, PlannedMachine

# KubeVirt's share of a launcher pod: about 220 MiB and 8 MiB per vCPU (KubeVirt docs, "memory overhead"); rounded up
LAUNCHER_OVERHEAD_MIB = 512
IMPORTER_MIB = 1024
PRODUCT_PODS = 32  # policy: an operator, its Jobs with their retries and those that are kept, their claims


@dataclass(frozen=True)
class Outside:
    """What a cell's machines may have to do with besides each other, virt-api and DNS, as rules of a NetworkPolicy.

    ways_in: peers that may connect to them.  ways_out: whom they may connect to, with the ports.
    """

    ways_in: tuple[Json, ...] = ()
    ways_out: tuple[Json, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CellPlan(MachinePlan):
    """What the manifests of one attempt at a cell have in common.

    expires_at: when anyone may take it away, in seconds since the epoch.
    """

    expires_at: float


def namespace(plan: CellPlan, *, directory: Path) -> Json:
    """Return the cell's Namespace."""
    labels = {**plan.labels, "pod-security.kubernetes.io/enforce": "privileged"}
    expires = datetime.fromtimestamp(plan.expires_at, UTC).isoformat(timespec="seconds")
    return render(
        "namespace.yml.j2", {"namespace": plan.namespace, "labels": labels, "expires": expires}, directory=directory
    )


def quota(plan: CellPlan, machines: tuple[PlannedMachine, ...], *, directory: Path, pods: bool = False) -> Json:
    """Return the cell's ResourceQuota. `pods`: whether its product runs pods of its own in the namespace."""
    memory = sum(m.memory_mib + LAUNCHER_OVERHEAD_MIB for m in machines) + IMPORTER_MIB
    values = {
        "namespace": plan.namespace,
        "labels": dict(plan.labels),
        "machines": len(machines),
        "memory_mib": memory,
        "pods": PRODUCT_PODS if pods else 0,
    }
    return render("quota.yml.j2", values, directory=directory)


def network_policy(plan: CellPlan, outside: Outside, *, directory: Path) -> Json:
    """Return the cell's NetworkPolicy. It selects machines' launcher pods, whatever else their namespace has.

    In a namespace of the cell's own, all launchers are its machines', also those of machines that a product has made
    under labels of its own. Where cells share one, labels tell.
    """
    known = (LABEL_RUN, LABEL_CELL, LABEL_ATTEMPT) if plan.prefix else ()
    own = {label: plan.labels[label] for label in known if label in plan.labels}
    values = {
        "name": f"{plan.prefix}cell",
        "namespace": plan.namespace,
        "labels": dict(plan.labels),
        "machines": {**LAUNCHER, **own},
        "virt_api": VIRT_API,
        "dns": DNS,
        **asdict(outside),
    }
    return plan.owned(render("network-policy.yml.j2", values, directory=directory))


def render_all(
    plan: CellPlan,
    machines: tuple[PlannedMachine, ...],
    image: GoldenImage,
    *,
    directory: Path,
    outside: Outside | None = None,
) -> list[Json]:
    """Return every object that a cell creates, the golden image's included, in order.

    Args:
        outside: what its NetworkPolicy allows besides what every cell's does.
    """
    return [
        namespace(plan, directory=directory),
        quota(plan, machines, directory=directory),
        network_policy(plan, outside or Outside(), directory=directory),
        golden(image, labels=plan.labels, storage_class=plan.storage_class, directory=directory),
        *(obj for planned in machines for obj in machine(plan, planned, image, directory=directory)),
    ]
