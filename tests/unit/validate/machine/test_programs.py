"""What a machine reports of its running programs: when they started, and the TTLs that DNS servers give."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.validate.machine import library
from harness.validate.machine import programs as machine_programs
from harness.validate.machine.programs import (
    DNSSEC_OK,
    SERVERS,
    by_title,
    changed,
    hosts,
    lifetime,
    pinned,
    shims,
    skip_name,
    started,
)
from tests.unit.processes import shown


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


@pytest.mark.parametrize(
    ("kind", "text", "servers"),
    [
        ("haproxy", "backend api\n    server cp-0 10.0.0.1:6443 check\n", [("cp-0", "10.0.0.1:6443")]),
        (
            "nginx",
            "upstream api {\n  least_conn;\n  server 10.0.0.1:6443;\n}\nserver {\n  listen 127.0.0.1:6443;\n}\n",
            [("10.0.0.1:6443", "10.0.0.1:6443")],
        ),
    ],
)
def test_a_proxy_s_file_names_its_servers(kind: str, text: str, servers: list[tuple[str, str]]) -> None:
    assert [(found["name"], found["address"]) for found in SERVERS[kind].finditer(text)] == servers


def test_a_program_that_writes_what_it_does_into_its_command_line_is_found(tmp_path: Path) -> None:
    title = "nginx-of-a-test: master process nginx -g daemon off;"
    with subprocess.Popen([title, "60"], executable="/bin/sleep") as process:
        pid = shown(process)
        try:
            assert [one["pid"] for one in by_title("nginx-of-a-test")] == [pid]
        finally:
            process.kill()


def test_names_of_hosts_are_those_of_the_products_file(tmp_path: Path) -> None:
    (tmp_path / "names").write_text("# of the cluster\n10.0.0.1 cp-0 cp-0.cluster.local # one\n\n", encoding="utf-8")
    assert hosts(str(tmp_path / "names")) == [["10.0.0.1", "cp-0", "cp-0.cluster.local"]]


def test_a_process_that_ended_before_it_was_asked_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    found = [{"pid": pid, "name": "python"} for pid in (ended.pid, os.getpid())]
    monkeypatch.setattr(machine_programs, "processes", lambda *names: [] if names else found)
    (only,) = machine_programs.programs()
    assert only["said"].startswith("Python 3")


def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **programs: str) -> None:
    """Let a machine run these programs, by name the file of its client, which is found before all others."""
    for name, script in programs.items():
        client = tmp_path / {"containerd": "ctr", "crio": "crictl"}[name]
        client.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        client.chmod(0o755)
    monkeypatch.setattr(library, "PATH", f"{tmp_path}:/usr/bin:/bin")
    found = {name: [{"name": name, "argv": [name, f"--address={tmp_path}/sock"]}] for name in programs}
    monkeypatch.setattr(machine_programs, "processes", lambda *names: found.get(names[0], []))


def test_images_that_containerd_never_removes_are_asked_of_its_client(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs(monkeypatch, tmp_path, containerd='echo "registry:5000/pause:3.10.1"; echo "$*" >&2; echo "$2" >asked')
    monkeypatch.chdir(tmp_path)
    assert pinned() == ["registry:5000/pause:3.10.1"]
    assert (tmp_path / "asked").read_text() == f"{tmp_path}/sock\n"


def test_images_that_crio_never_removes_are_asked_of_crictl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    images = [{"pinned": True, "repoTags": ["r/pause:3"]}, {"pinned": False, "repoTags": ["r/a:1"]}]
    runs(monkeypatch, tmp_path, crio=f"echo '{json.dumps({'images': images})}'")
    assert pinned() == ["r/pause:3"]


@pytest.mark.parametrize("program", ["containerd", "crio"])
def test_a_client_that_fails_or_is_not_there_tells_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str
) -> None:
    runs(monkeypatch, tmp_path, **{program: "echo r/a:1; exit 1"})
    assert pinned() is None
    monkeypatch.setattr(library, "PATH", str(tmp_path / "none"))
    assert pinned() is None
    monkeypatch.setattr(machine_programs, "processes", lambda *_: [])
    assert pinned() is None


def test_a_shim_tells_its_pod_the_version_of_its_file_and_how_many_it_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    argv = ["containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", "a1"]
    own = {"pid": os.getpid(), "argv": argv}
    monkeypatch.setattr(machine_programs, "processes", lambda *_: [own, {**own, "argv": [*argv, "start"]}])
    monkeypatch.setattr(machine_programs, "said", lambda words: f"{words[0]} {words[1]}: v2.4.2")
    (before,) = shims()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        (found,) = shims()
        child.communicate(b"\n")
    assert (found["pod"], found["said"]) == ("a1", f"/proc/{os.getpid()}/exe -v: v2.4.2")
    assert found["started"] == started(os.getpid())
    assert found["children"] == before["children"] + 1


def test_a_shim_that_ended_meanwhile_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = {"pid": 2**22 + 1, "argv": ["containerd-shim-runc-v2", "-id", "a1"]}
    monkeypatch.setattr(machine_programs, "processes", lambda *_: [gone])
    assert shims() == []
