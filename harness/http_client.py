"""The HTTP client: one request, and one deadline for its whole answer, whoever asks: Kubernetes APIs, sites, GitLab.

A socket's time-out is the longest silence. A server that sends a byte now and then is never silent and never done;
here each read of an answer, its headers too, looks at the clock of the whole conversation first.
"""

from __future__ import annotations

import http.client
import io
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from harness.until import Deadline

MIB = 2**20
LARGEST = 256 * MIB  # a month of a project's history has a few
_END: ContextVar[Deadline | None] = ContextVar("when the conversation around this call has to be over", default=None)


class TooLong(TimeoutError):
    """An answer came, but not as a whole in time."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let every answer that is read inside come to its end in so many seconds; an outer limit that is nearer counts."""
    outer, inner = _END.get(), Deadline.after(seconds)
    token = _END.set(inner if outer is None else Deadline(min(outer.at, inner.at)))
    try:
        yield
    finally:
        _END.reset(token)


class TooMuch(OSError):
    """An answer that is larger than any that is asked for."""


class _Timed(io.RawIOBase):
    """What comes out of a socket, as long as the conversation around the call that reads it has time."""

    def __init__(self, source: io.RawIOBase) -> None:
        self._source = source

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read what is there, unless time is up."""
        end = _END.get()
        if end is not None and end.remaining() <= 0:
            raise TooLong("the answer began but did not end in time")
        return self._source.readinto(buffer)

    def close(self) -> None:
        """Give the socket back."""
        self._source.close()
        super().close()


class TimedAnswer(http.client.HTTPResponse):
    """An answer that is read within the conversation's time, if it has a limit."""

    def __init__(self, sock: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        plain: Any = self.fp
        self.fp = io.BufferedReader(_Timed(plain.detach()))


class _Connection(http.client.HTTPConnection):
    response_class = TimedAnswer


class _SecureConnection(http.client.HTTPSConnection):
    response_class = TimedAnswer


class _Web(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req)


class _SecureWeb(urllib.request.HTTPSHandler):
    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(context=context)
        self._trust = context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, req, context=self._trust)


_OBJECT = re.compile(r"^\w+\(.*?\): ")


def reason(error: BaseException) -> str:
    """Return why nothing came of a request, in the words of the system or of the server, without those of Python."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {str(getattr(error, 'reason', None) or error.strerror).replace('_', ' ').lower()}"
    if isinstance(error, http.client.RemoteDisconnected):
        return "the connection was closed without an answer"
    if isinstance(error, http.client.IncompleteRead):
        return "the answer ended before its end"
    if isinstance(error, http.client.HTTPException):
        return f"the answer is not HTTP: {' '.join(str(error).split())}" if str(error) else "the answer is not HTTP"
    cause = next((inner for inner in _causes(error) if inner is not error), None)
    if cause is not None:
        return reason(cause)
    if isinstance(error, TimeoutError):
        return str(error) if isinstance(error, TooLong) else "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    words = _OBJECT.sub("", " ".join(str(error).split()))  # the library's own name of the connection
    return "no answer in time" if "timed out" in words.lower() else words or "an error without words"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield what libraries wrap in their own errors: as its reason, an argument or the cause."""
    inner = (getattr(error, "reason", None), *error.args, error.__cause__, error.__context__)
    yield from (each for each in inner if isinstance(each, BaseException))


class NoAnswer(OSError):
    """Nothing came of a request; the text says why."""


@dataclass(frozen=True)
class Reply:
    """A whole answer: its status with the server's word for it, its headers, and its content if it is ok."""

    status: int
    reason: str
    headers: Message
    content: bytes

    @property
    def ok(self) -> bool:
        """Tell whether it is what was asked for."""
        return http.client.OK <= self.status < http.client.MULTIPLE_CHOICES


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow nowhere: the status is the answer."""


@dataclass(frozen=True)
class WebRequest:
    """One request.

    secrets: headers for this server alone: no redirect is followed with them to another one.
    context: of TLS; the system's authorities without it.
    direct: for addresses of this host and of an infra cluster's machines, which no proxy leads to.
    redirects: whether they are followed; else their status is the answer, as with `direct`.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    context: ssl.SSLContext | None = None
    direct: bool = False
    redirects: bool = True


def opened(request: WebRequest, silence: float) -> http.client.HTTPResponse:
    """Send one request and return the answer as it begins, to be read within the limit of `within`.

    Args:
        silence: seconds without a single byte.

    Raises:
        urllib.error.HTTPError: the answer is an error, or a redirection that is not followed.
        OSError, ValueError, http.client.HTTPException: there is none; `reason` says why.
    """
    sent = urllib.request.Request(  # noqa: S310 - http(s) only, by the models of those who name URLs
        request.url, data=request.content, headers=dict(request.headers), method=request.method
    )
    for name, value in request.secrets.items():
        sent.add_unredirected_header(name, value)
    handlers: list[urllib.request.BaseHandler] = [_Web(), _SecureWeb(context=request.context)]
    handlers += [urllib.request.ProxyHandler({})] if request.direct else []
    handlers += [_NoRedirect()] if request.direct or not request.redirects else []
    answer: http.client.HTTPResponse = urllib.request.build_opener(*handlers).open(sent, timeout=silence)
    return answer


def ask(request: WebRequest, seconds: float, *, silence: float | None = None, largest: int = LARGEST) -> Reply:
    """Send one request and return the answer, whatever its status.

    Args:
        seconds: until the answer has to be whole.
        silence: seconds without a single byte; `seconds` without it.
        largest: bytes of an answer.

    Raises:
        NoAnswer: there was none, it broke off, or it did not end in time.  TooMuch: it is larger.
    """
    try:
        with within(seconds), opened(request, silence or seconds) as answer:
            return Reply(answer.status, answer.reason, answer.headers, whole(answer, largest))
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, str(error.reason), error.headers, b"")
    except TooMuch:
        raise
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise NoAnswer(reason(error)) from error


def whole(answer: http.client.HTTPResponse, largest: int = LARGEST) -> bytes:
    """Return all of an answer that is to be kept in memory; TooMuch where it is larger than such an answer ever is."""
    content = answer.read(largest + 1)
    if len(content) > largest:
        raise TooMuch(f"the answer has more than {largest // MIB} MiB")
    return content
