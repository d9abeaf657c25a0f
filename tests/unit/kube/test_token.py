"""A kubeconfig that names a token's file: the file's content of now logs in, as a pod's token is replaced under way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from harness.kube import Cluster
from harness.kube import token as token_module

SEEN: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        SEEN.append(self.headers["Authorization"])
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        pass


@pytest.fixture
def server() -> Iterator[str]:
    SEEN.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as running:
        running.daemon_threads = True
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def kubeconfig(folder: Path, server: str) -> Path:
    users = [{"name": "other", "user": {"token": "no"}}, {"name": "pod", "user": {"tokenFile": "token"}}]
    contexts = [{"name": name, "context": {"cluster": "c", "user": name}} for name in ("other", "pod")]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": users,
        "contexts": contexts,
        "current-context": "other",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def test_a_replaced_token_is_used_once_it_is_a_minute_old(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("first\n", encoding="utf-8")
    cluster = Cluster.from_kubeconfig(kubeconfig(tmp_path, server), context="pod")

    cluster.request("GET", "/version")
    token.write_text("second\n", encoding="utf-8")
    cluster.request("GET", "/version")
    monkeypatch.setattr(token_module, "TOKEN_SECONDS", 0.0)
    cluster.request("GET", "/version")

    assert SEEN == ["Bearer first", "Bearer first", "Bearer second"]


def test_another_context_logs_in_its_own_way(tmp_path: Path, server: str) -> None:
    (tmp_path / "token").write_text("first\n", encoding="utf-8")
    Cluster.from_kubeconfig(kubeconfig(tmp_path, server)).request("GET", "/version")
    assert SEEN == ["Bearer no"]
