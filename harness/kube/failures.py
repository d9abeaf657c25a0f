"""What goes wrong between a client and a Kubernetes API, as exceptions: refusals, trouble that passes, no answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import urllib3.exceptions

from harness.errors import EXIT_INFRA, InfraError, InfraRetriable
from harness.kube.certificates import explained, mistrust
from harness.kube.remedies import remedy

Json = dict[str, Any]
RETRIABLE_CODES = frozenset({429, 500, 502, 503, 504})
DENIED = "denied the request"  # a webhook that answered, with whatever code
QUOTA = ("status unknown for quota", "exceeded quota")  # of Kubernetes' quota admission


class ApiFailure(InfraError):
    """The API answered with an error.

    Attributes: code (HTTP), reason (machine readable, may be empty), message, causes ({reason, message, field} each).
    """

    def __init__(self, code: int, reason: str, message: str, causes: list[Json], *, request: str) -> None:
        super().__init__(f"{request}: {code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after: float | None = None  # seconds that the API asks to be left alone for

    @property
    def forbidden(self) -> bool:
        """Tell whether the API knows who asks and does not let them (403)."""
        return self.code == HTTPStatus.FORBIDDEN

    @property
    def by_quota(self) -> bool:
        """Tell whether a quota refuses: there is no room left, or its controller has not counted yet."""
        return self.forbidden and any(words in self.message for words in QUOTA)

    @property
    def not_found(self) -> bool:
        """Tell whether there is no such object, or no such kind (404)."""
        return self.code == HTTPStatus.NOT_FOUND

    @property
    def conflict(self) -> bool:
        """Tell whether the object is there already, or has changed since it was read (409)."""
        return self.code == HTTPStatus.CONFLICT

    @property
    def exists(self) -> bool:
        """Tell whether an object of that name exists already."""
        return self.conflict and self.reason == "AlreadyExists"

    @property
    def passing(self) -> bool:
        """Tell whether the same request may succeed a moment later; a wait goes on in spite of it."""
        return self.code in RETRIABLE_CODES and DENIED not in self.message


class Overwhelmed(ApiFailure, InfraRetriable):
    """The API answered that it cannot answer now: overloaded, without its webhooks, or not there behind a proxy."""


class Unreachable(InfraRetriable):
    """Nobody answers at the API's address."""

    @property
    def passing(self) -> bool:
        """Tell that a wait goes on: connections come back."""
        return True


class Untrusted(Unreachable):
    """Whoever answers at the API's address cannot prove to be it."""

    exit_code = EXIT_INFRA

    @property
    def passing(self) -> bool:
        """Tell that no wait helps."""
        return False


@dataclass(frozen=True)
class Answer:
    """A raw answer: HTTP status, decoded body (dict, list, text, None), the Warning headers, Retry-After in seconds.

    location, content_type: these headers, "" without them.
    """

    code: int
    body: Any
    warnings: tuple[str, ...]
    retry_after: float | None = None
    location: str = ""
    content_type: str = ""


@contextmanager
def told(request: str, server: str) -> Iterator[None]:
    """Turn what the HTTP library raises into one of our errors."""
    try:
        yield
    except (urllib3.exceptions.HTTPError, OSError) as error:
        method, _, path = request.partition(" ")
        wrong = mistrust(error)
        if wrong is not None:
            why, hint = explained(wrong, server)
            raise Untrusted(f"{method} {server}{path}: {why}", hint=hint) from error
        raise Unreachable(
            f"{method} {server}{path}: {_why(error)}",
            hint="is the cluster up? an instance on this host: `vmatrix infra status`; another: `kubectl cluster-info`",
        ) from error


def _why(error: BaseException) -> str:
    """Say what happened on the way in words; a time-out in particular, whose own text names an object's address."""
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return "the API server accepted the request but did not answer in time"
    refused = isinstance(error, urllib3.exceptions.NewConnectionError)  # which is a ConnectTimeoutError, too
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError) and not refused:
        return "no connection in time"
    return " ".join(str(error).split())


def decode(data: bytes) -> Any:
    """Decode a body: JSON where it is JSON, text otherwise, None when empty."""
    if not data:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode(errors="replace")


def seconds_of(header: str | None) -> float | None:
    """Read Retry-After; a date in it (which no API server sends) is left out."""
    return float(header) if header is not None and header.isdigit() else None


def failure_of(answer: Answer, request: str) -> ApiFailure:
    """Turn an error answer into an exception: one that passes, if it does."""
    made = plain_failure(answer, request)
    if made.passing:
        made = Overwhelmed(answer.code, made.reason, made.message, made.causes, request=request)
        made.hint = "the infra cluster's API server, or one of its webhooks, is overloaded or down; see its logs"
    made.hint = made.hint or "these are the API's own words; its log may have more"
    details = (answer.body.get("details") or {}) if isinstance(answer.body, dict) else {}
    asked = answer.retry_after if answer.retry_after is not None else details.get("retryAfterSeconds")
    made.retry_after = float(asked) if asked is not None else None
    return made


def plain_failure(answer: Answer, request: str) -> ApiFailure:
    """Turn an error answer into an exception; the body is a Status object, or text of a proxy on the way."""
    status: Json = answer.body if isinstance(answer.body, dict) else {"message": str(answer.body or "")[:500]}
    causes = (status.get("details") or {}).get("causes") or []
    made = ApiFailure(answer.code, status.get("reason") or "", status.get("message") or "", causes, request=request)
    made.hint = remedy(answer.code, request)
    return made
