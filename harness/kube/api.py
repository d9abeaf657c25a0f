"""Requests to one Kubernetes API, whatever they ask for: each with a time-out, repeated as patience allows.

Every refusal becomes an ApiFailure with the API's own code, reason, message and causes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date
from http import HTTPStatus
from typing import Any, TypedDict, Unpack
from urllib.parse import quote, urlencode

import urllib3

from harness.errors import EXIT_INFRA
from harness.http_deadline import within
from harness.kube.connection import ApiConnection, ApiRequest
from harness.kube.failures import Answer, Json, Unreachable, decode, failure_of, seconds_of, told
from harness.kube.patience import HASTY, Patience, repeatable, timeouts, whole, with_patience

SHOWN = 120  # characters of a foreign answer
HINT = (
    "is `server` in the kubeconfig the address of an API server? A web page, a login or a proxy answers there; "
    "`kubectl cluster-info` with the same kubeconfig shows the same"
)


class NotAnApi(Unreachable):
    """Something answers at the API's address that is no Kubernetes API."""

    exit_code = EXIT_INFRA

    def __init__(self, where: str, answered: str) -> None:
        super().__init__(f"{where}: this is not a Kubernetes API: it {answered}", hint=HINT)

    @property
    def passing(self) -> bool:
        """Tell that no wait helps."""
        return False


def refuse_foreign(answer: Answer, where: str) -> None:
    """Refuse what no Kubernetes API answers: a redirection, a page, an error that is not an API's.

    Args:
        where: method and URL.

    Raises:
        NotAnApi: with what it answered. What a proxy says of an API that is down (5xx) is left to pass.
    """
    if 300 <= answer.code < 400:
        raise NotAnApi(where, f"redirects to {answer.location or 'nowhere'} ({answer.code})")
    if answer.code >= 500:
        return
    page = isinstance(answer.body, str) and answer.body.lstrip()[:1] == "<"
    if page and (answer.code >= 400 or "html" in answer.content_type):
        raise NotAnApi(where, f"answered {answer.code} with {shown(answer.body)}")
    if answer.code == HTTPStatus.NOT_FOUND and not isinstance(answer.body, str) and not _is_status(answer.body):
        raise NotAnApi(where, f"answered 404 with {shown(answer.body)}")


def _is_status(body: Any) -> bool:
    return isinstance(body, dict) and body.get("kind") == "Status"


def an_object(body: Any, where: str) -> Json:
    """Return an answer that is an object; NotAnApi when it is anything else."""
    if isinstance(body, dict) and isinstance(body.get("kind"), str):
        return body
    raise NotAnApi(where, f"answered {shown(body)}")


def a_list(body: Any, where: str) -> Json:
    """Return an answer that is a list of objects; NotAnApi when it is anything else."""
    if isinstance(body, dict) and isinstance(body.get("metadata"), dict):
        items = body.get("items") or []
        if isinstance(items, list) and all(map(_is_item, items)):
            return body
    raise NotAnApi(where, f"answered {shown(body)}")


def _is_item(item: Any) -> bool:
    """Tell whether a part of a list is an object: every one has a name, and labels by name if it has some."""
    meta = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        return False
    labels = meta.get("labels")
    return labels is None or (isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values()))


def the_version(body: Any, where: str) -> str:
    """Return the release that an answer to GET /version names; NotAnApi when it names none."""
    if isinstance(body, dict) and isinstance(body.get("gitVersion"), str):
        return str(body["gitVersion"])
    raise NotAnApi(where, f"answered {shown(body)}")


def shown(body: Any) -> str:
    """Return the beginning of an answer for a message, on one line."""
    text = body if isinstance(body, str) else "nothing" if body is None else json.dumps(body, default=str)
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}..."


JSON = "application/json"
# As client-go asks. JSON alone is refused (406) by APIs that an API server hands on to and that do not say what they
# answer with, as KubeVirt's subresources.
ACCEPTED = f"{JSON}, */*"


class RequestOptions(TypedDict, total=False):
    """What a request may have besides method and path.

    accept: the forms of an answer that will do.  read_seconds: the longest silence; None for the client's own.
    """

    body: Any
    query: Mapping[str, str] | None
    content_type: str
    accept: str
    read_seconds: float | None


class Api:
    """A client that sends requests; thread-safe."""

    def __init__(self, connection: ApiConnection, patience: Patience = HASTY) -> None:
        self.connection = connection
        self.patience = patience

    @property
    def server(self) -> str:
        """Return the API's URL."""
        return self.connection.server

    def where(self, method: str, path: str) -> str:
        """Return a request as messages name it."""
        return f"{method} {self.server}{path}"

    def send(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Answer:
        """Send one request, once, and return status, decoded body and warnings, whatever the status.

        Raises:
            Unreachable: nobody answered.
        """
        limits = timeouts(self.patience, options.get("read_seconds"))
        with told(f"{method} {path}", self.server), within(whole(self.patience, options.get("read_seconds"))):
            answer = self._exchange(method, path, limits, options)
            headers = answer.headers
            return Answer(
                answer.status,
                decode(answer.data),
                tuple(headers.getlist("Warning")),
                seconds_of(headers.get("Retry-After")),
                headers.get("Location", ""),
                headers.get("Content-Type", ""),
            )

    def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Any:
        """Send one request and return the decoded JSON; again while the API has trouble, as the patience allows.

        Raises:
            ApiFailure: the API refused.  Unreachable: nobody answered.  NotAnApi: something else did.
        """

        def attempt() -> Any:
            answer = self.send(method, path, **options)
            refuse_foreign(answer, self.where(method, path))
            if answer.code >= 400:
                raise failure_of(answer, f"{method} {path}")
            return answer.body

        return with_patience(attempt, self.patience, repeatable=repeatable(method, options.get("body")))

    def _exchange(
        self, method: str, path: str, limits: tuple[float, float], options: RequestOptions
    ) -> urllib3.BaseHTTPResponse:
        query, body = options.get("query"), options.get("body")
        headers = {
            "Accept": options.get("accept", ACCEPTED),
            "Content-Type": options.get("content_type", JSON),
        }
        where = f"{path}?{urlencode(query, quote_via=quote)}" if query else path
        sent = b"" if body is None else json.dumps(body, default=_as_text).encode()
        return self.connection.send(ApiRequest(method, where, headers, sent, limits))

    def stream(self, path: str, query: Mapping[str, str]) -> Iterator[bytes]:
        """Yield the lines of an answer as they come, empty ones too, until the server ends it.

        Raises:
            ApiFailure: the API refused.  Unreachable: nobody answered, or no longer.
        """
        request = f"WATCH {path}"
        with told(request, self.server):
            limits = (self.patience.connect_seconds, self.patience.watch_silence_seconds)
            with within(whole(self.patience)):
                answer = self._exchange("GET", path, limits, {"query": query})
                if answer.status >= 300:
                    refused = Answer(answer.status, decode(answer.data), ())
                    refuse_foreign(refused, self.where("WATCH", path))
                    raise failure_of(refused, request)
            try:
                yield from _lines(answer)
            finally:
                answer.close()
                answer.release_conn()


def _as_text(value: Any) -> str:
    """Return what YAML has and JSON lacks, which is a date or a time, as the API takes it."""
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"a request cannot have a {type(value).__name__}")


def _lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for chunk in answer.stream(amt=None, decode_content=False):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
