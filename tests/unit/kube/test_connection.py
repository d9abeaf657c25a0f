"""A kubeconfig with keys in it: opened by many at once, good for every connection after, and on no disk meanwhile."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import BadInput
from harness.infra.host import pki
from harness.kube import kubeconfig
from harness.kube.client import Cluster, Unreachable

SEEN: list[str] = []


class WhoAsks(BaseHTTPRequestHandler):
    """Answers each request with the common name of the client's certificate, and ends the connection."""

    def do_GET(self) -> None:
        assert isinstance(self.connection, ssl.SSLSocket)
        certificate: Any = self.connection.getpeercert()
        names = [value for part in certificate["subject"] for key, value in part if key == "commonName"]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(names).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the name that the class above has
        """Say nothing."""


class ManyAtOnce(ThreadingHTTPServer):
    """Has room for everybody who connects while one handshake goes on (the default is 5, then connects wait)."""

    request_queue_size = 64


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    folder = tmp_path / "pki"
    pki.ensure(folder, addresses=("127.0.0.1",), names=("x",), node="n")
    return folder


@pytest.fixture
def port(certificates: Path) -> Iterator[int]:
    """Serve where a client has to show a certificate of the authority."""
    server = ManyAtOnce(("127.0.0.1", 0), WhoAsks)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates / "ca.crt"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificates / "kube-apiserver.crt", certificates / "kube-apiserver.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def embedded(certificates: Path, port: int, user: str, **cluster: Any) -> str:
    """Return a kubeconfig with certificates and key in it."""

    def data(name: str) -> str:
        return base64.b64encode((certificates / name).read_bytes()).decode()

    trust = cluster or {"certificate-authority-data": data("ca.crt")}
    login = {"client-certificate-data": data(f"{user}.crt"), "client-key-data": data(f"{user}.key")}
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{port}", **trust}}],
            "users": [{"name": "u", "user": login}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where this process's temporary files lie."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_keys_are_on_no_disk_and_good_for_every_connection(
    certificates: Path, port: int, temporary: Path, tmp_path: Path
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(embedded(certificates, port, "admin"), encoding="utf-8")
    with ThreadPoolExecutor(8) as pool:
        clusters = list(pool.map(lambda _: Cluster.from_kubeconfig(path), range(16)))
        assert list(temporary.iterdir()) == []
        said = list(pool.map(lambda cluster: [cluster.request("GET", "/") for _ in range(2)], clusters))
    assert said == [[["vmatrix-admin"], ["vmatrix-admin"]]] * 16
    assert list(temporary.iterdir()) == []


def test_each_kubeconfig_has_its_own_user(certificates: Path, port: int, temporary: Path, tmp_path: Path) -> None:
    clusters = []
    for user in ("admin", "kube-scheduler"):
        path = tmp_path / user
        path.write_text(embedded(certificates, port, user), encoding="utf-8")
        clusters.append(Cluster.from_kubeconfig(path))
    assert [cluster.request("GET", "/") for cluster in clusters] == [["vmatrix-admin"], ["system:kube-scheduler"]]
    assert list(temporary.iterdir()) == []


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_a_server_of_another_authority_is_not_believed(certificates: Path, port: int, tmp_path: Path) -> None:
    other = tmp_path / "other"
    pki.ensure(other, addresses=("127.0.0.1",), names=("x",), node="n")
    foreign = base64.b64encode((other / "ca.crt").read_bytes()).decode()
    path = tmp_path / "kubeconfig"
    path.write_text(embedded(certificates, port, "admin", **{"certificate-authority-data": foreign}), encoding="utf-8")
    with pytest.raises(Unreachable, match="certificate"):
        Cluster.from_kubeconfig(path).request("GET", "/")
    path.write_text(embedded(certificates, port, "admin", **{"insecure-skip-tls-verify": True}), encoding="utf-8")
    assert Cluster.from_kubeconfig(path).request("GET", "/") == ["vmatrix-admin"]


def test_a_key_that_is_not_the_certificates_is_said_at_once(
    certificates: Path, port: int, temporary: Path, tmp_path: Path
) -> None:
    path = tmp_path / "kubeconfig"
    (certificates / "admin.key").write_bytes((certificates / "kube-scheduler.key").read_bytes())
    path.write_text(embedded(certificates, port, "admin"), encoding="utf-8")
    with pytest.raises(BadInput, match="not PEM, or do not belong together"):
        Cluster.from_kubeconfig(path)
    assert list(temporary.iterdir()) == []


class LogsIn(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        SEEN.append(self.headers["Authorization"])
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        pass


@pytest.fixture
def logged() -> Iterator[str]:
    SEEN.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), LogsIn) as running:
        running.daemon_threads = True
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def with_token(folder: Path, server: str) -> Path:
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
    tmp_path: Path, logged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("first\n", encoding="utf-8")
    cluster = Cluster.from_kubeconfig(with_token(tmp_path, logged), context="pod")

    cluster.request("GET", "/version")
    token.write_text("second\n", encoding="utf-8")
    cluster.request("GET", "/version")
    monkeypatch.setattr(kubeconfig, "TOKEN_SECONDS", 0.0)
    cluster.request("GET", "/version")

    assert SEEN == ["Bearer first", "Bearer first", "Bearer second"]


def test_another_context_logs_in_its_own_way(tmp_path: Path, logged: str) -> None:
    (tmp_path / "token").write_text("first\n", encoding="utf-8")
    Cluster.from_kubeconfig(with_token(tmp_path, logged)).request("GET", "/version")
    assert SEEN == ["Bearer no"]
