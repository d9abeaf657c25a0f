"""Signatures in cosign's format: made, checked, and refused."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from harness.operator.build import oci, signature
from harness.until import Deadline
from tests.unit.operator.build.registries import Registry, played

DIGEST = f"sha256:{'a' * 64}"
PASSWORD = b"a password"
LARGE = bytes(signature.LARGEST_PAYLOAD + 1)
# https://pkg.go.dev/golang.org/x/crypto/nacl/secretbox, of the same bytes as NaCl's own
BOX = bytes.fromhex(
    "8442bc313f4626f1359e3b50122b6ce6fe66ddfe7d39d14e637eb4fd5b45beadab55198df6ab5368439792a23c87db70"
    "acb6156dc5ef957ac04f6276cf6093b84be77ff0849cc33e34b7254d5a8f65ad"
)


def pem(key: signature.PrivateKey, password: bytes = b"") -> bytes:
    """Return a private key as openssl writes it."""
    kind = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, kind)


def public(key: signature.PrivateKey) -> bytes:
    """Return a public key as cosign.pub has it."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form)


def cosign_pem(key: signature.PrivateKey, password: bytes, label: str = signature.ENCRYPTED[0], **params: int) -> bytes:
    """Return a private key as cosign writes it, its stream made by what opens it."""
    cost, salt, nonce = {"N": 1024, "r": 8, "p": 1, **params}, b"s" * 32, b"n" * 24
    der = key.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    derived = Scrypt(salt=salt, length=32, n=1024, r=8, p=1).derive(password)
    text = json.dumps(
        {
            "kdf": {"name": "scrypt", "params": cost, "salt": base64.b64encode(salt).decode()},
            "cipher": {"name": "nacl/secretbox", "nonce": base64.b64encode(nonce).decode()},
            "ciphertext": base64.b64encode(_boxed(derived, nonce, der)).decode(),
        }
    )
    return f"-----BEGIN {label}-----\n{base64.b64encode(text.encode()).decode()}\n-----END {label}-----\n".encode()


def _boxed(key: bytes, nonce: bytes, content: bytes) -> bytes:
    from cryptography.hazmat.primitives.poly1305 import Poly1305

    inner = signature._salsa20(key, nonce[:16], hashed=True)
    blocks = range((len(content) + 32 + 63) // 64)
    stream = b"".join(signature._salsa20(inner, nonce[16:] + number.to_bytes(8, "little")) for number in blocks)
    body = bytes(left ^ right for left, right in zip(content, stream[32:], strict=False))
    return Poly1305.generate_tag(stream[:32], body) + body


def test_a_box_of_nacl_is_opened() -> None:
    assert signature.secretbox_opened(b"\1" * 32, b"\2" * 24, BOX) == b"\3" * 64
    with pytest.raises(ValueError, match="password"):
        signature.secretbox_opened(b"\2" * 32, b"\2" * 24, BOX)


KEYS: dict[str, signature.PrivateKey] = {
    "ECDSA": ec.generate_private_key(ec.SECP256R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate(),
    "RSA": rsa.generate_private_key(65537, 2048),
}
FORMS: dict[str, tuple[Callable[[signature.PrivateKey], bytes], bytes]] = {
    "plain": (lambda key: pem(key), b""),
    "with a password": (lambda key: pem(key, PASSWORD), PASSWORD),
    "cosign's": (lambda key: cosign_pem(key, PASSWORD), PASSWORD),
    "an older cosign's": (lambda key: cosign_pem(key, PASSWORD, signature.ENCRYPTED[1]), PASSWORD),
    "cosign's without a password": (lambda key: cosign_pem(key, b""), b""),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KEYS)
def test_every_form_of_a_key_signs_what_its_public_key_accepts(kind: str, form: str) -> None:
    written, password = FORMS[form]
    key = signature.private_key(written(KEYS[kind]), password)
    mark = base64.b64encode(signature.signed(key, b"payload")).decode()
    assert signature.is_signed(b"payload", mark, public(KEYS[kind]))
    assert not signature.is_signed(b"another", mark, public(KEYS[kind]))


BAD_KEYS = {
    "empty": b"",
    "a text": b"hello",
    "bytes": b"\xff\xfe",
    "a public key": public(KEYS["ECDSA"]),
    "a wrong password": cosign_pem(KEYS["ECDSA"], b"another"),
    "an unusual cost": cosign_pem(KEYS["ECDSA"], PASSWORD, N=1 << 30),
    "no JSON": b"-----BEGIN ENCRYPTED COSIGN PRIVATE KEY-----\naGVsbG8=\n-----END ENCRYPTED COSIGN PRIVATE KEY-----\n",
}


@pytest.mark.parametrize("case", BAD_KEYS)
def test_what_is_no_key_is_refused(case: str) -> None:
    with pytest.raises(signature.BadKey) as refused:
        signature.private_key(BAD_KEYS[case], PASSWORD)
    assert refused.value.hint
    assert PASSWORD.decode() not in str(refused.value)


def signed_image(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Return a registry with a signature."""
    registry = played(monkeypatch, Registry())
    ours = oci.Repository("r.test", "app", Deadline.after(60))
    signature.sign(ours, DIGEST, KEYS["ECDSA"])
    return registry


def test_an_image_is_verified_by_the_key_that_signed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = signed_image(monkeypatch)
    signature.verify(f"r.test/app@{DIGEST}", public(KEYS["ECDSA"]))
    (manifest,) = [json.loads(body) for path, body in registry.content.items() if path.endswith(f"{'a' * 64}.sig")]
    (layer,) = manifest["layers"]
    assert layer["mediaType"] == "application/vnd.dev.cosign.simplesigning.v1+json"
    payload = json.loads(registry.content[f"app/blobs/{layer['digest']}"])
    assert payload["critical"]["image"] == {"docker-manifest-digest": DIGEST}
    assert payload["critical"]["identity"] == {"docker-reference": "r.test/app"}


def test_another_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    signed_image(monkeypatch)
    with pytest.raises(signature.SignatureInvalid):
        signature.verify(f"r.test/app@{DIGEST}", public(KEYS["RSA"]))
    with pytest.raises(signature.BadKey):
        signature.verify(f"r.test/app@{DIGEST}", b"no key")


def test_an_image_without_a_signature_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch, Registry())
    with pytest.raises(signature.SignatureMissing):
        signature.verify(f"r.test/app@{DIGEST}", public(KEYS["ECDSA"]))


BROKEN: dict[str, dict[str, Any]] = {
    "nothing": {},
    "no layers": {"layers": None},
    "layers of another form": {"layers": ["x"]},
    "no digest": {"layers": [{"mediaType": signature.SIMPLE_SIGNING, "annotations": {signature.ANNOTATION: "eA=="}}]},
    "no annotations": {"layers": [{"mediaType": signature.SIMPLE_SIGNING, "digest": DIGEST, "annotations": []}]},
    "no base64": {
        "layers": [oci.descriptor(signature.SIMPLE_SIGNING, b"x", annotations={signature.ANNOTATION: "\u00e4"})]
    },
    "a payload that is too large": {
        "layers": [oci.descriptor(signature.SIMPLE_SIGNING, LARGE, annotations={signature.ANNOTATION: "eA=="})]
    },
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_signature_is_refused(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    registry = played(monkeypatch, Registry())
    registry.content |= {f"app/blobs/{oci.digest_of(content)}": content for content in (b"x", LARGE)}
    registry.content[f"app/manifests/{signature.signature_tag(DIGEST)}"] = json.dumps(BROKEN[case]).encode()
    with pytest.raises(signature.SignatureInvalid):
        signature.verify(f"r.test/app@{DIGEST}", public(KEYS["ECDSA"]))


def test_a_layer_that_is_no_signature_hides_none_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = signed_image(monkeypatch)
    place = f"app/manifests/{signature.signature_tag(DIGEST)}"
    manifest = json.loads(registry.content[place])
    broken = [layer for case in BROKEN.values() for layer in case.get("layers") or []]
    registry.content[place] = json.dumps({**manifest, "layers": [*broken, *manifest["layers"]]}).encode()
    registry.content |= {f"app/blobs/{oci.digest_of(content)}": content for content in (b"x", LARGE)}
    signature.verify(f"r.test/app@{DIGEST}", public(KEYS["ECDSA"]))


@pytest.mark.parametrize("other", [f"r.test/app@sha256:{'b' * 64}", f"r.test/other@{DIGEST}"])
def test_a_signature_that_was_moved_to_another_image_is_refused(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    registry = signed_image(monkeypatch)
    name, digest = other.removeprefix("r.test/").split("@")
    moved = {
        path.replace("app/", f"{name}/").replace(DIGEST.replace(":", "-"), digest.replace(":", "-")): body
        for path, body in registry.content.items()
    }
    played(monkeypatch, replace(registry, content=moved))
    with pytest.raises(signature.SignatureInvalid):
        signature.verify(other, public(KEYS["ECDSA"]))
