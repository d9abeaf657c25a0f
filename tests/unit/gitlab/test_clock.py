"""GitLab's clock and ours, from the date of an answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from harness.gitlab.clock import findings

NOW = 1_900_000_000.0


class Clock(BaseHTTPRequestHandler):
    """Refuses everybody, at a known time."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(401)
        self.end_headers()

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Return the time of the answer."""
        return formatdate(NOW, usegmt=True)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        """Say nothing."""


@contextmanager
def gitlab() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Clock)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/api/v4"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("apart", "said"),
    [(0.0, ""), (29.0, ""), (90.0, "90 s ahead of GitLab's"), (-3600.0, "3600 s behind GitLab's")],
)
def test_clocks_that_are_apart_are_reported(apart: float, said: str) -> None:
    with gitlab() as api:
        found = list(findings({"CI_API_V4_URL": api}, now=NOW + apart))
    assert bool(found) == bool(said)
    for one in found:
        assert said in one.what
        assert "timedatectl set-ntp true" in one.remedy
        assert one.fatal


def test_a_gitlab_that_does_not_answer_is_advice() -> None:
    with gitlab() as api:
        """It is gone now."""
    (found,) = findings({"CI_API_V4_URL": api}, now=time.time())
    assert "does not answer" in found.what
    assert not found.fatal


def test_without_gitlab_nothing_is_asked() -> None:
    assert list(findings({})) == []


@pytest.mark.parametrize("api", ["https://[", "https://h:port/", "https://", "http://é\udce9", "https://a b"])
def test_an_address_that_cannot_be_asked_is_a_finding(api: str) -> None:
    (found,) = findings({"CI_API_V4_URL": api}, now=0.0)
    assert "does not answer" in found.what
