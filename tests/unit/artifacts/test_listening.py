"""Whether a server listens."""

from __future__ import annotations

import socket

from harness.artifacts.listening import listens
from harness.until import NotYet


def test_a_server_that_listens_is_told_from_one_that_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert listens(address) is True
    answer = listens(address)
    assert isinstance(answer, NotYet)
    assert answer.reason.startswith(f"{address}: ")
