"""Watch streams reduced to transitions, so that two runs can be compared: which facet changed, to what, in which order.

Times, uids, resource versions and generated names are dropped. Kept are, per kind, the facets that a client acts upon
(existence, finalizers, phase, conditions with their reasons, ...). Two runs agree when every facet of an object walks
the same values in the same order, and no change comes before one that it followed in the recording. Several changes
in one update are fine: a controller may write less often than the real one, never in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

Json = dict[str, Any]
WatchEvent = tuple[str, Json]
ABSENT = "-"
BOUND_AT_ONCE = "cdi.kubevirt.io/storage.bind.immediate.requested"  # asked of CDI, and nothing that it says


@dataclass(frozen=True)
class Step:
    """One facet of an object took a value, at a resource version."""

    facet: str
    value: str
    revision: int


@dataclass(frozen=True)
class Tolerance:
    """What may differ between two runs, and why it is not worth having.

    `ignored` values ("facet=value") are dropped from both runs before comparing; `unordered` facets are compared
    alone, without regard to when the others change; `left_out` facets are not compared at all; of `once` facets only
    the first time of each value counts.
    """

    ignored: frozenset[str] = frozenset()
    unordered: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    once: frozenset[str] = frozenset()


Facets = Callable[[Json], Mapping[str, str]]


def conditions(status: Json, only: frozenset[str] | None = None) -> dict[str, str]:
    """Return each condition as "status/reason" (the reason left out where there is none)."""
    found = {}
    for entry in status.get("conditions") or []:
        if only is None or entry["type"] in only:
            reason = entry.get("reason")
            found[f"condition/{entry['type']}"] = entry["status"] + (f"/{reason}" if reason else "")
    return found


def _keys(entries: Mapping[str, Any] | None, domain: str) -> str:
    return ",".join(sorted(k for k in entries or {} if domain in k)) or ABSENT


def _text(value: Any) -> str:
    return ABSENT if value in (None, "", [], {}) else str(value)


def _active_pods(pods: Mapping[str, str] | None) -> str:
    return ",".join("bound" if node else "unbound" for node in (pods or {}).values()) or ABSENT


def vm_facets(obj: Json) -> dict[str, str]:
    """Return what a client sees of a VirtualMachine."""
    status = obj.get("status") or {}
    return {
        "annotations": _keys(obj["metadata"].get("annotations"), "kubevirt.io/"),
        "printableStatus": _text(status.get("printableStatus")),
        "created": _text(status.get("created")),
        "ready": _text(status.get("ready")),
        "runStrategy": _text(status.get("runStrategy")),
        "startFailure": _text((status.get("startFailure") or {}).get("consecutiveFailCount")),
        "volumeSnapshots": str(len(status.get("volumeSnapshotStatuses") or [])),
        **conditions(status),
    }


def vmi_facets(obj: Json) -> dict[str, str]:
    """Return what a client sees of a VirtualMachineInstance."""
    status = obj.get("status") or {}
    interface = (status.get("interfaces") or [{}])[0]
    return {
        "annotations": _keys(obj["metadata"].get("annotations"), "kubevirt.io/"),
        "labels": _keys(obj["metadata"].get("labels"), "kubevirt.io/"),
        "phase": _text(status.get("phase")),
        "activePods": _active_pods(status.get("activePods")),
        "node": "set" if status.get("nodeName") else ABSENT,
        "qosClass": _text(status.get("qosClass")),
        "address": "set" if interface.get("ipAddress") else ABSENT,
        "runtimeUser": _text(status.get("runtimeUser")),
        "phaseTransitions": ",".join(t["phase"] for t in status.get("phaseTransitionTimestamps") or []) or ABSENT,
        **conditions(status),
    }


POD_CONDITIONS = frozenset({"PodScheduled", "Ready", "kubevirt.io/virtual-machine-unpaused"})


def pod_facets(obj: Json) -> dict[str, str]:
    """Return what a client sees of a launcher's or importer's pod."""
    status = obj.get("status") or {}
    return {
        "labels": _keys(obj["metadata"].get("labels"), "kubevirt.io"),
        "phase": _text(status.get("phase")),
        "node": "set" if obj["spec"].get("nodeName") else ABSENT,
        "address": "set" if status.get("podIP") else ABSENT,
        **conditions(status, POD_CONDITIONS),
    }


def dv_facets(obj: Json) -> dict[str, str]:
    """Return what a client sees of a DataVolume (progress in percent is judged apart: it depends on the clock)."""
    status = obj.get("status") or {}
    return {
        "annotations": _keys(
            {k: v for k, v in (obj["metadata"].get("annotations") or {}).items() if k != BOUND_AT_ONCE},
            "cdi.kubevirt.io/",
        ),
        "phase": _text(status.get("phase")),
        "claimName": "set" if status.get("claimName") else ABSENT,
        **conditions(status),
    }


def _existence(kind: str, meta: Json) -> str:
    if kind == "DELETED":
        return "gone"
    return "deleting" if meta.get("deletionTimestamp") else "there"


def steps(stream: Iterable[WatchEvent], facets: Facets) -> list[Step]:
    """Reduce one object's watch stream to the changes of its facets, oldest first."""
    last: dict[str, str] = {}
    found: list[Step] = []
    for kind, obj in stream:
        meta = obj["metadata"]
        seen = {
            "existence": _existence(kind, meta),
            "finalizers": ",".join(sorted(meta.get("finalizers") or [])) or ABSENT,
            **facets(obj),
        }
        values = {facet: seen.get(facet, ABSENT) for facet in [*seen, *(f for f in last if f not in seen)]}
        for facet, value in values.items():
            if last.get(facet, ABSENT) != value:
                found.append(Step(facet, value, int(meta["resourceVersion"])))
                last[facet] = value
    return found


def tolerated(found: Iterable[Step], tolerance: Tolerance) -> list[Step]:
    """Drop what may differ, then values that now repeat the one before."""
    kept: list[Step] = []
    last: dict[str, str] = {}
    for step in found:
        if step.facet in tolerance.left_out or f"{step.facet}={step.value}" in tolerance.ignored:
            continue
        if step.facet in tolerance.once and any((k.facet, k.value) == (step.facet, step.value) for k in kept):
            continue
        if last.get(step.facet) != step.value:
            kept.append(step)
            last[step.facet] = step.value
    return kept


def _by_facet(found: Iterable[Step]) -> dict[str, list[Step]]:
    grouped: dict[str, list[Step]] = {}
    for step in found:
        grouped.setdefault(step.facet, []).append(step)
    return grouped


def differences(recorded: Sequence[Step], live: Sequence[Step], tolerance: Tolerance | None = None) -> list[str]:
    """Return how a live run differs from the recording, one line each; empty when they agree."""
    allowed = tolerance or Tolerance()
    expected, seen = _by_facet(tolerated(recorded, allowed)), _by_facet(tolerated(live, allowed))
    found = []
    for facet in sorted({*expected, *seen}):
        want, got = (" -> ".join(s.value for s in side.get(facet, [])) for side in (expected, seen))
        if want != got:
            found.append(f"{facet}: recorded {want or 'never set'}; live {got or 'never set'}")
    if not found:
        found = _inversions(expected, seen, allowed.unordered)
    return found


def _inversions(
    expected: Mapping[str, list[Step]], seen: Mapping[str, list[Step]], unordered: frozenset[str]
) -> list[str]:
    """Return the pairs of changes that came the other way round (the facets' own sequences are known to agree)."""
    pairs = [
        (want, got)
        for facet in expected
        if facet not in unordered
        for want, got in zip(expected[facet], seen[facet], strict=True)
    ]
    pairs.sort(key=lambda pair: pair[0].revision)
    return [
        f"{then.facet}={then.value} came before {first.facet}={first.value}; in the recording it came after"
        for (first, first_live), (then, then_live) in combinations(pairs, 2)
        if first.revision < then.revision and then_live.revision < first_live.revision
    ]


def event_kinds(events: Iterable[Json], ignored: frozenset[str] = frozenset()) -> list[str]:
    """Return the kinds of events about one object ("type reason"), in the order of first occurrence."""
    found: dict[str, None] = {}
    for event in events:
        if event["reason"] not in ignored:
            found.setdefault(f"{event['type']} {event['reason']}")
    return list(found)
