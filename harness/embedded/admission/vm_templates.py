"""Rules for a VirtualMachine's run strategy and its dataVolumeTemplates (virt-api's machine validator)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.embedded.admission.response import REQUIRED, Json, StatusCause

RUN_STRATEGIES = frozenset({"Always", "Halted", "Manual", "RerunOnFailure", "Once"})  # WaitAsReceiver wants a gate


def run_strategy_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge `running` and `runStrategy`: exactly one, and a known strategy."""
    strategy = spec.get("runStrategy")
    if strategy is not None and spec.get("running") is not None:
        note = "Note that Running is deprecated, please use RunStrategy instead"
        yield StatusCause(f"Running and RunStrategy are mutually exclusive. {note}", f"{field}.running")
    if strategy is None and spec.get("running") is None:
        yield StatusCause("RunStrategy must be specified", f"{field}.running")
    if strategy is not None and strategy not in RUN_STRATEGIES:
        yield StatusCause(f"Invalid RunStrategy ({strategy})", f"{field}.runStrategy")


def template_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge each dataVolumeTemplate: named, used by a volume, one storage, one source."""
    used = {
        (volume.get("dataVolume") or {}).get("name") or (volume.get("persistentVolumeClaim") or {}).get("claimName")
        for volume in spec["template"]["spec"].get("volumes") or []
    }
    for index, template in enumerate(spec.get("dataVolumeTemplates") or []):
        where = f"{field}.dataVolumeTemplate[{index}]"
        name = (template.get("metadata") or {}).get("name")
        if not name:
            message = f"'name' field must not be empty for DataVolumeTemplate entry {where}.name."
            yield StatusCause(message, f"{where}.name", REQUIRED)
            continue
        yield from _storage_and_source(where, template.get("spec") or {})
        if name not in used:
            message = f"DataVolumeTemplate entry {where} must be referenced in the VMI template's 'volumes' list"
            yield StatusCause(message, where, REQUIRED)


def _storage_and_source(where: str, spec: Json) -> Iterator[StatusCause]:
    """Return the first thing wrong with a template's storage or source."""
    pvc, storage = spec.get("pvc"), spec.get("storage")
    source, reference = spec.get("source"), spec.get("sourceRef")
    claim_source = (pvc or {}).get("dataSource") or (pvc or {}).get("dataSourceRef")
    populated = claim_source or (storage or {}).get("dataSource") or (storage or {}).get("dataSourceRef")
    if pvc is None and storage is None:
        yield StatusCause("Missing Data volume PVC or Storage", f"{where}.PVC")
    elif pvc is not None and storage is not None:
        message = "Duplicate storage definition, both target storage and target pvc defined"
        yield StatusCause(message, f"{where}.PVC.Storage")
    elif (source is None and reference is None and not populated) or (source is not None and reference is not None):
        message = "Data volume should have either Source, SourceRef, or be externally populated"
        yield StatusCause(message, f"{where}.source.sourceRef")
    elif source is not None and len(source) > 1:
        yield StatusCause("Multiple dataVolume sources", f"{where}.source")
    elif source is not None and not source:
        yield StatusCause("Missing dataVolume source", f"{where}.source")


def namespace_causes(field: str, spec: Json, namespace: str) -> Iterator[StatusCause]:
    """Judge that no dataVolumeTemplate names another namespace than the machine's."""
    for index, template in enumerate(spec.get("dataVolumeTemplates") or []):
        other = (template.get("metadata") or {}).get("namespace")
        if other and other != namespace:
            message = f"Embedded DataVolume namespace {other} differs from VM namespace {namespace}"
            yield StatusCause(message, f"{field}.dataVolumeTemplates[{index}]")
