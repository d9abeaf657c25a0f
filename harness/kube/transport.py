"""One request to a Kubernetes API: its time-outs, what an error answer means, and when the same is asked again.

An API server that is overloaded, being replaced, or cut off by what lies between answers 429, 5xx, or nothing. Such
trouble passes: a client with patience asks again, with growing and jittered pauses, a bounded number of times.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

import kubernetes
import urllib3.exceptions

from harness.errors import InfraError, InfraRetriable
from harness.until import Deadline, grown, persist, time_left

Json = dict[str, Any]
T = TypeVar("T")
RETRIABLE_CODES = frozenset({429, 500, 502, 503, 504})
# Refused before anything was done; after every other trouble the request may have been carried out all the same.
NOTHING_DONE_CODES = frozenset({429, 503})
DENIED = "denied the request"  # a webhook that answered, with whatever code
MOST_ATTEMPTS = 8
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
LEAST_SECONDS = 0.05  # urllib3 refuses a time-out of 0


@dataclass(frozen=True)
class Patience:
    """How long one request may take, and for how long it is repeated while the API has trouble.

    connect_seconds: for the connection, TLS included.  read_seconds: the longest silence while an answer is awaited.
    watch_silence_seconds: the longest silence of a watch; the API server sends bookmarks about once a minute.
    again_seconds: after which no further attempt begins; 0 for a single attempt.
    """

    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    watch_silence_seconds: float = 90.0
    again_seconds: float = 0.0


HASTY = Patience()  # of controllers and probes, which have their own way to try again
PATIENT = Patience(again_seconds=30.0)  # of whoever asks an infra cluster once and needs the answer


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
    def retriable(self) -> bool:
        """Tell whether the same request may succeed a moment later."""
        return self.code in RETRIABLE_CODES and DENIED not in self.message

    @property
    def passing(self) -> bool:
        """Tell whether a wait goes on in spite of it."""
        return self.retriable


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

    @property
    def passing(self) -> bool:
        """Tell that no wait mends this."""
        return False


@dataclass(frozen=True)
class Answer:
    """A raw answer: HTTP status, decoded body (dict, list, text, None), the Warning headers, Retry-After in seconds."""

    code: int
    body: Any
    warnings: tuple[str, ...]
    retry_after: float | None = None


def timeouts(patience: Patience, read_seconds: float | None = None) -> tuple[float, float]:
    """Return the connect and read time-outs of an attempt; none is longer than the wait around it has left."""
    read = patience.read_seconds if read_seconds is None else read_seconds
    left = time_left()
    if left is None:
        return patience.connect_seconds, read
    return max(LEAST_SECONDS, min(patience.connect_seconds, left)), max(LEAST_SECONDS, min(read, left))


@contextmanager
def told(request: str, server: str) -> Iterator[None]:
    """Turn what the HTTP library raises into one of our errors."""
    try:
        yield
    except (kubernetes.client.ApiException, urllib3.exceptions.HTTPError, OSError) as error:
        method, _, path = request.partition(" ")
        if _mistrusted(error):
            raise Untrusted(
                f"{method} {server}{path}: {error}",
                hint="the kubeconfig's certificate authority is not the one of who answers at this address",
            ) from error
        raise Unreachable(
            f"{method} {server}{path}: {_why(error)}", hint="is the cluster up? `vmatrix infra status` tells"
        ) from error


def _why(error: BaseException) -> str:
    """Say what happened on the way in words; a time-out in particular, whose own text names an object's address."""
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return "the API server took the request and did not answer in time"
    refused = isinstance(error, urllib3.exceptions.NewConnectionError)  # which is a ConnectTimeoutError, too
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError) and not refused:
        return "no connection in time"
    if isinstance(error, kubernetes.client.ApiException):  # the client's own word for errors of TLS
        return " ".join(str(error.reason).split())
    return str(error)


def _mistrusted(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        reason = error.args[0] if error.args and isinstance(error.args[0], BaseException) else None
        error = reason or error.__cause__ or error.__context__
    return False


def decode(data: bytes) -> Any:
    """Decode a body: JSON where it is JSON, text otherwise, None when empty."""
    if not data:
        return None
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")


def failure_of(answer: Answer, request: str) -> ApiFailure:
    """Turn an error answer into an exception; the body is a Status object, or text of a proxy on the way."""
    status: Json = answer.body if isinstance(answer.body, dict) else {"message": str(answer.body or "")[:500]}
    details = status.get("details") or {}
    reason, message = status.get("reason") or "", status.get("message") or ""
    made = ApiFailure(answer.code, reason, message, details.get("causes") or [], request=request)
    if made.retriable:
        made = Overwhelmed(answer.code, reason, message, made.causes, request=request)
        made.hint = "the infra cluster's API server, or a webhook of it, is overloaded or down; its own logs say more"
    asked = answer.retry_after if answer.retry_after is not None else details.get("retryAfterSeconds")
    made.retry_after = float(asked) if asked is not None else None
    return made


def seconds_of(header: str | None) -> float | None:
    """Read Retry-After; a date in it (which no API server sends) is left out."""
    return float(header) if header is not None and header.isdigit() else None


def with_patience(attempt: Callable[[], T], patience: Patience, *, repeatable: bool) -> T:
    """Make an attempt at a request, and more while trouble passes and patience lasts.

    Args:
        attempt: raises ApiFailure or Unreachable.
        repeatable: whether it does no harm to do again what may have been done already.

    Raises:
        ApiFailure, Unreachable: the last attempt's; the summary says how often it was tried.
    """
    tries = 0

    def counted() -> T:
        nonlocal tries
        tries += 1
        return attempt()

    def pause(error: BaseException, number: int) -> float | None:
        if not isinstance(error, (ApiFailure, Unreachable)) or not error.passing:
            return None
        nothing_done = isinstance(error, ApiFailure) and error.code in NOTHING_DONE_CODES
        if not (repeatable or nothing_done):
            return None
        wanted = grown(FIRST_PAUSE_SECONDS, number, LONGEST_PAUSE_SECONDS)
        asked = error.retry_after if isinstance(error, ApiFailure) else None
        return wanted if asked is None else asked + min(wanted, 1.0)

    left = time_left()
    seconds = patience.again_seconds if left is None else min(patience.again_seconds, left)
    most = MOST_ATTEMPTS if patience.again_seconds > 0 else 1
    try:
        return persist(counted, deadline=Deadline.after(seconds), most=most, pause=pause)
    except (ApiFailure, Unreachable) as error:
        if tries > 1 and error.passing:
            error.summary = f"{error.summary} (tried {tries} times)"
            error.args = (error.summary,)
        raise


def repeatable(method: str, body: Any) -> bool:
    """Tell whether a request may be made again after an answer was lost.

    A repeated create of a name is "already there"; one without a name would make a twin, unless it only asks.
    """
    if method != "POST":
        return True
    given: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    return bool((given.get("metadata") or {}).get("name")) or str(given.get("kind", "")).endswith("Review")
