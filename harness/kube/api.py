"""Requests to one Kubernetes API, whatever they ask for: each with a time-out, repeated as patience allows.

Every refusal becomes an ApiFailure with the API's own code, reason, message and causes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack
from urllib.parse import quote, urlencode

import urllib3

from harness.errors import EXIT_INFRA
from harness.http_client import within
from harness.kube.connection import ApiConnection, ApiRequest
from harness.kube.failures import Answer, ApiFailure, Json, Unreachable, decode, failure_of, seconds_of, told
from harness.until import Deadline, grown, persist, time_left

if TYPE_CHECKING:  # each SSH connection through the API starts a process with this module: pydantic would delay it
    from harness.spec.models import Timeouts

T = TypeVar("T")
# Refused before anything was done; after every other trouble the request may have been carried out all the same.
NOTHING_DONE_CODES = frozenset({429, 503})
MOST_ATTEMPTS = 8
FIRST_PAUSE_SECONDS = 0.2  # pauses double from here to the longest
LONGEST_PAUSE_SECONDS = 5.0  # pacing: an API server that is back is noticed within it
LEAST_SECONDS = 0.05  # urllib3 refuses a time-out of 0


@dataclass(frozen=True)
class Patience:
    """How long one request may take, and for how long it is repeated while the API has trouble.

    connect_seconds: for the connection, TLS included.  read_seconds: the longest silence while an answer is awaited.
    watch_silence_seconds: the longest silence of a watch; the API server sends bookmarks about once a minute.
    whole_seconds: the longest whole answer, however often something of it comes; not of a watch, which does not end.
    again_seconds: after which no further attempt begins; 0 for a single attempt.
    """

    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    watch_silence_seconds: float = 90.0
    whole_seconds: float = 40.0
    again_seconds: float = 0.0

    @staticmethod
    def of(limits: Timeouts) -> Patience:
        """Return the patience with an infra cluster that a site's timeouts.yml asks for."""
        return Patience(
            limits.api_connect, limits.api_read, whole_seconds=limits.api_whole, again_seconds=limits.api_again
        )

    def once(self) -> Patience:
        """Return the same without another attempt."""
        return replace(self, again_seconds=0.0)


HASTY = Patience()  # of controllers and probes, which have their own way to try again
PATIENT = Patience(again_seconds=30.0)  # of commands that need no matrix; others have Patience.of


def timeouts(patience: Patience, read_seconds: float | None = None) -> tuple[float, float]:
    """Return the connect and read time-outs of an attempt; none is longer than the wait around it has left."""
    read = patience.read_seconds if read_seconds is None else read_seconds
    left = time_left()
    if left is None:
        return patience.connect_seconds, read
    return max(LEAST_SECONDS, min(patience.connect_seconds, left)), max(LEAST_SECONDS, min(read, left))


def whole(patience: Patience, read_seconds: float | None = None) -> float:
    """Return how long an attempt's whole answer may take: no less than a silence in it, and no longer than a wait."""
    seconds = max(patience.whole_seconds, read_seconds or 0.0)
    left = time_left()
    return seconds if left is None else max(LEAST_SECONDS, min(seconds, left))


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
        pause_seconds = grown(FIRST_PAUSE_SECONDS, number, LONGEST_PAUSE_SECONDS)
        asked = error.retry_after if isinstance(error, ApiFailure) else None
        return pause_seconds if asked is None else asked + min(pause_seconds, 1.0)

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
    content: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    return bool((content.get("metadata") or {}).get("name")) or str(content.get("kind", "")).endswith("Review")


SHOWN = 120  # characters of a foreign answer
HINT = (
    "is `server` in the kubeconfig the address of an API server? A web page, a login or a proxy answers there; "
    "`kubectl cluster-info` with the same kubeconfig shows the same"
)


class NotAnApi(Unreachable):
    """Something answers at the API's address that is not a Kubernetes API."""

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
