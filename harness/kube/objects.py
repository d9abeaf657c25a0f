"""Small facts about Kubernetes objects as dictionaries: times, owners, conditions, quantities."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.resources import Resource

# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
_SUFFIX = {
    "": Decimal(1),
    **{unit: Decimal(1000) ** -power for power, unit in enumerate(("m", "u", "n"), 1)},
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)")
_UNITS = {"h": 3_600_000_000_000, "m": 60_000_000_000, "s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_UNITS |= {"\u00b5s": 1_000, "\u03bcs": 1_000}  # micro sign, and Greek mu
_DURATION_PART = r"(\d+\.?\d*|\.\d+)(h|ms|m|s|us|\u00b5s|\u03bcs|ns)"
_DURATION = re.compile(rf"([+-]?)((?:{_DURATION_PART})+)")


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
    match = _QUANTITY.fullmatch(str(text).strip())
    if match is None or match[2] not in _SUFFIX:
        raise ValueError(f"{text!r} is not a quantity")
    try:
        return Decimal(match[1]) * _SUFFIX[match[2]]
    except ArithmeticError as error:  # an exponent beyond what Decimal has
        raise ValueError(f"{text!r} is not a quantity") from error


def go_duration(text: str) -> Decimal:
    """Read a duration as Go writes it ("1h2m3s", "1.5h", "100ms", "0") in nanoseconds (time.ParseDuration).

    Raises:
        ValueError: it is not a duration.
    """
    if text.lstrip("+-") == "0":
        return Decimal(0)
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration")
    length = sum((Decimal(n) * _UNITS[unit] for n, unit in re.findall(_DURATION_PART, match[2])), Decimal(0))
    return -length if match[1] == "-" else length


def same_setting(one: Any, other: Any) -> bool:
    """Return whether two values of a component's configuration are the same to it, however they are written.

    A component reports durations and quantities in a form of its own: "60s" as "1m0s", "1024Mi" as "1Gi".
    """
    if one == other:
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_setting(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_setting, one, other))
    if not (isinstance(one, str) and isinstance(other, str)):
        return False
    for read in (go_duration, quantity):
        try:
            return read(one) == read(other)
        except ValueError:
            continue
    return False


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
    entry = condition(obj, kind)
    return entry is not None and entry.get("status") == status and (reason is None or entry.get("reason") == reason)


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


# Times that are written once and stay: they do not make an object differ.
TIMES = frozenset({"lastTransitionTime", "lastHeartbeatTime", "lastProbeTime"})


def secret_content(secret: Json | None) -> dict[str, bytes]:
    """Return what a Secret holds, by key; nothing where there is none."""
    return {key: base64.b64decode(value) for key, value in (dig(secret, "data") or {}).items()}


def secret_data(content: Mapping[str, bytes]) -> dict[str, str]:
    """Return the `data` of a Secret that holds a content, by key."""
    return {key: base64.b64encode(value).decode() for key, value in content.items()}


def ensure(
    cluster: Cluster,
    resource: Resource,
    body: Json,
    *,
    status_subresource: bool = False,
    create: Callable[[Resource, Json], Json] | None = None,
) -> None:
    """Make an object hold all of `body`, writing only where it does not.

    Args:
        status_subresource: its status is written apart.
        create: makes an object that is not there; `cluster.create` without it.
    """
    meta = body["metadata"]
    existing = cluster.get(resource, meta["name"], meta.get("namespace"))
    if existing is not None and holds(existing, body):
        return
    if existing is None:
        try:
            existing = (create or cluster.create)(resource, body)
        except ApiFailure as failure:
            if not failure.conflict:
                raise
    # A merge patch replaces lists whole: what was there before does not stay behind in them.
    if existing is None or not holds(_without(existing, "status"), _without(body, "status")):
        existing = cluster.merge(resource, meta["name"], _without(body, "status"), meta.get("namespace"))
    if "status" in body and not holds(existing, body):
        patch = {"status": body["status"]}
        subresource = "status" if status_subresource else None
        cluster.merge(resource, meta["name"], patch, meta.get("namespace"), subresource=subresource)


def _without(body: Json, field: str) -> Json:
    return {name: value for name, value in body.items() if name != field}


def holds(found: Any, wanted: Any) -> bool:
    """Tell whether an object holds everything that is wanted of it; fields beyond that are the API's own."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            name in TIMES or value is None or (name in found and holds(found[name], value))
            for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(holds, found, wanted))
    return bool(found == wanted)
