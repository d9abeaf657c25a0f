"""How long one answer over HTTP may take as a whole, whoever asks: Kubernetes APIs, release sites, GitLab.

A socket's time-out is the longest silence. A server that sends a byte now and then is never silent and never done;
here each read of an answer, its headers too, looks at the clock of the whole conversation first.
"""

from __future__ import annotations

import http.client
import io
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, req)


def opened(
    request: urllib.request.Request, silence: float, *handlers: urllib.request.BaseHandler
) -> http.client.HTTPResponse:
    """Open a URL as urllib does, and keep to the limit of `within`.

    Args:
        silence: seconds without a single byte.
        handlers: of urllib, besides or in place of its own.
    """
    opener = urllib.request.build_opener(_Web(), _SecureWeb(), *handlers)
    answer: http.client.HTTPResponse = opener.open(request, timeout=silence)
    return answer


def whole(answer: http.client.HTTPResponse, largest: int = LARGEST) -> bytes:
    """Return all of an answer that is to be kept in memory; TooMuch where it is larger than such an answer ever is."""
    content = answer.read(largest + 1)
    if len(content) > largest:
        raise TooMuch(f"the answer has more than {largest // MIB} MiB")
    return content
