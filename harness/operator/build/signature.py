"""Signatures of images: made with a private key, attached to an image in a registry, and checked.

A signature is an image of its own beside the one that it is about, under the tag sha256-DIGEST.sig: each layer is a
payload, and its annotation has the signature. Sources: https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md,
and for encrypted keys https://github.com/secure-systems-lab/go-securesystemslib/tree/main/encrypted and
https://nacl.cr.yp.to/secretbox.html
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Mapping
from typing import Any, ClassVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, poly1305, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from harness.errors import Blame, VmatrixError
from harness.http_client import TooMuch
from harness.operator.build import oci
from harness.until import Deadline

KEY, PASSWORD, PUBLIC_KEY = "cosign.key", "cosign.password", "cosign.pub"  # of a Secret
SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"
ANNOTATION = "dev.cosignproject.cosign/signature"
EPOCH = "1970-01-01T00:00:00Z"
TYPE = "cosign container image signature"
ENCRYPTED = ("ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY")
LARGEST_COST = 1 << 20  # of scrypt: a gigabyte of memory
MOST_SIGNATURES, LARGEST_PAYLOAD = 50, 64 * 1024
PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey
_ROUNDS = (
    *((4, 0, 12, 7), (8, 4, 0, 9), (12, 8, 4, 13), (0, 12, 8, 18), (9, 5, 1, 7), (13, 9, 5, 9), (1, 13, 9, 13)),
    *((5, 1, 13, 18), (14, 10, 6, 7), (2, 14, 10, 9), (6, 2, 14, 13), (10, 6, 2, 18), (3, 15, 11, 7), (7, 3, 15, 9)),
    *((11, 7, 3, 13), (15, 11, 7, 18), (1, 0, 3, 7), (2, 1, 0, 9), (3, 2, 1, 13), (0, 3, 2, 18), (6, 5, 4, 7)),
    *((7, 6, 5, 9), (4, 7, 6, 13), (5, 4, 7, 18), (11, 10, 9, 7), (8, 11, 10, 9), (9, 8, 11, 13), (10, 9, 8, 18)),
    *((12, 15, 14, 7), (13, 12, 15, 9), (14, 13, 12, 13), (15, 14, 13, 18)),
)  # a double round: word, two words that are added, bits that the sum is rotated by


class SignatureFailed(VmatrixError):
    """An image is not signed, or not by this key; `reason` is the word for a condition."""

    reason: ClassVar[str] = "SignatureFailed"
    blame = Blame.USER


class SignatureMissing(SignatureFailed):
    """There is no signature of the image."""

    reason = "SignatureMissing"


class SignatureInvalid(SignatureFailed):
    """None of the signatures of the image is by this key and about this image."""

    reason = "SignatureInvalid"


class BadKey(SignatureFailed):
    """The Secret has no key that can be used."""

    reason = "BadSigningKey"


def sign(repository: oci.Repository, digest: str, key: PrivateKey) -> None:
    """Sign an image that the registry has. Raises RegistryFailed by its kind."""
    payload = payload_of(str(repository), digest)
    config = oci.document(
        {
            "architecture": "",
            "os": "",
            "created": EPOCH,
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [oci.digest_of(payload)]},
        }
    )
    for blob in (payload, config):
        repository.put_blob(blob)
    mark = base64.b64encode(signed(key, payload)).decode()
    layer = oci.descriptor(SIMPLE_SIGNING, payload, annotations={ANNOTATION: mark})
    manifest = {
        "schemaVersion": 2,
        "mediaType": oci.MANIFEST,
        "config": oci.descriptor(oci.CONFIG, config),
        "layers": [layer],
    }
    repository.put_content(signature_tag(digest), oci.document(manifest), oci.MANIFEST)


def verify(
    image: str,
    public_key: bytes,
    *,
    docker_config: bytes | None = None,
    insecure: bool = False,
    seconds: float = 30.0,
) -> None:
    """Check that an image has a signature by a key.

    Args:
        image: by digest, REPOSITORY@sha256:...
        public_key: PEM, as cosign.pub has it.
        docker_config: log-in of container tools.  insecure: plain HTTP.  seconds: that it may take.

    Raises:
        SignatureFailed, RegistryFailed: by their kinds.
    """
    repository, digest = oci.opened(
        image, docker_config=docker_config, insecure=insecure, deadline=Deadline.after(seconds)
    )
    manifest = repository.manifest(signature_tag(digest))
    if manifest is None:
        hint = "images that this Delivery builds are signed; was the signature deleted?"
        raise SignatureMissing(f"{image} is not signed", hint=hint)
    signatures = _signatures(manifest[0])
    for place, mark in signatures:
        try:
            payload = repository.blob(place, largest=LARGEST_PAYLOAD)
        except TooMuch:
            continue
        if is_signed(payload, mark, public_key) and _is_about(payload, digest, str(repository)):
            return
    hint = f"is {PUBLIC_KEY} the key that it was signed with?"
    raise SignatureInvalid(f"{image} has {len(signatures)} signatures, and none is by this key", hint=hint)


def signature_tag(digest: str) -> str:
    """Return the tag of the signatures of an image."""
    return f"{digest.replace(':', '-')}.sig"


def payload_of(repository: str, digest: str) -> bytes:
    """Return what is signed: which image, by which name."""
    critical = {
        "identity": {"docker-reference": repository},
        "image": {"docker-manifest-digest": digest},
        "type": TYPE,
    }
    return json.dumps({"critical": critical, "optional": None}, separators=(",", ":")).encode()


def signed(key: PrivateKey, payload: bytes) -> bytes:
    """Return the signature of a payload."""
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(payload, ec.ECDSA(hashes.SHA256()))
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(payload, padding.PKCS1v15(), hashes.SHA256())
    return key.sign(payload)


def is_signed(payload: bytes, mark: str, public_key: bytes) -> bool:
    """Tell whether a signature, in base64, is a key's. Raises BadKey where it is not a public key."""
    try:
        key = serialization.load_pem_public_key(public_key)
    except ValueError as error:
        raise BadKey(f"{PUBLIC_KEY} is not a public key: {error}", hint="`cosign public-key` prints it") from error
    try:
        raw = base64.b64decode(mark, validate=True)
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(raw, payload, ec.ECDSA(hashes.SHA256()))
        elif isinstance(key, rsa.RSAPublicKey):
            key.verify(raw, payload, padding.PKCS1v15(), hashes.SHA256())
        elif isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(raw, payload)
        else:
            raise BadKey(f"{PUBLIC_KEY} is of an algorithm that cosign does not have", hint="use one of ECDSA P-256")
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def _signatures(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the digests of payloads, each with its signature; a layer of another form is left out."""
    layers = manifest.get("layers")
    signatures = (_signature(layer) for layer in (layers if isinstance(layers, list) else [])[:MOST_SIGNATURES])
    return [signature for signature in signatures if signature is not None]


def _signature(layer: Any) -> tuple[str, str] | None:
    """Return the digest of a layer's payload and its signature; None of a layer of another form."""
    try:
        if layer["mediaType"] != SIMPLE_SIGNING:
            return None
        return str(layer["digest"]), str(layer["annotations"][ANNOTATION])
    except (KeyError, TypeError):
        return None


def _is_about(payload: bytes, digest: str, repository: str) -> bool:
    try:
        critical = json.loads(payload)["critical"]
        named = critical["image"]["docker-manifest-digest"], critical["identity"]["docker-reference"]
        return critical["type"] == TYPE and named == (digest, repository)
    except (ValueError, KeyError, TypeError):
        return False


def private_key(pem: bytes, password: bytes) -> PrivateKey:
    """Read a private key, as `cosign generate-key-pair` or other tools write it. Raises BadKey."""
    try:
        label, content = _unarmoured(pem)
        if label in ENCRYPTED:
            der = _decrypted(json.loads(content), password)
            key = serialization.load_der_private_key(der, None)
        else:
            key = serialization.load_pem_private_key(pem, password if b"ENCRYPTED" in pem else None)
    except (ValueError, TypeError, KeyError, binascii.Error, UnicodeDecodeError) as error:
        hint = f"check {KEY} and {PASSWORD} of build.signingSecretRef; `cosign generate-key-pair` writes both"
        raise BadKey(f"the signing key cannot be read: {error}", hint=hint) from error
    if not isinstance(key, PrivateKey):
        raise BadKey("the signing key is of an algorithm that cosign does not have", hint="use one of ECDSA P-256")
    return key


def _unarmoured(pem: bytes) -> tuple[str, bytes]:
    """Return the label and the content of the first block of a PEM text."""
    lines = pem.decode("ascii").split("-----")
    if len(lines) < 5 or not lines[1].startswith("BEGIN "):
        raise ValueError("it is not in PEM")
    return lines[1].removeprefix("BEGIN "), base64.b64decode("".join(lines[2].split()))


def _decrypted(box: Mapping[str, Any], password: bytes) -> bytes:
    """Open what a password encrypts. Raises ValueError, KeyError."""
    kdf, cipher = box["kdf"], box["cipher"]
    if kdf["name"] != "scrypt" or cipher["name"] != "nacl/secretbox":
        raise ValueError(f"it is encrypted by {kdf['name']} and {cipher['name']}")
    cost, salt = kdf["params"], base64.b64decode(kdf["salt"])
    if cost["N"] * cost["r"] > LARGEST_COST * 8:
        raise ValueError("its password is derived at an unusual cost")
    key = Scrypt(salt=salt, length=32, n=cost["N"], r=cost["r"], p=cost["p"]).derive(password)
    return secretbox_opened(key, base64.b64decode(cipher["nonce"]), base64.b64decode(box["ciphertext"]))


def secretbox_opened(key: bytes, nonce: bytes, box: bytes) -> bytes:
    """Open a box of NaCl, XSalsa20 and Poly1305. Raises ValueError where the key is another one."""
    inner, rest = _salsa20(key, nonce[:16], hashed=True), nonce[16:]
    blocks = (len(box) - 16 + 32 + 63) // 64
    stream = b"".join(_salsa20(inner, rest + struct.pack("<Q", number)) for number in range(blocks))
    try:
        poly1305.Poly1305.verify_tag(stream[:32], box[16:], box[:16])
    except InvalidSignature as error:
        raise ValueError("the password is wrong") from error
    return bytes(left ^ right for left, right in zip(box[16:], stream[32:], strict=False))


def _salsa20(key: bytes, block: bytes, *, hashed: bool = False) -> bytes:
    """Return 64 bytes of Salsa20's stream for 16 bytes of nonce and counter, or the 32 of HSalsa20 (`hashed`)."""
    k, n, c = struct.unpack("<8I", key), struct.unpack("<4I", block), struct.unpack("<4I", b"expand 32-byte k")
    first = [c[0], *k[:4], c[1], *n, c[2], *k[4:], c[3]]
    words = list(first)
    for _ in range(10):
        for to, a, b, bits in _ROUNDS:
            total = (words[a] + words[b]) & 0xFFFFFFFF
            words[to] ^= ((total << bits) | (total >> (32 - bits))) & 0xFFFFFFFF
    if hashed:
        return struct.pack("<8I", *(words[number] for number in (0, 5, 10, 15, 6, 7, 8, 9)))
    return struct.pack("<16I", *((old + new) & 0xFFFFFFFF for old, new in zip(first, words, strict=True)))
