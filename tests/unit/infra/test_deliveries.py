"""A cell's commits are handed out by a git server as they are, and its client tells what an application answers."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput, InfraError
from harness.infra.deliveries import (
    BRANCH,
    Pushed,
    Request,
    commit,
    git,
    git_server,
    pushed,
    read_requests,
    request,
    request_by_name,
    texts_of,
)
from harness.kube.resources import CONFIG_MAP, SERVICE
from harness.operator.api.delivery import GitSource
from harness.operator.build.remote import Fetching, GitFailed, remote_revision
from harness.until import Deadline
from tests.unit.fake_cluster import FakeCluster

FIRST = {"answer": "first", "Dockerfile": "FROM x\n"}
SECONDS = 20.0


def test_the_same_files_are_the_same_revision(tmp_path: Path) -> None:
    first = commit(tmp_path / "r", FIRST, "deliver")
    assert commit(tmp_path / "r", FIRST, "deliver") == first
    second = commit(tmp_path / "r", {"answer": "second"}, "deliver-2")
    assert second.revision != first.revision
    assert pushed(tmp_path / "r", "deliver") == Pushed("deliver", first.revision, f"{first.revision} first")
    assert pushed(tmp_path / "r", "deliver-2") == Pushed("deliver-2", second.revision, f"{second.revision} second")
    assert git("-C", tmp_path / "r", "ls-tree", "-r", "--name-only", BRANCH) == "answer", "others are removed"


def test_nobodys_configuration_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".gitconfig").write_text("[commit]\n  gpgsign = true\n[user]\n  signingkey = none\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody")
    made = commit(tmp_path / "r", FIRST, "deliver")
    assert git("-C", tmp_path / "r", "show", "-s", "--format=%an", made.revision) == "vmatrix"


def test_a_stage_that_has_pushed_nothing_has_no_revision(tmp_path: Path) -> None:
    commit(tmp_path / "r", FIRST, "deliver")
    with pytest.raises(InfraError, match="the cell's repository cannot be used"):
        pushed(tmp_path / "r", "deliver-2")


def test_only_texts_are_committed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_text("text", encoding="utf-8")
    assert texts_of(tmp_path) == {"a/b": "text"}
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="binary is not a text"):
        texts_of(tmp_path)


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[str]:
    """Serve as long as the body runs; give the address."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def config_map(cluster: FakeCluster, bundle: str) -> None:
    meta = {"name": "commits", "namespace": "cell"}
    cluster.put(CONFIG_MAP, {"metadata": meta, "binaryData": {"bundle": bundle}})


def test_a_build_fetches_the_revision_that_the_config_map_has_by_then(tmp_path: Path) -> None:
    cluster = FakeCluster()
    server = git_server(cluster, "cell", "commits", ("127.0.0.1", 0), tmp_path)
    with serving(server) as address:
        source = GitSource.model_validate({"git": f"http://{address}/shop.git"})
        with pytest.raises(GitFailed):
            remote_revision(source, {}, deadline=Deadline.after(SECONDS).at)
        for number in ("one", "two"):
            made = commit(tmp_path / "r", {"answer": number}, number)
            config_map(cluster, made.bundle)
            assert remote_revision(source, {}, deadline=Deadline.after(SECONDS).at) == made.revision
        earlier = pushed(tmp_path / "r", "one")
        for revision, text in ((made.revision, "two"), (earlier.revision, "one")):
            fetched = Fetching(source, {}, SECONDS).into(tmp_path / f"tree-{text}", revision)
            assert (fetched.folder / "answer").read_text(encoding="utf-8") == text
        with pytest.raises(GitFailed):
            Fetching(source, {}, SECONDS).into(tmp_path / "none", "0" * 40)


class Application(BaseHTTPRequestHandler):
    """Answers with its status and its text."""

    status, text = 200, "abc first\n"

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.text.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    ("status", "answer", "why"), [(200, "abc first", ""), (503, "", "status 503")], ids=["answers", "refuses"]
)
def test_a_client_asks_a_service_by_its_name(status: int, answer: str, why: str) -> None:
    handler = type("Handler", (Application,), {"status": status})
    cluster = FakeCluster()
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as address:
        assert request(cluster, "cell", "shop", SECONDS).why == "there is no Service shop"
        spec = {"clusterIP": "127.0.0.1", "ports": [{"port": int(address.partition(":")[2])}]}
        cluster.put(SERVICE, {"metadata": {"name": "shop", "namespace": "cell"}, "spec": spec})
        asked = request(cluster, "cell", "shop", SECONDS)
    assert (asked.answer, asked.why) == (answer, why)
    assert request(cluster, "cell", "shop", SECONDS).why.startswith("ConnectionRefusedError")


def test_a_client_without_rights_asks_by_the_name_in_dns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def told(host: str, *_: Any, **__: Any) -> Any:
        asked.append(host)
        raise socket.gaierror(known[0], "it says so")

    known = [socket.EAI_NONAME]
    monkeypatch.setattr(socket, "getaddrinfo", told)
    assert request_by_name("cell", "shop", SECONDS).why == "there is no Service shop"
    known[0] = socket.EAI_AGAIN
    assert request_by_name("cell", "shop", SECONDS).why.startswith("DNS: ")
    assert asked == ["shop.cell.svc"] * 2


def test_the_answer_of_a_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = type("Handler", (Application,), {"status": 200})
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as address:
        monkeypatch.setattr(http.client, "HTTP_PORT", int(address.partition(":")[2]))
        ask = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", lambda _, *more, **named: ask("127.0.0.1", *more, **named))
        asked = request_by_name("cell", "shop", SECONDS)
    assert (asked.answer, asked.why) == ("abc first", "")


def test_a_line_that_was_cut_off_is_no_request() -> None:
    rows = [{"at": 1.5, "answer": "abc", "why": ""}, {"at": 2.0, "answer": "", "why": "status 503"}]
    text = "".join(json.dumps(row) + os.linesep for row in rows)
    assert read_requests("a warning\n" + text + '{"at": 3.0, "ans') == (
        Request(1.5, "abc", ""),
        Request(2.0, "", "status 503"),
    )
    assert read_requests("") == ()
