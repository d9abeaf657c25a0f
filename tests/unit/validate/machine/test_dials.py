"""What a machine itself gets: the code of a DNS server's answer, and under which address it is seen."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.artifacts import mirror
from harness.validate.machine import dials


@contextmanager
def name_server(*codes: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run a name server that answers with these codes in turn, the last one again and again."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))
        left = list(codes)

        def answer() -> None:
            while True:
                question, sender = own.recvfrom(4096)
                if question == b"end":
                    return
                code = left.pop(0) if len(left) > 1 else left[0]
                own.sendto(question[:2] + bytes([0x81, 0x80 | code]) + question[4:], sender)

        thread = threading.Thread(target=answer)
        thread.start()
        connect = socket.socket.connect
        port = own.getsockname()[1]
        monkeypatch.setattr(socket.socket, "connect", lambda link, _: connect(link, ("127.0.0.1", port)))
        yield "127.0.0.1"
        monkeypatch.undo()
        own.sendto(b"end", own.getsockname())
        thread.join()


@pytest.mark.parametrize("codes", [(0,), (3,), (5,), (2, 3)])
def test_the_code_of_the_answer(codes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    with name_server(*codes, monkeypatch=monkeypatch) as server:
        assert dials.code_of(server, "a.example.com") == codes[-1]


def test_a_server_that_fails_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with name_server(2, monkeypatch=monkeypatch) as server:
        assert dials.code_of(server, "a.example.com") == dials.SERVFAIL


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(dials, "queried", refused)
    assert dials.code_of("127.0.0.1", "a.example.com") == dials.NO_ANSWER


def test_the_mirror_tells_a_machine_whom_it_sees(tmp_path: Path) -> None:
    with mirror.server("127.0.0.1:0", tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        port = server.server_address[1]
        assert dials.seen_as("127.0.0.1", port, "client") == "127.0.0.1"
        assert dials.seen_as("127.0.0.1", port, "nothing") == ""
        server.shutdown()
        thread.join()
