"""Small facts about Kubernetes objects as dictionaries: times, owners, conditions, quantities."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from harness.kube.client import Json
from harness.kube.resources import Resource

_SUFFIX = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}
_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)")


def now() -> str:
    """Return the present moment as Kubernetes writes times: RFC 3339, UTC, whole seconds."""
    return stamp(datetime.now(UTC))


def stamp(moment: datetime) -> str:
    """Write a time as Kubernetes does."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    """Read a time as Kubernetes writes it."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def quantity(text: str | int | float) -> Decimal:
    """Read a resource quantity ("2Gi", "200m", "1e3") as a number of its base unit.

    Raises:
        ValueError: it is not a quantity.
    """
    found = _QUANTITY.fullmatch(str(text).strip())
    if found is None or found[2] not in _SUFFIX:
        raise ValueError(f"{text!r} is not a quantity")
    return Decimal(found[1]) * _SUFFIX[found[2]]


def owner_reference(owner: Json, resource: Resource) -> Json:
    """Return the reference that makes an object the controller of another."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(obj: Json) -> Json | None:
    """Return the reference to the object's controller, None when it has none."""
    return next((r for r in obj["metadata"].get("ownerReferences") or [] if r.get("controller")), None)


def deleting(obj: Json) -> bool:
    """Tell whether somebody asked for the object's deletion."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def phase(obj: Json | None) -> str:
    """Return an object's phase, "" when it has none."""
    return str(dig(obj, "status", "phase") or "")


def condition(obj: Json | None, kind: str) -> Json | None:
    """Return the condition of a type from an object's status."""
    return next((c for c in dig(obj, "status", "conditions") or [] if c.get("type") == kind), None)


def is_condition(obj: Json | None, kind: str, status: str, reason: str | None = None) -> bool:
    """Tell whether an object has a condition of that type, status and (when given) reason."""
    found = condition(obj, kind)
    return found is not None and found.get("status") == status and (reason is None or found.get("reason") == reason)


def new_condition(kind: str, status: str, reason: str, message: str, moment: datetime, *, probed: bool = True) -> Json:
    """Return a condition that turns at a moment; `probed`: it was looked at then, which KubeVirt writes of some."""
    times = {"lastProbeTime": stamp(moment) if probed else None, "lastTransitionTime": stamp(moment)}
    return {"type": kind, "status": status, "reason": reason, "message": message, **times}


def with_condition(conditions: Sequence[Json], new: Json) -> list[Json]:
    """Return conditions with one set; one that says the same keeps its times, one that is new goes to the end."""
    old = next((c for c in conditions if c["type"] == new["type"]), None)
    if old is None:
        return [*conditions, new]
    if all(old.get(k) == new.get(k) for k in ("status", "reason", "message")):
        new = {**old, **{key: value for key, value in new.items() if not key.endswith("Time")}}
    elif old.get("status") == new.get("status"):
        new = {**new, "lastTransitionTime": old.get("lastTransitionTime")}
    return [new if c["type"] == new["type"] else c for c in conditions]


def without_condition(conditions: Sequence[Json], kind: str) -> list[Json]:
    """Return conditions without those of a type."""
    return [c for c in conditions if c["type"] != kind]


def dig(obj: Mapping[str, Any] | None, *path: str) -> Any:
    """Return the value at a path of keys, None when a key is missing or null on the way."""
    at: Any = obj
    for key in path:
        if not isinstance(at, Mapping):
            return None
        at = at.get(key)
    return at
