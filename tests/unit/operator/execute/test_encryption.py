"""Encrypted snapshots: what was changed, cut, moved or of another key is refused."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.operator.execute import encryption
from harness.operator.execute.encryption import MAGIC, SALT_BYTES, TAG_BYTES, EncryptedSnapshot

CHUNK = 64
HEAD = len(MAGIC) + SALT_BYTES
SEALED_CHUNK = CHUNK + TAG_BYTES
ONE = EncryptedSnapshot(b"k" * 32)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "CHUNK", CHUNK)


def sealed(folder: Path, content: bytes, key: EncryptedSnapshot = ONE) -> bytes:
    (folder / "plain").write_bytes(content)
    key.seal(folder / "plain", folder / "sealed")
    return (folder / "sealed").read_bytes()


def pieces(content: bytes, size: int) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


def opened(content: bytes, key: EncryptedSnapshot = ONE, size: int = 7) -> bytes:
    return b"".join(key.opened(pieces(content, size)))


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
@pytest.mark.parametrize("piece", [1, SEALED_CHUNK, 10_000])
def test_what_is_opened_is_what_was_sealed(size: int, piece: int, tmp_path: Path) -> None:
    content = bytes(number % 251 for number in range(size))
    made = sealed(tmp_path, content)
    assert opened(made, size=piece) == content
    assert len(made) == HEAD + size + TAG_BYTES * max(1, -(-size // CHUNK))
    assert size < CHUNK or content[:CHUNK] not in made
    assert (tmp_path / "sealed").stat().st_mode & 0o777 == 0o600


def test_no_two_files_are_encrypted_alike(tmp_path: Path) -> None:
    assert sealed(tmp_path, b"same")[HEAD:] != sealed(tmp_path, b"same")[HEAD:]


CONTENT = bytes(3 * CHUNK)
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "a byte of a chunk": lambda made: made[: HEAD + 3] + bytes([made[HEAD + 3] ^ 1]) + made[HEAD + 4 :],
    "a byte of the salt": lambda made: made[: HEAD - 1] + bytes([made[HEAD - 1] ^ 1]) + made[HEAD:],
    "the last chunk is missing": lambda made: made[:-SEALED_CHUNK],
    "all chunks are missing": lambda made: made[:HEAD],
    "cut within a chunk": lambda made: made[:-5],
    "something behind it": lambda made: made + b"x",
    "chunks have changed places": lambda made: (
        made[:HEAD] + made[HEAD + SEALED_CHUNK : HEAD + 2 * SEALED_CHUNK] + made[HEAD : HEAD + SEALED_CHUNK]
    ),
    "not encrypted": lambda made: b"plain" * 20,
    "nothing": lambda made: b"",
}


@pytest.mark.parametrize("case", DAMAGE)
def test_what_was_changed_is_refused(case: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"damaged|not encrypted"):
        opened(DAMAGE[case](sealed(tmp_path, CONTENT)))


def test_another_key_opens_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="another key"):
        opened(sealed(tmp_path, CONTENT), EncryptedSnapshot(b"o" * 32))


@pytest.mark.parametrize("content", [b"k" * 32, base64.b64encode(b"k" * 32), base64.b64encode(b"k" * 32) + b"\n"])
def test_a_key_is_32_bytes_raw_or_in_base64(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(content)
    assert EncryptedSnapshot.of_file(tmp_path / "key") == ONE
    assert "kkkk" not in repr(ONE), "no log gets it"


@pytest.mark.parametrize("content", [None, b"", b"k" * 31, b"k" * 64, b"not base64!", base64.b64encode(b"k" * 16)])
def test_what_is_not_a_key_is_refused_with_how_to_make_one(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    with pytest.raises(BadInput, match="key of snapshots") as caught:
        EncryptedSnapshot.of_file(tmp_path / "key")
    assert "encryptionKeyRef" in caught.value.hint
