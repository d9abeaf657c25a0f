"""A machine tells whether keys fit and what kubeconfigs are for, and never a key."""

from __future__ import annotations

import base64
import json
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
    monkeypatch.setattr(keys, "KUBECONFIGS", f"{tmp_path}/*.conf")
    found = keys.kubeconfigs()
    assert found[f"{tmp_path}/admin.conf"] == {
        "server": "https://192.0.2.1:6443",
        "authority": texts["ca.crt"].strip(),
        "certificate": texts["apiserver.crt"].strip(),
    }
    assert found[f"{tmp_path}/kubelet.conf"]["authority"] == texts["ca.crt"].strip()
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
