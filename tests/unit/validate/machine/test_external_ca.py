"""A machine tells which files hold the key of a CA, whatever they are called and however it is written there."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import pytest

from harness.validate.machine import external_ca
from harness.validate.topics.external_ca import MachineAuthority, authority_of


def made(folder: Path, name: str) -> str:
    """Make a CA; return its key, which is not in the folder."""
    path = folder / f"{name}.crt"
    path.parent.mkdir(parents=True, exist_ok=True)
    key = folder.parent / "key.pem"
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=" + name.replace("/", "-"),
        "-days",
        "9",
    ]
    subprocess.run([*words, "-keyout", str(key), "-out", str(path)], check=True, capture_output=True)
    text = key.read_text(encoding="utf-8")
    key.unlink()
    return text


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return a folder with CAs' certificates, and their keys by name."""
    folder = tmp_path_factory.mktemp("machine") / "pki"
    return folder, {name: made(folder, name) for name in ("ca", "front-proxy-ca", "etcd/ca")}


def looked(folder: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> MachineAuthority:
    external_ca.main([json.dumps({"certificates": str(folder), "places": [str(place)]})])
    return authority_of(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("name", ["ca", "front-proxy-ca", "etcd/ca"])
@pytest.mark.parametrize("written", ["pem", "base64", "json", "amid"])
def test_the_key_of_a_ca_is_found(
    name: str, written: str, pki: tuple[Path, dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, keys = pki
    key = keys[name]
    texts = {
        "pem": key,
        "base64": f"client-key-data: {base64.b64encode(key.encode()).decode()}\n",
        "json": json.dumps({"content": key}),
        "amid": f"notes\n{keys['ca' if name != 'ca' else 'etcd/ca']}{key}more notes\n",
    }
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/file.txt").write_text(texts[written], encoding="utf-8")
    found = looked(folder, tmp_path, capsys)
    assert f"{folder}/{name}.crt" in found.fits[f"{tmp_path}/deep/file.txt"]
    assert found.keys == (2 if written == "amid" else 1)
    assert set(found.authorities) == {f"{folder}/{one}.crt" for one in keys}


def test_another_key_is_counted_and_does_not_fit(
    pki: tuple[Path, dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = made(tmp_path / "other", "ca")
    (tmp_path / "own.key").write_text(key, encoding="utf-8")
    (tmp_path / "broken.key").write_text(
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", encoding="utf-8"
    )
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    found = looked(pki[0], tmp_path, capsys)
    assert found.fits == {}
    assert found.keys == 2


def test_certificates_are_told_but_those_of_cas(
    pki: tuple[Path, dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "pki"
    made(folder, "apiserver")
    (folder / "broken.crt").write_text("no certificate", encoding="utf-8")
    (folder / "ca.crt").write_bytes((pki[0] / "ca.crt").read_bytes())
    found = looked(folder, tmp_path, capsys)
    assert f"{folder}/apiserver.crt" in found.issued
    assert f"{folder}/broken.crt" in found.unread
    assert f"{folder}/ca.crt" not in found.issued
    assert set(found.authorities) == {f"{folder}/ca.crt"}
