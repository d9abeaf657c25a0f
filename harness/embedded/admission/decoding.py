"""What the real webhooks refuse before any rule: required parts of the schema, and numbers that Go cannot hold."""

from __future__ import annotations

from collections.abc import Iterator

from harness.embedded.admission.response import AdmissionResponse, Json, StatusCause, failure, kubevirt_refusal
from harness.embedded.crds import schema
from harness.embedded.objects import dig


def undecodable(plural: str, obj: Json, struct: str, path: str) -> AdmissionResponse | None:
    """Refuse an object that lacks a required part of its spec, or has a negative CPU count (an unsigned number in Go).

    List items are left to the API server's own check.

    Args:
        struct: the Go structure that the real decoder names.
        path: where an instance's spec lies in the object.
    """
    missing = _missing(schema(plural, "kubevirt.io"), obj, "")
    if causes := [StatusCause(f"{name} in body is required", reason="") for name in missing]:
        return kubevirt_refusal(causes)
    for name, value in (dig(obj, *path.split("."), "domain", "cpu") or {}).items():
        if name in {"cores", "sockets", "threads", "maxSockets"} and isinstance(value, int) and value < 0:
            field = f"{struct}.{path}.domain.cpu.{name}"
            return failure(f"json: cannot unmarshal number {value} into Go struct field {field} of type uint32")
    return None


def _missing(rules: Json, value: object, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    for name in rules.get("required", []):
        if name not in value:
            yield path + name
    for name, part in rules.get("properties", {}).items():
        if name in value and name != "status":
            yield from _missing(part, value[name], f"{path}{name}.")
