"""Certificates are made once, cover the instance's address, and are renewed when they do not fit."""

from __future__ import annotations

import ssl
import stat
import subprocess
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from harness.infra.host import pki

ADDRESS = "10.213.0.1"
NAMES = ("localhost", "kubernetes")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert pki.ensure(tmp_path, addresses=[ADDRESS], names=NAMES, node="n")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_second_call_changes_nothing(folder: Path) -> None:
    before = contents(folder)
    assert not pki.ensure(folder, addresses=[ADDRESS], names=NAMES, node="n")
    assert contents(folder) == before


def test_every_certificate_loads_with_its_key_and_comes_from_its_authority(folder: Path) -> None:
    for leaf in pki.leaves("n"):
        files = pki.issued(folder, leaf.stem)
        ssl.create_default_context().load_cert_chain(files.certificate, files.key)
        issuer = x509.load_pem_x509_certificate(pki.issued(folder, leaf.issuer).certificate.read_bytes())
        x509.load_pem_x509_certificate(files.certificate.read_bytes()).verify_directly_issued_by(issuer)


@pytest.mark.parametrize("authority", [pki.CA, pki.FRONT_PROXY_CA])
def test_every_certificate_passes_strict_checks(folder: Path, authority: str) -> None:
    signed = [leaf.stem for leaf in pki.leaves("n") if leaf.issuer == authority]
    files = [str(pki.issued(folder, stem).certificate) for stem in (authority, *signed)]
    argv = ["openssl", "verify", "-x509_strict", "-CAfile", files[0], *files]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_keys_are_readable_by_their_owner_alone(folder: Path) -> None:
    keys = list(folder.glob("*.key"))
    assert len(keys) == len(pki.leaves("n")) + 3
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}


def test_another_address_renews_serving_certificates_and_no_others(folder: Path) -> None:
    before = contents(folder)
    assert pki.ensure(folder, addresses=["10.214.0.1"], names=NAMES, node="n")
    changed = {name.removesuffix(".crt") for name, text in contents(folder).items() if text != before[name]}
    assert changed - {f"{n}.key" for n in changed} >= {leaf.stem for leaf in pki.leaves("n") if leaf.server}
    assert "admin" not in changed
    assert "ca" not in changed


@pytest.mark.parametrize("damage", [b"", b"not a certificate"])
def test_a_damaged_file_is_made_again(folder: Path, damage: bytes) -> None:
    files = pki.issued(folder, "etcd")
    files.certificate.write_bytes(damage)
    assert pki.ensure(folder, addresses=[ADDRESS], names=NAMES, node="n")
    ssl.create_default_context().load_cert_chain(files.certificate, files.key)


def test_a_key_of_another_certificate_is_noticed(folder: Path) -> None:
    pki.issued(folder, "etcd").key.write_bytes(pki.issued(folder, "admin").key.read_bytes())
    assert pki.ensure(folder, addresses=[ADDRESS], names=NAMES, node="n")
    assert not pki.ensure(folder, addresses=[ADDRESS], names=NAMES, node="n")


def test_a_new_authority_renews_what_it_issued(folder: Path) -> None:
    before = contents(folder)
    (folder / "ca.key").unlink()
    assert pki.ensure(folder, addresses=[ADDRESS], names=NAMES, node="n")
    after = contents(folder)
    issued = [leaf for leaf in pki.leaves("n") if leaf.issuer == pki.CA]
    assert all(after[f"{leaf.stem}.crt"] != before[f"{leaf.stem}.crt"] for leaf in issued)
    assert after["front-proxy-client.crt"] == before["front-proxy-client.crt"]


def test_a_kubeconfig_holds_everything_and_is_rewritten_only_when_it_differs(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"

    def write(server: str) -> None:
        pki.ensure_component_kubeconfig(path, server=server, folder=folder, stem="admin", cluster="c")

    write("https://10.213.0.1:6443")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first = path.stat().st_mtime_ns
    write("https://10.213.0.1:6443")
    assert path.stat().st_mtime_ns == first
    write("https://10.214.0.1:6443")
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert loaded["clusters"][0]["cluster"]["server"] == "https://10.214.0.1:6443"
    assert set(loaded["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}


@pytest.mark.parametrize(
    ("former", "namespace"),
    [(None, None), ("{", None), ("[]", None), ("contexts: [{name: one, context: {namespace: team}}]", "team")],
)
def test_a_kubeconfig_keeps_the_namespace_that_somebody_has_chosen(
    former: str | None, namespace: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "kubeconfig"
    if former is not None:
        path.write_text(former, encoding="utf-8")
    for _ in range(2):
        pki.ensure_kubeconfig(path, cluster=("one", {"server": "https://a"}), user=("me", {}))
        (context,) = yaml.safe_load(path.read_text(encoding="utf-8"))["contexts"]
        assert context["context"].get("namespace") == namespace
