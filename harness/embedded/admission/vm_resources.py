"""Rules for an instance's names, CPU, memory, probes and strategies (virt-api's instance validator)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.embedded.admission.names import label_problems, quantity
from harness.embedded.admission.response import NOT_SUPPORTED, REQUIRED, Json, StatusCause

EVICTION_STRATEGIES = frozenset({"None", "LiveMigrate", "LiveMigrateIfPossible", "External"})
PROBE_HANDLERS = ("httpGet", "tcpSocket", "exec", "guestAgentPing")
RESERVED_LABELS = frozenset(
    f"kubevirt.io/{name}"
    for name in (
        "created-by",
        "migrationJobUID",
        "nodeName",
        "migrationTargetNodeName",
        "schedulable",
        "install-strategy",
    )
)


def metadata_causes(field: str, metadata: Json) -> Iterator[StatusCause]:
    """Judge the labels that a normal user may not set."""
    if RESERVED_LABELS & set(metadata.get("labels") or {}):
        message = "creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited"
        yield StatusCause(message, f"{field}.labels", NOT_SUPPORTED)


def hostname_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge the hostname."""
    found = label_problems(spec["hostname"]) if spec.get("hostname") else []
    if found:
        where = f"{field}.hostname"
        message = f"{where} does not conform to the kubernetes DNS_LABEL rules : {', '.join(found)}"
        yield StatusCause(message, where)


def resource_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge requests and limits: none negative, no request above its limit.

    Guest memory is not compared with the limit: virt-api does not either while virtual machines are updated live.
    """
    resources = spec.get("domain", {}).get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name in ("memory", "cpu"):
        asked, most = (f"{field}.domain.resources.{kind}.{name}" for kind in ("requests", "limits"))
        for where, given in ((asked, requests.get(name)), (most, limits.get(name))):
            if quantity(given) < 0:
                yield StatusCause(f"{where} '{given}': must be greater than or equal to 0.", where)
        if 0 < quantity(limits.get(name)) < quantity(requests.get(name)):
            yield StatusCause(f"{asked} '{requests[name]}' is greater than {most} '{limits[name]}'", asked)


def memory_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge that an instance (not a template) has memory at all."""
    domain = spec.get("domain", {})
    memory = domain.get("memory") or {}
    requested = ((domain.get("resources") or {}).get("requests") or {}).get("memory")
    if not quantity(requested) and not memory.get("guest") and not memory.get("hugepages"):
        names = [f"{field}.domain.{n}" for n in ("memory.guest", "memory.hugepages.size", "resources.requests.memory")]
        message = f"no memory requested, at least one of '{names[0]}', '{names[1]}' or '{names[2]}' must be set"
        yield StatusCause(message, reason=REQUIRED)


def probe_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge the probes: exactly one handler each, and a network for those that need one."""
    on_pod_network = any("pod" in network for network in spec.get("networks") or [])
    for name in ("readinessProbe", "livenessProbe"):
        probe, where = spec.get(name), f"{field}.{name}"
        if probe is None:
            continue
        handlers = [handler for handler in PROBE_HANDLERS if probe.get(handler) is not None]
        if len(handlers) > 1:
            yield StatusCause(f"{where} must have exactly one probe type set", where)
        elif not handlers:
            choice = f"either {where}.tcpSocket, {where}.exec or {where}.httpGet"
            yield StatusCause(f"{choice} must be set if a {where} is specified", where, REQUIRED)
        for handler in handlers:
            if handler in {"httpGet", "tcpSocket"} and not on_pod_network:
                message = f"{where}.{handler} is only allowed if the Pod Network is attached"
                yield StatusCause(message, f"{where}.{handler}")


def eviction_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge evictionStrategy."""
    strategy, where = spec.get("evictionStrategy"), f"{field}.evictionStrategy"
    if strategy is not None and strategy not in EVICTION_STRATEGIES:
        yield StatusCause(f"{where} is set with an unrecognized option: {strategy}", where)
