"""How an API is reached: keys are on no disk, logins are had anew in time, nobody else is told them."""

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
from harness.kube import credentials
from harness.kube.client import Cluster, Unreachable
from harness.machines.reach.portforward import open_stream
from tests.unit.kube.kubeconfigs import V1, ApiServer, Row, credential, program, served


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


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    with served(tmp_path / "api") as running:
        yield running


def told(api: ApiServer) -> list[str]:
    """Return how requests logged in so far."""
    return [dict(sent)["authorization"] for _, sent in api.asked]


def test_a_replaced_token_is_used_once_it_is_a_minute_old(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = api.write(Row("tokenFile", "tokenFile: token"), tmp_path)
    token = tmp_path / "token"
    cluster = Cluster.from_kubeconfig(path)

    cluster.version()
    token.write_text("second\n", encoding="utf-8")
    cluster.version()
    monkeypatch.setattr(credentials, "TOKEN_SECONDS", 0.0)
    cluster.version()
    token.unlink()
    cluster.version()
    token.write_text("not one word", encoding="utf-8")
    cluster.version()

    assert told(api) == ["Bearer of-a-file"] * 2 + ["Bearer second"] * 3


def test_another_context_logs_in_its_own_way(api: ApiServer, tmp_path: Path) -> None:
    more = "users: [{name: u, user: {token: t}}, {name: v, user: {token: v}}]\n"
    contexts = "contexts: [{name: x, context: {cluster: c, user: u}}, {name: z, context: {cluster: c, user: v}}]"
    path = api.write(Row("token", top=more + contexts), tmp_path)
    for context in (None, "z"):
        Cluster.from_kubeconfig(path, context=context).version()
    assert told(api) == ["Bearer t", "Bearer v"]


def counting(answer: str) -> str:
    """Return a user whose program counts how often it is run. answer: its status, with $N for that number."""
    return program(f"echo >>runs; N=$(wc -l <runs); {credential(answer)}")


@pytest.mark.parametrize(
    ("ends", "logins"), [("2000-01-01T00:00:00Z", ["Bearer 2", "Bearer 3"]), ("2100-01-01T00:00:00Z", ["Bearer 1"] * 2)]
)
def test_a_program_is_asked_again_when_its_token_ends(
    ends: str, logins: list[str], api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status = f'{{\\"token\\":\\"$N\\",\\"expirationTimestamp\\":\\"{ends}\\"}}'
    cluster = Cluster.from_kubeconfig(api.write(Row("exec", counting(status)), tmp_path))
    for _ in logins:
        cluster.version()
    assert told(api) == logins


def test_a_program_is_asked_again_when_the_api_does_not_know_its_user(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster = Cluster.from_kubeconfig(api.write(Row("exec", counting('{\\"token\\":\\"$N\\"}')), tmp_path))
    cluster.version()
    cluster.connection.heed(401)
    cluster.version()
    cluster.connection.heed(403)
    cluster.version()
    assert told(api) == ["Bearer 1", "Bearer 2", "Bearer 2"]


def test_a_programs_next_certificate_is_shown_on_every_connection_after(
    certificates: Path, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answers = tmp_path / "answers"
    for user in ("admin", "kube-scheduler"):
        chain, key = ((certificates / f"{user}.{end}").read_text(encoding="utf-8") for end in ("crt", "key"))
        status = {"clientCertificateData": chain, "clientKeyData": key}
        content = {"kind": "ExecCredential", "apiVersion": V1, "status": status}
        (tmp_path / user).write_text(json.dumps(content), encoding="utf-8")
    answers.write_bytes((tmp_path / "admin").read_bytes())
    config = yaml.safe_load(embedded(certificates, port, "admin"))
    config["users"][0]["user"] = yaml.safe_load(program(f"cat {answers}"))
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    cluster = Cluster.from_kubeconfig(path)
    assert cluster.request("GET", "/") == ["vmatrix-admin"]
    answers.write_bytes((tmp_path / "kube-scheduler").read_bytes())
    cluster.connection.heed(401)
    assert cluster.request("GET", "/") == ["system:kube-scheduler"]


def test_no_redirection_is_followed_with_a_login(api: ApiServer, tmp_path: Path) -> None:
    cluster = Cluster.from_kubeconfig(api.write(Row("token", "token: t"), tmp_path))
    for path in ("/redirect", "/apis/redirect"):
        answer = cluster.send("GET", path)
        assert (answer.code, answer.location) == (307, "/version")
    with pytest.raises(Unreachable, match="Redirect"):
        open_stream(cluster, "/redirect")
    assert [where for where, _ in api.asked] == ["/redirect", "/apis/redirect", "/redirect"]
