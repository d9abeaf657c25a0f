"""A listener is told by what it says; etcd and the audit log by what is asked for by name, and never by a value."""

from __future__ import annotations

import base64
import datetime
import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from harness.validate.machine import hardening
from harness.validate.machine.hardening import OFFERS, SEALED, handshake, rights, tail_of

pytestmark = pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
WEAK, STRONG = "ECDHE-RSA-AES128-SHA:@SECLEVEL=0", "ECDHE+AESGCM"


def certificate(folder: Path) -> tuple[str, str]:
    """Return the files of a certificate that signed itself, and of its key."""
    cert, key = folder / "tls.crt", folder / "tls.key"
    if not cert.exists():
        secret = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "one")])
        now = datetime.datetime.now(datetime.UTC)
        made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(secret.public_key())
        made = made.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
        signed = made.sign(secret, hashes.SHA256())
        cert.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        key.write_bytes(secret.private_bytes(serialization.Encoding.PEM, *form))
    return str(cert), str(key)


@contextmanager
def listener(folder: Path, ciphers: str, lowest: ssl.TLSVersion, *, clients: bool = False) -> Iterator[int]:
    """Serve TLS, for clients with a certificate alone if asked to."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    cert, key = certificate(folder)
    context.load_cert_chain(cert, key)
    context.set_ciphers(ciphers)
    context.minimum_version = lowest
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cert)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    link, _ = server.accept()
                except OSError:
                    return
                try:
                    with context.wrap_socket(link, server_side=True) as wrapped:
                        if wrapped.recv(1):
                            wrapped.sendall(b"x")
                except OSError:
                    link.close()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def outcomes(port: int) -> dict[str, str]:
    return {kind: handshake("127.0.0.1", port, offer)[0] for kind, offer in OFFERS.items()}


def test_a_strong_listener_refuses_what_is_old_or_weak(tmp_path: Path) -> None:
    with listener(tmp_path, STRONG, ssl.TLSVersion.TLSv1_2) as port:
        assert outcomes(port) == {"old": "refused", "weak": "refused", "strong": "accepted", "new": "accepted"}


def test_a_listener_of_the_newest_version_alone_refuses_the_others(tmp_path: Path) -> None:
    with listener(tmp_path, STRONG, ssl.TLSVersion.TLSv1_3) as port:
        assert outcomes(port) == {"old": "refused", "weak": "refused", "strong": "refused", "new": "accepted"}


def test_an_old_and_a_weak_listener_are_told(tmp_path: Path) -> None:
    with listener(tmp_path, WEAK, ssl.TLSVersion.TLSv1) as port:
        found = outcomes(port)
    assert (found["old"], found["weak"]) == ("accepted", "accepted")


@pytest.mark.parametrize("lowest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_without_a_certificate_is_told_to_be_refused(tmp_path: Path, lowest: ssl.TLSVersion) -> None:
    offer = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3, STRONG)
    with listener(tmp_path, STRONG, lowest, clients=True) as port:
        assert handshake("127.0.0.1", port, offer, wait=True)[0] == "refused"
        assert handshake("127.0.0.1", port, offer, certificate(tmp_path), wait=True)[0] == "accepted"


def test_nobody_who_listens_is_no_refusal() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert handshake("127.0.0.1", port, OFFERS["old"])[0] == "failed"


def test_rights_are_told_by_control(tmp_path: Path) -> None:
    (tmp_path / "a.key").touch(mode=0o600)
    os.chmod(tmp_path / "a.key", 0o640)
    found = rights({"1.1.21": [f"{tmp_path}/*.key"], "1.1.1": [f"{tmp_path}/none"]})
    assert found == {"1.1.21": {f"{tmp_path}/a.key": [0o640, os.getuid(), os.stat(tmp_path).st_gid]}, "1.1.1": {}}


def test_only_the_end_of_a_log_is_read_and_whole_lines_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(b"one\ntwo\nthr")
    assert tail_of(str(log)) == [b"one", b"two"]
    monkeypatch.setattr(hardening, "TAIL", 6)
    assert tail_of(str(log)) == []
    assert tail_of(str(tmp_path / "none")) == tail_of("") == []


def test_secrets_are_told_by_how_they_are_encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    def pair(key: str, value: bytes) -> dict[str, str]:
        return {"key": coded(key.encode()), "value": coded(value)}

    pairs = [
        pair("/registry/secrets/a/b", SEALED + b"secretbox:v1:key-1:\x00\xff:"),
        pair("/registry/secrets/a/c", b"k8s\0my-mark"),
    ]
    monkeypatch.setattr(hardening, "fetch", lambda *_: {"status": 200, "body": json.dumps({"kvs": pairs})})
    monkeypatch.setattr(hardening, "read_of", lambda *_: "")
    monkeypatch.setattr(hardening, "trusting", lambda **_: Trusting())
    process = {"pid": 1, "argv": ["etcd", "--listen-client-urls=https://127.0.0.1:2379"], "settings": {}}
    assert hardening.stored({"etcd": process}, "my-mark") == {
        "sealed": {"/registry/secrets/a/b": "secretbox:v1:key-1", "/registry/secrets/a/c": ""},
        "shown": ["/registry/secrets/a/c"],
    }
    assert hardening.stored({}, "my-mark") is None


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Trusting:
    """Takes any certificate."""

    def load_cert_chain(self, *_: str) -> None:
        """Take it."""


def test_a_request_is_found_in_the_audit_log_and_what_secrets_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event: dict[str, Any] = {"level": "Metadata", "stage": "ResponseComplete", "verb": "get", "user": {"username": "u"}}
    lines = [{**event, "objectRef": {"name": "absent"}}, {**event, "objectRef": {"name": "other"}}]
    lines.append({"responseObject": {"data": {"text": coded(b"my-mark")}}})
    log = tmp_path / "audit.log"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines).replace('": "', '":"'), encoding="utf-8")
    monkeypatch.setattr(hardening, "fetch", lambda *_: {"status": 404, "body": ""})
    monkeypatch.setattr(hardening, "admins", lambda: None)
    process = {"pid": 1, "argv": ["kube-apiserver", f"--audit-log-path={log}"]}
    found = hardening.audited({"kube-apiserver": process}, "127.0.0.1", "absent", "my-mark")
    assert found == {
        "path": str(log),
        "status": 404,
        "events": [["Metadata", "ResponseComplete", "get", "u"]],
        "leaked": 1,
    }
