"""When Services first answer: those of this machine, of which one begins late and one never does."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest

from harness.validate.machine import services as program


def test_each_first_answer_has_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.socket() as late, socket.socket() as never:
        late.bind(("127.0.0.1", 0))
        never.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in (there, late, never)]
        opened: list[float] = []

        def listen() -> None:
            opened.append(time.time())
            late.listen()

        timer = threading.Timer(0.3, listen)
        timer.start()
        program.main([json.dumps({"services": [["127.0.0.1", port] for port in ports], "seconds": 1.5})])
        timer.join()
    found = json.loads(capsys.readouterr().out)
    assert set(found["first"]) == {f"127.0.0.1:{port}" for port in ports[:2]}
    assert found["first"][f"127.0.0.1:{ports[1]}"] >= opened[0]
    assert found["began"] <= found["first"][f"127.0.0.1:{ports[0]}"] <= found["ended"]
