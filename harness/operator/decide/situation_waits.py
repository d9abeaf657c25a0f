"""What single operations wait for: machines, and what another operation left half done."""

from __future__ import annotations

from collections.abc import Iterator

from harness.operator.api.sets import WantedSet
from harness.operator.decide.desired import Desired
from harness.operator.decide.due import Situation
from harness.operator.decide.duties import SETTLED
from harness.operator.decide.waits import Wait, WaitReason


def machines_missing(found: Situation) -> Wait | None:
    """Wait until each set has claimed as many machines as it wants, and all of them can be used."""
    desired, trouble = found.desired, found.observed.trouble
    said = [text for one in desired.spec.machine_sets for text in _of_set(desired, one)]
    lost = [host for host in desired.hosts if not host.groups]
    said += [f"machine {host.machine} still to leave: there is no set {host.set_name}" for host in lost]
    said += [f"machine {name}: {trouble[name]}" for name in desired.machines if name in trouble]
    return Wait(WaitReason.WAITING_FOR_MACHINES, "; ".join(said)) if said else None


def joining_missing(found: Situation) -> Wait | None:
    """Wait until each set has claimed what it lacks, and the machines that are to join can be used."""
    who, trouble, said = found.who, found.observed.trouble, list[str]()
    for one in found.desired.spec.machine_sets:
        if who.lacking[one.name]:
            said.append(f"set {one.name} has {one.replicas - who.lacking[one.name]} of {one.replicas} machines")
    said += [f"machine {host.machine}: {trouble[host.machine]}" for host in who.joining if host.machine in trouble]
    return Wait(WaitReason.WAITING_FOR_MACHINES, "; ".join(said)) if said else None


def unsettled(found: Situation) -> Wait | None:
    """Wait until what operations on machines left half done is put right."""
    half = found.observed.unsettled
    if half is None or not (set(half.parts) & set(SETTLED) or half.hosts or half.leaving):
        return None
    return Wait(WaitReason.FAILED, f"{half.why}, which is to be put right first")


def _of_set(desired: Desired, one: WantedSet) -> Iterator[str]:
    """Yield what a set lacks, or has too much of."""
    have = [host.machine for host in desired.hosts if host.set_name == one.name]
    lacking = one.replicas - len(have)
    if one.machines.names is not None:
        absent = [name for name in one.machines.names if name not in have]
        if absent:
            yield f"set {one.name} waits for {', '.join(absent)}: not there, or not free"
    elif lacking > 0:
        yield f"set {one.name} has {len(have)} of {one.replicas} machines: {lacking} missing"
    if lacking < 0:
        yield f"set {one.name} has {len(have)} of {one.replicas} machines: {-lacking} still to leave"
