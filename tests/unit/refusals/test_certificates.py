"""Servers whose certificate is not to be believed: each reason has its words and its hint; none is worth a retry."""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.unit.refusals.called import Refusal, Room
from tests.unit.refusals.lying import kubeconfig

NOW = datetime.now(UTC).replace(microsecond=0)
PEM = serialization.Encoding.PEM
COMMANDS = {"status": 3, "reap --all": 3, "login cell cp-0": 3}


class Authority:
    """A certificate authority of the tests."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._made("authority", self.key, NOW - timedelta(days=9), NOW + timedelta(days=9), None)

    def _made(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        since: datetime,
        until: datetime,
        address: x509.GeneralName | None,
    ) -> x509.Certificate:
        common = x509.NameAttribute(NameOID.COMMON_NAME, name)
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        made = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([common]))
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(since)
            .not_valid_after(until)
            .add_extension(x509.BasicConstraints(ca=address is None, path_length=None), critical=True)
        )
        if address is not None:
            made = made.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        return made.sign(self.key, hashes.SHA256())

    def server(self, folder: Path, *, since: int, until: int, address: x509.GeneralName) -> Path:
        """Return a file of a server's certificate and key; days from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._made("server", key, NOW + timedelta(days=since), NOW + timedelta(days=until), address)
        private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        file = folder / "server.pem"
        file.write_bytes(made.public_bytes(PEM) + private)
        return file

    @property
    def data(self) -> str:
        return base64.b64encode(self.certificate.public_bytes(PEM)).decode()


class Silent(ThreadingHTTPServer):
    """A server that says nothing of clients that do not believe it."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Expect it."""


@contextmanager
def serving(file: Path) -> Iterator[str]:
    server = Silent(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


HERE = x509.IPAddress(ip_address("127.0.0.1"))
WRONG = {
    "expired": (-5, -1, HERE, f"has expired; it was valid until {NOW - timedelta(days=1):%Y-%m-%d %H:%M} UTC", "renew"),
    "not-yet": (1, 5, HERE, f"not valid yet; it is valid from {NOW + timedelta(days=1):%Y-%m-%d %H:%M} UTC", "clock"),
    "address": (-1, 5, x509.IPAddress(ip_address("192.0.2.1")), "is not for 127.0.0.1", "tls-server-name"),
    "name": (-1, 5, x509.DNSName("other.example.org"), "is not for 127.0.0.1", "tls-server-name"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", WRONG)
def test_a_certificate_that_is_wrong(room: Room, tmp_path: Path, name: str, command: str) -> None:
    since, until, address, said, hint = WRONG[name]
    authority = Authority()
    with serving(authority.server(tmp_path / "tmp", since=since, until=until, address=address)) as server:
        text = kubeconfig({"server": server, "certificate-authority-data": authority.data})
        asked = f"{command} --provider kubeconfig --kubeconfig kc"
        room.refuses(Refusal(asked, said, hint, COMMANDS[command], files={"kc": text}))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("trusted", ["another", "none"])
def test_a_certificate_of_another_authority(room: Room, tmp_path: Path, trusted: str, command: str) -> None:
    with serving(Authority().server(tmp_path / "tmp", since=-1, until=5, address=HERE)) as server:
        trust = {"certificate-authority-data": Authority().data} if trusted == "another" else {}
        text = kubeconfig({"server": server, **trust})
        asked = f"{command} --provider kubeconfig --kubeconfig kc"
        room.refuses(Refusal(asked, "its certificate", "authority", COMMANDS[command], files={"kc": text}))
