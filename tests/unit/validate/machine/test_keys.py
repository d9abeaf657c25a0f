"""A machine tells whether keys fit and what kubeconfigs are for, and never a key."""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import lzma
import subprocess
from pathlib import Path

import pytest

from harness.validate.machine import keys


def made(folder: Path, name: str) -> str:
    """Make a certificate with its key; return the certificate."""
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-days", "9"]
    crt, key = folder / f"{name}.crt", folder / f"{name}.key"
    subprocess.run([*words, "-keyout", str(key), "-out", str(crt)], check=True, capture_output=True)
    return crt.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two certificates and their keys."""
    path = tmp_path_factory.mktemp("pki")
    for name in ("ca", "apiserver"):
        made(path, name)
    return path


def test_a_key_of_another_certificate_does_not_fit(folder: Path, tmp_path: Path) -> None:
    found = keys.pairs(str(folder))
    assert {path: why for path, why in found.items() if path.startswith(str(folder))} == {
        f"{folder}/apiserver.crt": "",
        f"{folder}/ca.crt": "",
    }
    (tmp_path / "x.crt").write_text((folder / "ca.crt").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "x.key").write_text((folder / "apiserver.key").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "y.crt").write_text("nothing", encoding="utf-8")
    (tmp_path / "y.key").write_text("nothing", encoding="utf-8")
    wrong = keys.pairs(str(tmp_path))
    assert "mismatch" in wrong[f"{tmp_path}/x.crt"].lower()
    assert wrong[f"{tmp_path}/y.crt"]


def test_what_a_kubeconfig_is_for_is_told_without_its_key(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in ("ca.crt", "apiserver.crt", "apiserver.key")}
    data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
    (tmp_path / "admin.conf").write_text(
        f"clusters:\n- cluster:\n    certificate-authority-data: {data['ca.crt']}\n    server: https://192.0.2.1:6443\n"
        f"users:\n- user:\n    client-certificate-data: {data['apiserver.crt']}\n"
        f"    client-key-data: {data['apiserver.key']}\n",
        encoding="utf-8",
    )
    (tmp_path / "kubelet.conf").write_text(f"  certificate-authority: {folder}/ca.crt\n", encoding="utf-8")
    (tmp_path / "broken.conf").write_text("client-certificate-data: x\n", encoding="utf-8")
    both = base64.b64encode((texts["ca.crt"] + texts["apiserver.crt"]).encode()).decode()
    (tmp_path / "both.conf").write_text(f"  certificate-authority-data: {both}\n", encoding="utf-8")
    monkeypatch.setattr(keys, "KUBECONFIGS", f"{tmp_path}/*.conf")
    found = keys.kubeconfigs()
    assert found[f"{tmp_path}/admin.conf"] == {
        "server": "https://192.0.2.1:6443",
        "authority": texts["ca.crt"].strip(),
        "certificate": texts["apiserver.crt"].strip(),
        "form": "clusters:\n- cluster:\n    certificate-authority-data: given\n    server: https://192.0.2.1:6443\n"
        "users:\n- user:\n    client-certificate-data: given\n    client-key-data: given",
    }
    assert found[f"{tmp_path}/kubelet.conf"]["authority"] == texts["ca.crt"].strip()
    assert found[f"{tmp_path}/both.conf"]["authority"] == "\n".join(
        texts[name].strip() for name in ("ca.crt", "apiserver.crt")
    )
    assert found[f"{tmp_path}/broken.conf"]["certificate"] == ""
    assert "PRIVATE KEY" not in json.dumps(found)


def test_keys_for_tokens_are_told_by_a_digest_of_what_is_public(tmp_path: Path) -> None:
    for number, name in enumerate(("sa.key", "other.key")):
        words = ["openssl", "genrsa", "-out", str(tmp_path / name), str(2048 + number)]
        subprocess.run(words, check=True, capture_output=True)
    public = ["openssl", "pkey", "-in", str(tmp_path / "sa.key"), "-pubout", "-out", str(tmp_path / "sa.pub")]
    subprocess.run(public, check=True, capture_output=True)
    found = keys.account_keys(str(tmp_path))
    assert found[f"{tmp_path}/sa.pub"] == found[f"{tmp_path}/sa.key"]
    public[3], public[-1] = str(tmp_path / "other.key"), str(tmp_path / "sa.pub")
    subprocess.run(public, check=True, capture_output=True)
    changed = keys.account_keys(str(tmp_path))
    assert changed[f"{tmp_path}/sa.pub"] != changed[f"{tmp_path}/sa.key"]
    assert keys.account_keys("") == {}


PEM_KEY = "-----BEGIN PRIVATE KEY-----\n" + "A" * 64 + "\n" + "B" * 64 + "\n-----END PRIVATE KEY-----\n"
KUBECONFIG = f"kind: Config\nusers:\n- user:\n    client-key-data: {base64.b64encode(PEM_KEY.encode()).decode()}\n"
JWT = "eyJhbGciOiJSUzI1NiIs" + "a" * 20 + "." + "b" * 40 + "." + "c" * 40
SECRETS = (
    "kind: EncryptionConfiguration\nresources:\n- providers:\n  - aescbc:\n      keys:\n      - secret: " + "A" * 44
)
BOLT_FILE = b"\0" * 16 + keys.BOLT + b"\0" * 4000


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (PEM_KEY.encode(), "key"),
        (PEM_KEY.replace("PRIVATE", "EC PRIVATE").encode(), "key"),
        (b"x\n" * 1000 + PEM_KEY.encode(), "key"),
        (gzip.compress(PEM_KEY.encode(), mtime=0), "key"),
        (bz2.compress(PEM_KEY.encode()), "key"),
        (lzma.compress(PEM_KEY.encode()), "key"),
        (b"\x30\x82\x04\xa4\x02\x01\x00\x02\x82\x01\x01" + b"\0" * 40, "key"),
        (b"\x30\x82\x04\xbe\x02\x01\x00\x30\x0d" + b"\0" * 40, "key"),
        (b"\x30\x82\x09\x00\x02\x01\x03\x30\x82" + b"\0" * 40, "key"),
        (KUBECONFIG.encode(), "kubeconfig"),
        (json.dumps({"user": {"client-key-data": base64.b64encode(PEM_KEY.encode()).decode()}}).encode(), "kubeconfig"),
        (b"kind: Config\nusers:\n- user:\n    token: abcdef.0123456789abcdef\n", "kubeconfig"),
        (JWT.encode(), "token"),
        (SECRETS.encode(), "encryption"),
        (BOLT_FILE + b"/registry/secrets/x", "etcd"),
        (BOLT_FILE + b"io.containerd", ""),
        (keys.WAL + b"\x08\x04", "etcd"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ""),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", ""),
        (b"kind: Config\nusers:\n- user:\n    client-key: /x\n", ""),
        (b"", ""),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} bytes",
)
def test_secrets_are_told_by_their_content(content: bytes, what: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    found, digests = keys.content(str(tmp_path / "x"), len(content))
    assert found == what
    assert not any("A" * 8 in one for one in digests)


def test_a_copy_has_the_digest_of_its_key(tmp_path: Path) -> None:
    texts = {"a": PEM_KEY.encode(), "b": KUBECONFIG.encode(), "c": gzip.compress(PEM_KEY.encode())}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
    digests = [keys.content(str(tmp_path / name), len(text))[1] for name, text in texts.items()]
    assert digests[0] == digests[1] == digests[2] != []


def test_a_search_tells_who_reads_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "PLACES", (str(tmp_path),))
    monkeypatch.setattr(keys, "reached", lambda path: "/open" in path)
    for folder in ("open", "closed"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x").write_text(PEM_KEY, encoding="utf-8")
        (tmp_path / folder / "x").chmod(0o644)
    found = keys.secrets_found()
    assert found["whole"]
    assert {(Path(row[0]).parent.name, row[1], row[2], row[4]) for row in found["files"]} == {
        ("open", "key", 0o644, True),
        ("closed", "key", 0o644, False),
    }
    monkeypatch.setattr(keys, "FILES_MOST", 1)
    assert not keys.secrets_found()["whole"]


def test_the_form_of_a_kubeconfig_is_told_without_secrets() -> None:
    text = KUBECONFIG + "    token: abc\n    client-certificate: /x.pem\n    password:\n"
    assert keys.form(text) == (
        "kind: Config\nusers:\n- user:\n    client-key-data: given\n    token: given\n    client-certificate: /x.pem\n"
        "    password:"
    )


def test_a_link_to_a_certificate_with_its_key_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "new.pem").write_text("-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n" + PEM_KEY)
    (tmp_path / "current.pem").symlink_to(tmp_path / "new.pem")
    monkeypatch.setattr(keys, "KUBELET_PAIR", str(tmp_path / "current.pem"))
    assert keys.pair() == {"link": str(tmp_path / "new.pem"), "certificate": True, "key": True}
    monkeypatch.setattr(keys, "KUBELET_PAIR", str(tmp_path / "new.pem"))
    assert keys.pair()["link"] == ""
