"""What an admission webhook answers: allowed, with what it changes, or refused, with what is wrong."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.kube.failures import Json

INVALID = "FieldValueInvalid"
REQUIRED = "FieldValueRequired"
DUPLICATE = "FieldValueDuplicate"
NOT_SUPPORTED = "FieldValueNotSupported"
UNPROCESSABLE = 422
BAD_REQUEST = 400
FORBIDDEN = 403


@dataclass(frozen=True)
class StatusCause:
    """One thing that is wrong: a sentence, the field, and the kind of mistake."""

    message: str
    field: str = ""
    reason: str = INVALID

    def as_json(self) -> Json:
        """Return the StatusCause; parts that are empty are left out, as Go does."""
        parts = {"reason": self.reason, "message": self.message, "field": self.field}
        return {name: value for name, value in parts.items() if value}


@dataclass(frozen=True)
class AdmissionResponse:
    """An admission answer: allowed (with what it changes), or refused with code, reason, message and causes.

    `changed` maps top-level fields of the object to their new values.
    """

    allowed: bool
    changed: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    code: int = 0
    reason: str = ""
    message: str = ""
    causes: tuple[StatusCause, ...] = ()


ALLOWED = AdmissionResponse(allowed=True)


def change(request: Json, changed: Json) -> AdmissionResponse:
    """Allow, changing those of the given top-level fields that differ from the request's object."""
    obj = request["object"]
    differing = {name: value for name, value in changed.items() if obj.get(name) != value}
    return AdmissionResponse(allowed=True, changed=differing or None)


def review(request: Json, verdict: AdmissionResponse) -> Json:
    """Return the AdmissionReview that answers a request."""
    response: Json = {"uid": request["uid"], "allowed": verdict.allowed}
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    if verdict.changed:
        patch = [{"op": "add", "path": f"/{name}", "value": value} for name, value in verdict.changed.items()]
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
    if not verdict.allowed:
        status: Json = {"status": "Failure", "code": verdict.code, "message": verdict.message}
        if verdict.reason:
            status["reason"] = verdict.reason
        if verdict.causes:
            status["details"] = {"causes": [cause.as_json() for cause in verdict.causes]}
        response["status"] = status
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
