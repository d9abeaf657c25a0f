"""What runs on a guest's machine for the checks around phases: asked over loopback as it would be there."""

from __future__ import annotations

import http.server
import json
import os
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.validate.remote import hosts, on_node_availability
from harness.validate.remote.on_node_programs import DNSSEC_OK, changed, lifetime, skip_name, started

SECONDS = 60


@contextmanager
def serving(status: int) -> Iterator[int]:
    """Serve one status on loopback; yield the port."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(("status", "said"), [(200, ""), (503, "status 503")])
def test_an_answer_is_good_when_its_status_is_200(status: int, said: str) -> None:
    with serving(status) as port:
        assert on_node_availability.answer(f"http://127.0.0.1:{port}/hostname", "", 2.0) == said


def test_an_address_at_which_nobody_is_is_told_in_words() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        said = on_node_availability.answer(f"http://127.0.0.1:{taken.getsockname()[1]}/", "", 2.0)
    assert said.startswith("ConnectionRefusedError")


def test_a_server_that_is_not_the_ca_s_is_no_good_answer() -> None:
    with serving(200) as port:
        assert on_node_availability.answer(f"https://127.0.0.1:{port}/readyz", "/dev/null", 2.0) != ""


def test_the_command_asks_until_it_is_ended() -> None:
    with serving(200) as port:
        question = {"name": "it", "url": f"http://127.0.0.1:{port}/", "timeout": 1, "interval": 0.01}
        given = json.dumps({"seconds": 0.3, "questions": [question]})
        command = hosts.remote_command(hosts.ON_NODE.with_name("on_node_availability.py"), given, seconds=30)
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=SECONDS, check=True)
    first, *rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert "started" in first
    assert len(rows) > 2
    assert {(row["of"], row["why"]) for row in rows} == {("it", "")}


def test_a_program_has_on_node_s_functions_and_its_arguments(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nfrom harness.validate.remote.on_node import flag\nprint(flag(sys.argv[1:], 'it'))\n"
    )
    command = hosts.remote_command(program, "--it=a b")
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert done.stdout == "a b\n"


def test_a_process_that_has_ended_began_never_and_a_file_that_is_gone_has_just_changed(tmp_path: Path) -> None:
    assert started(2**22 + 1) == 0.0
    assert 0 < started(os.getpid()) <= changed(str(tmp_path / "none"))


@contextmanager
def dns(lifetimes: dict[bool, int]) -> Iterator[int]:
    """Serve names on loopback, each with a lifetime by whether the question is DNSSEC's; yield the port."""
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.bind(("127.0.0.1", 0))
    link.settimeout(10)

    def serve() -> None:
        for _ in range(4):
            question, whom = link.recvfrom(4096)
            end = skip_name(question, 12) + 4
            secure = bool(struct.unpack(">H", question[end + 7 : end + 9])[0] & DNSSEC_OK)
            found = lifetimes.get(secure, 0)
            head = question[:2] + struct.pack(">HHHHH", 0x8180, 1, int(found > 0), 0, 0)
            answer = b"\xc0\x0c" + struct.pack(">HHIH", 12, 1, found, 3) + b"\x01a\x00" if found else b""
            link.sendto(head + question[12:end] + answer, whom)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield link.getsockname()[1]
    finally:
        thread.join()
        link.close()


def test_the_longest_lifetime_is_what_a_server_would_give_anew() -> None:
    with dns({False: 7, True: 20}) as port:
        assert lifetime("127.0.0.1", "10.95.0.1", port) == {"seconds": 20, "error": ""}


def test_a_server_without_an_answer_has_no_lifetime() -> None:
    with dns({}) as port:
        said = lifetime("127.0.0.1", "10.95.0.1", port)
    assert said["seconds"] == 0
    assert "no answer" in said["error"]
