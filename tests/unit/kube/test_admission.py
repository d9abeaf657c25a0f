"""Admission reviews as the API server wants them."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.errors import InfraError
from harness.kube.admission import ALLOWED, AdmissionResponse, StatusCause, change, listen, review
from harness.kube.failures import Json


def test_a_review_carries_the_patch() -> None:
    request = {"uid": "1", "object": {"spec": {"a": 1}, "metadata": {}}}

    answer = review(request, change(request, {"spec": {"a": 2}, "metadata": {}}))["response"]

    assert (answer["uid"], answer["allowed"], answer["patchType"]) == ("1", True, "JSONPatch")
    assert json.loads(base64.b64decode(answer["patch"])) == [{"op": "add", "path": "/spec", "value": {"a": 2}}]
    assert review(request, ALLOWED)["response"] == {"uid": "1", "allowed": True}


def test_a_review_carries_the_refusal() -> None:
    causes = (StatusCause("one", "spec.a"), StatusCause("two"))
    refused = AdmissionResponse(False, code=422, reason="Invalid", message="one; two", causes=causes)

    status = review({"uid": "1"}, refused)["response"]["status"]

    assert {name: status[name] for name in ("code", "reason", "message")} == {
        "code": 422,
        "reason": "Invalid",
        "message": "one; two",
    }
    assert [cause.get("field") for cause in status["details"]["causes"]] == ["spec.a", None]


HOST = "127.0.0.1"


def _judge(request: Json) -> AdmissionResponse:
    no = AdmissionResponse(False, code=400, message="no")
    return no if request["object"]["refuse"] else AdmissionResponse(allowed=True)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Return a self-signed certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    cert, private = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert, private


@pytest.fixture
def connection(certificate: tuple[Path, Path]) -> Iterator[http.client.HTTPSConnection]:
    """Serve on a free port and return one connection to it."""
    server = listen((HOST, 0), *certificate, {"/judge": _judge})
    threading.Thread(target=server.serve_forever, daemon=True).start()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client = http.client.HTTPSConnection(HOST, server.server_address[1], context=context, timeout=10)
    yield client
    client.close()
    server.shutdown()
    server.server_close()


def _ask(client: http.client.HTTPSConnection, path: str, body: bytes) -> tuple[int, bytes]:
    client.request("POST", path, body)
    answer = client.getresponse()
    return answer.status, answer.read()


def _review(refuse: bool) -> bytes:
    return json.dumps({"request": {"uid": "7", "operation": "CREATE", "object": {"refuse": refuse}}}).encode()


def test_reviews_are_answered_on_one_connection(connection: http.client.HTTPSConnection) -> None:
    connection.connect()
    socket = connection.sock
    for refuse in (False, True, False):
        status, body = _ask(connection, "/judge?timeout=10s", _review(refuse))
        response = json.loads(body)["response"]
        assert (status, response["uid"], response["allowed"]) == (200, "7", not refuse)
    assert connection.sock is socket


def test_what_cannot_be_judged_is_an_error_and_not_the_end(connection: http.client.HTTPSConnection) -> None:
    assert _ask(connection, "/elsewhere", _review(False))[0] == 404
    assert _ask(connection, "/judge", b"no json")[0] == 500
    assert _ask(connection, "/judge", b'{"request": {"uid": "7"}}')[0] == 500
    assert _ask(connection, "/judge", _review(False))[0] == 200


def test_a_probe_is_answered(connection: http.client.HTTPSConnection) -> None:
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200


def test_a_taken_address_is_said_with_a_remedy(certificate: tuple[Path, Path]) -> None:
    taken = listen((HOST, 0), *certificate, {})
    port = taken.server_address[1]
    with pytest.raises(InfraError, match=f"cannot listen on {HOST}:{port}") as refused:
        listen((HOST, port), *certificate, {})
    taken.server_close()
    assert f"sport = :{port}" in refused.value.hint
