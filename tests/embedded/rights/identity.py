"""An issuer of tokens such as GitLab is: discovery and keys over TLS of its own authority, tokens signed with RS256."""

from __future__ import annotations

import base64
import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

ADDRESS = "127.0.0.1"
KEY_ID = "1"


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


@dataclass(frozen=True)
class Issuer:
    """A running issuer: its URL, its authority's certificate (PEM) and its signing key."""

    url: str
    authority: str
    key: rsa.RSAPrivateKey

    def token(self, claims: Mapping[str, Any], *, key: rsa.RSAPrivateKey | None = None) -> str:
        """Return a signed token; `key` signs it in place of the issuer's own."""
        header = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in (header, dict(claims)))
        signature = (key or self.key).sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_encoded(signature)}"

    def claims(self, project: int, path: str, **more: Any) -> dict[str, Any]:
        """Return what GitLab says of a job in an id_token for the audience `vmatrix`.

        https://docs.gitlab.com/ci/secrets/id_token_authentication/#token-payload
        """
        now = int(time.time())
        return {
            "iss": self.url,
            "aud": "vmatrix",
            "sub": f"project_path:{path}:ref_type:branch:ref:main",
            "iat": now,
            "nbf": now - 5,
            "exp": now + 3600,
            "project_id": str(project),
            "project_path": path,
            "namespace_path": path.rpartition("/")[0],
            "job_id": "77",
            "pipeline_id": "7",
            "ref": "main",
            **more,
        }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    answers: Mapping[str, Any]


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer with the discovery document or the keys."""
        assert isinstance(self.server, _Server)
        answer = self.server.answers.get(self.path)
        body = json.dumps(answer or {}).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        """Say nothing."""


@contextmanager
def issuing(folder: Path) -> Iterator[Issuer]:
    """Run an issuer on a free port of this host, its TLS key and certificate in `folder`."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    certificate = _self_signed(key)
    chain = folder / "issuer.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain.write_bytes(private + certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server = _Server((ADDRESS, 0), _Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = f"https://{ADDRESS}:{server.server_address[1]}"
    public = key.public_key().public_numbers()
    jwk = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": KEY_ID, "n": _number(public.n), "e": _number(public.e)}
    server.answers = {
        "/.well-known/openid-configuration": {
            "issuer": url,
            "jwks_uri": f"{url}/oauth/discovery/keys",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        },
        "/oauth/discovery/keys": {"keys": [jwk]},
    }
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Issuer(url, certificate.decode(), key)
    finally:
        server.shutdown()
        server.server_close()


def _self_signed(key: rsa.RSAPrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer of the tests")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(ADDRESS))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)
