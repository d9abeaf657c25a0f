"""Machines as they would be claimed: what the controllers would do, played for an explanation."""

from __future__ import annotations

from collections.abc import Sequence

from harness.kube.kinds.models import Metadata
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.machine import DeclaredMachine, DeclaredMachineSpec, KeyRef, MachineClaim
from harness.operator.api.sets import WantedSet
from harness.operator.decide.observed import trouble_of


def claimed(cd: ClusterDeployment, machines: Sequence[DeclaredMachine]) -> tuple[DeclaredMachine, ...]:
    """Return machines with those claimed that a cluster's sets would claim, the oldest first, or have made for them."""
    found = sorted(machines, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))
    for one in cd.spec.machine_sets:
        lacking = one.replicas - sum(machine.spec.claim == _claim(cd, one) for machine in found)
        if one.machines.kubevirt is not None:
            found += _invented(cd, one, range(len(found), len(found) + max(lacking, 0)))
        free = [number for number, machine in enumerate(found) if _free(cd, one, machine)]
        for number in free[: max(lacking, 0)]:
            spec = found[number].spec.model_copy(update={"claim": _claim(cd, one)})
            found[number] = found[number].model_copy(update={"spec": spec})
    return tuple(found)


def invented(cd: ClusterDeployment) -> tuple[DeclaredMachine, ...]:
    """Return machines just as the sets ask for them."""
    sets = cd.spec.machine_sets
    return tuple(machine for one in sets for machine in _invented(cd, one, range(one.replicas)))


def _invented(cd: ClusterDeployment, one: WantedSet, numbers: range) -> list[DeclaredMachine]:
    """Return machines of a set; with names where it names them."""
    names = one.machines.names or [f"{one.name}-{number}" for number in numbers]
    return [
        DeclaredMachine(
            metadata=Metadata(name=name, namespace=cd.metadata.namespace),
            spec=DeclaredMachineSpec(address="?", user="root", key_ref=KeyRef(name="none"), claim=_claim(cd, one)),
        )
        for name in names
    ]


def _claim(cd: ClusterDeployment, one: WantedSet) -> MachineClaim:
    return MachineClaim.model_validate({"cluster": cd.metadata.name, "set": one.name, "uid": cd.metadata.uid})


def _free(cd: ClusterDeployment, one: WantedSet, machine: DeclaredMachine) -> bool:
    """Tell whether a set may claim a Machine: it is idle, or in a file, where nobody has looked at it."""
    meta, phase = machine.metadata, machine.status.phase
    here = meta.namespace == cd.metadata.namespace and machine.spec.claim is None
    idle = phase == "Idle" or (phase is None and not meta.uid)
    if one.machines.pool is None:
        fits = meta.name in (one.machines.names or ())
    else:
        fits = one.machines.pool.selector.match_labels.items() <= meta.labels.items()
    return here and idle and fits and not trouble_of(machine)
