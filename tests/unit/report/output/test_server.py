"""The report for the desk: known names only, on loopback only, made anew when it is asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse

import pytest

from harness.errors import BadInput
from harness.report.output import server as served
from harness.report.output.server import Contents, server

FILES = {"index.html": b"<p>report</p>", "report.json": b"{}", "badge-coverage.svg": b"<svg/>"}


@contextmanager
def serving(made: list[Contents]) -> Iterator[HTTPConnection]:
    """Serve these files, the first of them for each time that they are made."""
    running = server(lambda: made.pop(0) if len(made) > 1 else made[0], 0)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    connection = HTTPConnection("127.0.0.1", running.server_port, timeout=10)
    try:
        yield connection
    finally:
        connection.close()
        running.shutdown()
        thread.join()
        running.server_close()


def ask(connection: HTTPConnection, path: str, method: str = "GET", host: str = "") -> tuple[HTTPResponse, bytes]:
    """Ask for a path, and return the answer with its body."""
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    return answer, answer.read()


def test_the_page_and_its_files_are_served() -> None:
    kinds = {"/": "text/html", "/report.json?x=1": "application/json", "/badge-coverage.svg": "image/svg+xml"}
    with serving([FILES]) as connection:
        for path, kind in kinds.items():
            answer, body = ask(connection, path)
            assert answer.status == 200
            assert str(answer.getheader("Content-Type")).startswith(kind)
            assert body in FILES.values()
            assert answer.getheader("Cache-Control") == "no-store"


@pytest.mark.parametrize("path", ["/etc/passwd", "/../../etc/passwd", "/%2e%2e/x", "/index.html/"])
def test_nothing_else_is_served(path: str) -> None:
    with serving([FILES]) as connection:
        assert ask(connection, path)[0].status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD"])
def test_nothing_but_get_is_answered(method: str) -> None:
    with serving([FILES]) as connection:
        assert ask(connection, "/", method)[0].status == 501


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:80", 200), ("127.0.0.1", 200), ("evil.invalid", 403), ("127.0.0.1.evil.invalid:1", 403)],
)
def test_a_name_that_another_site_lets_point_here_is_refused(host: str, status: int) -> None:
    with serving([FILES]) as connection:
        assert ask(connection, "/", host=host)[0].status == status


def test_it_is_made_anew_when_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "FRESH_SECONDS", 0.0)
    with serving([{"index.html": b"one"}, {"index.html": b"two"}]) as connection:
        assert [ask(connection, "/")[1] for _ in range(2)] == [b"one", b"two"]


def test_what_is_wrong_with_the_history_is_said() -> None:
    def broken() -> Contents:
        raise BadInput("cannot read the history x", hint="name another")

    running = server(broken, 0)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        answer, body = ask(HTTPConnection("127.0.0.1", running.server_port, timeout=10), "/")
        assert (answer.status, body) == (500, b"cannot read the history x\nname another\n")
    finally:
        running.shutdown()
        thread.join()
        running.server_close()


def test_a_port_that_is_taken_is_bad_input() -> None:
    taken = server(lambda: FILES, 0)
    try:
        with pytest.raises(BadInput, match="cannot serve on"):
            server(lambda: FILES, taken.server_port)
    finally:
        taken.server_close()
