"""Requests to addresses on loopback, as a machine sends them during a phase."""

from __future__ import annotations

import json
import socket
import subprocess

import pytest

from harness.validate import hosts
from harness.validate.machine import availability
from tests.unit.shipped_timeouts import TIMEOUTS
from tests.unit.validate.serving import serving

SECONDS = 60


@pytest.mark.parametrize(("status", "said"), [(200, ""), (503, "status 503")])
def test_an_answer_is_good_when_its_status_is_200(status: int, said: str) -> None:
    with serving(status) as port:
        assert availability.answer(f"http://127.0.0.1:{port}/hostname", "", 2.0) == said


def test_an_address_at_which_nobody_is_is_told_in_words() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        said = availability.answer(f"http://127.0.0.1:{taken.getsockname()[1]}/", "", 2.0)
    assert said.startswith("ConnectionRefusedError")


def test_a_server_that_is_not_the_ca_s_is_no_good_answer() -> None:
    with serving(200) as port:
        assert availability.answer(f"https://127.0.0.1:{port}/readyz", "/dev/null", 2.0) != ""


def test_the_command_asks_until_it_is_ended() -> None:
    with serving(200) as port:
        question = {"name": "it", "url": f"http://127.0.0.1:{port}/", "timeout": 1, "interval": 0.01}
        given = json.dumps({"seconds": 0.3, "requests": [question]})
        command = hosts.remote_command(hosts.LIBRARY.with_name("availability.py"), given, timeouts=TIMEOUTS, seconds=30)
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=SECONDS, check=True)
    first, *rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert "started" in first
    assert len(rows) > 2
    assert {(row["of"], row["why"]) for row in rows} == {("it", "")}
