"""What an admission webhook answers: allowed, with what it changes, or refused, with what is wrong."""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.kube import serving
from harness.kube.failures import Json
from harness.kube.serving import AnsweringHandler, HttpsServer

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


log = logging.getLogger(__name__)
Judge = Callable[[Json], AdmissionResponse]
Answered = Callable[[str, str, float], None]  # path, "allowed", "refused" or "error", and seconds


def untold(*_: object) -> None:
    """Count no answers."""


class _ReviewHandler(AnsweringHandler):
    def __init__(self, by_path: Mapping[str, Judge], answered: Answered, *connection: Any) -> None:
        self._judges = by_path
        self._answered = answered
        super().__init__(*connection)

    def do_GET(self) -> None:  # noqa: N802 - the name is that of http.server
        """Answer a health probe."""
        self.answer(200 if self.path == "/healthz" else 404, b"", "application/json")

    def do_POST(self) -> None:  # noqa: N802 - the name is that of http.server
        """Answer an admission review."""
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        path = self.path.partition("?")[0]
        judge = self._judges.get(path)
        if judge is None:
            self.answer(404, b"", "application/json")
            return
        began = time.monotonic()
        try:
            request = json.loads(body)["request"]
            verdict = judge(request)
        except Exception as error:  # one object that breaks a rule's code must not end the connection
            log.exception("the review of %s failed: %s", self.path, body.decode(errors="replace")[:2000])
            self._answered(path, "error", time.monotonic() - began)
            self.answer(500, f"{type(error).__name__}: {error}".encode(), "application/json")
            return
        name = f"{request.get('namespace')}/{request.get('name')}"
        outcome = "allowed" if verdict.allowed else verdict.message
        seconds = time.monotonic() - began
        log.debug("%s %s %s: %s (%.0f ms)", path, request["operation"], name, outcome, seconds * 1000)
        self._answered(path, "allowed" if verdict.allowed else "refused", seconds)
        self.answer(200, json.dumps(review(request, verdict)).encode(), "application/json")


def listen(
    address: tuple[str, int], cert: Path, key: Path, by_path: Mapping[str, Judge], answered: Answered = untold
) -> HttpsServer:
    """Listen for admission reviews; run the result's `serve_forever` on a thread, end it with `shutdown`.

    Args:
        cert: the server's PEM certificate (with its chain); key: its private key.
        by_path: who judges what is asked at a path.
        answered: is told of each answer, on the thread that gives it.

    Raises:
        InfraError: the address is taken.
    """
    handler = partial(_ReviewHandler, by_path, answered)
    return serving.listen(address, handler, certificate=cert, key=key, what="the server of the admission webhooks")
