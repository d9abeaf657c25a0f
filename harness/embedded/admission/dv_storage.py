"""Rules for a DataVolume's storage (cdi-apiserver's validator)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.embedded.admission.names import quantity
from harness.embedded.admission.response import (
    Json,
    StatusCause,
)

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
LEAST_BYTES = 1024 * 1024


def first_of(*judgements: Iterator[StatusCause]) -> Iterator[StatusCause]:
    """Return the causes of the first judgement that has any."""
    for judgement in judgements:
        found = list(judgement)
        if found:
            yield from found
            return


def storage_causes(spec: Json) -> Iterator[StatusCause]:
    pvc, storage = spec.get("pvc"), spec.get("storage")
    if pvc is None and storage is None:
        yield StatusCause("Missing Data volume PVC", "spec.PVC")
    elif pvc is not None and storage is not None:
        message = "Duplicate storage definition, both target storage and target pvc defined"
        yield StatusCause(message, "spec.PVC.Storage")
    elif pvc is not None:
        yield from first_of(_size(pvc, "PVC"), _claim_modes(pvc.get("accessModes") or []))
    elif storage is not None:
        source = spec.get("source") or {}
        may_copy_size = bool(source.get("pvc") or source.get("snapshot") or spec.get("sourceRef"))
        yield from first_of(_size(storage, "Storage", may_lack=may_copy_size), _modes(storage.get("accessModes") or []))


def _size(target: Json, name: str, *, may_lack: bool = False) -> Iterator[StatusCause]:
    where = f"spec.{name}.resources.requests.size"
    given = ((target.get("resources") or {}).get("requests") or {}).get("storage")
    if given is None:
        if not may_lack:
            yield StatusCause(f"{name} size is missing", where)
    elif quantity(given) <= 0:
        yield StatusCause(f"{name} size can't be equal or less than zero", where)
    elif quantity(given) < LEAST_BYTES:
        yield StatusCause(f"{name} size should be at least 1MiB", where)


def _claim_modes(modes: list[str]) -> Iterator[StatusCause]:
    where = "spec.PVC.accessModes"
    if not modes:
        yield StatusCause("Required value: at least 1 access mode is required", where)
    elif len(modes) > 1:
        yield StatusCause("PVC multiple accessModes", where)
    else:
        yield from _modes(modes)


def _modes(modes: list[str]) -> Iterator[StatusCause]:
    for mode in modes:
        if mode not in ACCESS_MODES:
            supported = ", ".join(f'"{known}"' for known in ACCESS_MODES)
            yield StatusCause(f'Unsupported value: "{mode}": supported values: {supported}', "spec.PVC.accessModes")
            return
