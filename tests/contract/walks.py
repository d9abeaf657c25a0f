"""The recorded walks as expectations: which stream to compare with which facets, what may differ and why.

The tolerances name every difference that is accepted; everything else is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tests.contract.streams import Streams, recording
from tests.contract.transitions import (
    Facets,
    Step,
    Tolerance,
    differences,
    dv_facets,
    event_kinds,
    pod_facets,
    steps,
    vm_facets,
    vmi_facets,
)


@dataclass(frozen=True)
class Walk:
    """One object's recorded life. Names end in "*" where a part of them is generated."""

    stream: str
    recorded_name: str
    live_name: Callable[[str], str]
    facets: Facets
    tolerance: Tolerance = field(default_factory=Tolerance)


@dataclass(frozen=True)
class Before:
    """One change came before another, of another object: (stream, facet, value) each."""

    first: tuple[str, str, str]
    then: tuple[str, str, str]


VM_RECORDING = "vm-lifecycle.json"
DV_RECORDING = "dv-lifecycle.json"

# A launcher is ready until its containers have ended, which a kubelet may say one by one.
POD_TOLERANCE = Tolerance(ignored=frozenset({"condition/Ready=False/ContainersNotReady"}))

VM_WALKS: Sequence[Walk] = (
    Walk("vm", "cp-0", lambda name: name, vm_facets),
    Walk("vmi", "cp-0", lambda name: name, vmi_facets),
    Walk("pod", "virt-launcher-cp-0-*", lambda name: f"virt-launcher-{name}-*", pod_facets, POD_TOLERANCE),
)

FINALIZE = "kubevirt.io/virtualMachineControllerFinalize"
FOREGROUND = "kubevirt.io/foregroundDeleteVirtualMachine"
VM_ORDER: Sequence[Before] = (
    Before(("vm", "finalizers", FINALIZE), ("vmi", "existence", "there")),
    Before(("vmi", "phase", "Pending"), ("pod", "existence", "there")),
    Before(("pod", "existence", "there"), ("vmi", "phase", "Scheduling")),
    Before(("pod", "phase", "Running"), ("vmi", "phase", "Scheduled")),
    Before(("vmi", "phase", "Running"), ("vm", "printableStatus", "Running")),
    Before(("vmi", "condition/Ready", "True"), ("vm", "condition/Ready", "True")),
    Before(("vm", "existence", "deleting"), ("vmi", "existence", "deleting")),
    Before(("vmi", "existence", "deleting"), ("pod", "existence", "deleting")),
    Before(("vmi", "phase", "Succeeded"), ("vmi", "finalizers", FOREGROUND)),
    Before(("vmi", "phase", "Succeeded"), ("pod", "phase", "Succeeded")),
    Before(("pod", "phase", "Succeeded"), ("pod", "existence", "gone")),
    Before(("pod", "existence", "gone"), ("vmi", "existence", "gone")),
    Before(("vmi", "existence", "gone"), ("vm", "existence", "gone")),
)

# Which of CDI's controllers sees a change first is chance, and whether one sees a pod run that ends at once: these
# values show in some of its runs, and not in others.
DV_CHANCE = frozenset(
    {
        "condition/Bound=False/NotFound",
        "condition/Bound=False/CreatingScratchSpace",
        "condition/Ready=False/TransferRunning",
        "condition/Running=False/Unschedulable",
        "condition/Running=False/ErrStartingPod",
        "condition/Running=True/Pod is running",
        "phase=ImportInProgress",
    }
)
# A claim's binding and its importer's start race with each other.
DV_TOLERANCE = Tolerance(
    ignored=DV_CHANCE,
    unordered=frozenset({"condition/Bound", "condition/Running"}),
    once=frozenset({"condition/Bound"}),
)


def _dv(recorded: str, *more: str) -> Walk:
    tolerance = replace(DV_TOLERANCE, ignored=DV_TOLERANCE.ignored | set(more))
    return Walk("dv", recorded, lambda name: name, dv_facets, tolerance)


DV_RECORDED = ("good", "blank", "badsum", "notfound", "larger")
DV_WALKS = {name: _dv(name) for name in DV_RECORDED}
# In a class that waits for consumers, what comes before an importer's pod is left out; a good import was recorded in
# one, and whether it was Pending first is chance.
WAITING = ("phase=Pending", "phase=WaitForFirstConsumer", "phase=PVCBound")
LATE_WALKS = {name: _dv(name, *WAITING) for name in DV_RECORDED}
LATE_WALKS["good"] = _dv("hurried", "phase=Pending")

# Events of the Kubernetes volume binder and of the provisioner, which is not CDI's.
BINDER_EVENTS = frozenset(
    {
        "ExternalProvisioning",
        "Provisioning",
        "ProvisioningFailed",
        "ProvisioningSucceeded",
        "WaitForFirstConsumer",
        "WaitForPodScheduled",
    }
)
DV_EVENTS_IGNORED = frozenset(  # see DV_CHANCE
    {"NotFound", "CreatingScratchSpace", "Unschedulable", "ErrStartingPod", "ImportInProgress", "ImportScheduled"}
)
# Events of the agent on the node, in whose place the recording had a script; they race with the controllers' own.
NODE_EVENTS = frozenset({"Created", "Started", "ShuttingDown", "Deleted", "Stopped"})


def _revision(streams: dict[str, list[Step]], of: tuple[str, str, str]) -> int | None:
    stream, facet, value = of
    return next((s.revision for s in streams.get(stream, []) if s.facet == facet and s.value == value), None)


def _last_revision(streams: dict[str, list[Step]], of: tuple[str, str, str]) -> int | None:
    stream, facet, value = of
    found = [s.revision for s in streams.get(stream, []) if s.facet == facet and s.value == value]
    return found[-1] if found else None


def order_violations(streams: Streams, name_of: Callable[[Walk], str], order: Sequence[Before]) -> list[str]:
    """Return the pairs of an order that do not hold in the streams (resource versions of one etcd are one sequence)."""
    reduced = {walk.stream: steps(streams.of(walk.stream, name_of(walk)), walk.facets) for walk in VM_WALKS}
    found = []
    for pair in order:
        first, then = _revision(reduced, pair.first), _last_revision(reduced, pair.then)
        if first is None or then is None or first >= then:
            found.append(f"{'.'.join(pair.first)} ({first}) should come before {'.'.join(pair.then)} ({then})")
    return found


def compare_walk(walk: Walk, recorded: Streams, live: Streams, live_name: str) -> list[str]:
    """Compare one object's live stream with the recording; return the differences, one line each."""
    want = steps(recorded.of(walk.stream, walk.recorded_name), walk.facets)
    got = steps(live.of(walk.stream, walk.live_name(live_name)), walk.facets)
    return [f"{walk.stream}: {line}" for line in differences(want, got, walk.tolerance)]


def compare_events(recorded: Streams, live: Streams, kind: str, names: tuple[str, str]) -> list[str]:
    """Compare the kinds of events about an object, recorded name and live name given ("" for any)."""
    ignored = BINDER_EVENTS | DV_EVENTS_IGNORED | NODE_EVENTS
    want = event_kinds(recorded.about(kind, names[0]), ignored)
    got = event_kinds(live.about(kind, names[1]), ignored)
    return [] if want == got else [f"events of {kind}: recorded {want}; live {got}"]


def compare_vm(live: Streams, name: str) -> list[str]:
    """Compare a VirtualMachine's whole life (instance, launcher pod, events, order across them) with the recording."""
    recorded = recording(VM_RECORDING)
    found = [line for walk in VM_WALKS for line in compare_walk(walk, recorded, live, name)]
    for kind in ("VirtualMachine", "VirtualMachineInstance"):
        found += compare_events(recorded, live, kind, ("", f"/{name}"))
    return found + order_violations(live, lambda walk: walk.live_name(name), VM_ORDER)


def compare_dv(live: Streams, which: str, name: str, *, late: bool = False) -> list[str]:
    """Compare a DataVolume's whole life with a recorded one.

    Args:
        which: of DV_WALKS.
        late: whether it is in a class that waits for consumers, and has asked to be bound at once.
    """
    recorded = recording(DV_RECORDING)
    walk = (LATE_WALKS if late else DV_WALKS)[which]
    names = (f"/{walk.recorded_name}", f"/{name}")
    found = compare_walk(walk, recorded, live, name)
    found += compare_events(recorded, live, "DataVolume", names)
    return found + compare_events(recorded, live, "PersistentVolumeClaim", names)
