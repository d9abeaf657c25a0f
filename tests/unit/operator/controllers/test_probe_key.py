from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from harness.machines.keys import make_key_pair
from harness.operator.api.machine import KeyRef
from harness.operator.controllers.probe import ProbeTrouble, TroubleReason
from harness.operator.controllers.probe_key import key_of_secret
from harness.proc import run

PEM = serialization.PrivateFormat.TraditionalOpenSSL


def secret(**data: bytes) -> dict[str, Any]:
    return {"data": {name.replace("_", "-"): base64.b64encode(value).decode() for name, value in data.items()}}


def usable(found: dict[str, Any] | None, key: str = "ssh-privatekey") -> bytes | ProbeTrouble:
    return key_of_secret(found, KeyRef(name="keys", key=key))


def trouble(found: dict[str, Any] | None) -> ProbeTrouble:
    said = usable(found)
    assert isinstance(said, ProbeTrouble)
    return said


def key_file(folder: Path) -> bytes:
    make_key_pair(folder / "key", comment="test")
    return (folder / "key").read_bytes()


def test_a_key_is_taken_as_it_is_and_ends_its_last_line(tmp_path: Path) -> None:
    key = key_file(tmp_path)
    assert usable(secret(ssh_privatekey=key)) == key
    assert usable(secret(ssh_privatekey=key.strip())) == key
    rsa = generate_private_key(65537, 2048).private_bytes(serialization.Encoding.PEM, PEM, serialization.NoEncryption())
    assert usable(secret(id=rsa), "id") == rsa


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "there is no Secret keys in this namespace; make it: kubectl create secret generic keys"),
        ({}, "Secret keys has no ssh-privatekey (it has: nothing)"),
        (secret(id_rsa=b"x", ssh_publickey=b"y"), "Secret keys has no ssh-privatekey (it has: id-rsa, ssh-publickey)"),
    ],
)
def test_a_key_that_is_not_there(found: dict[str, Any] | None, said: str) -> None:
    unusable = trouble(found)
    assert unusable.reason is TroubleReason.KEY_MISSING
    assert said in unusable.message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"ssh-ed25519 AAAA somebody", "not the .pub file"),
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", "is not a private key"),
        (b"\xff\xfe", "is not a private key"),
    ],
)
def test_a_key_that_ssh_cannot_use(content: bytes, said: str) -> None:
    unusable = trouble(secret(ssh_privatekey=content))
    assert unusable.reason is TroubleReason.INVALID_KEY
    assert said in unusable.message
    assert content.decode(errors="replace") not in unusable.message


def test_a_key_with_a_passphrase(tmp_path: Path) -> None:
    path = tmp_path / "key"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "a phrase", "-f", path], timeout=60)
    unusable = trouble(secret(ssh_privatekey=path.read_bytes()))
    assert unusable.reason is TroubleReason.INVALID_KEY
    assert "give a key without a passphrase" in unusable.message
