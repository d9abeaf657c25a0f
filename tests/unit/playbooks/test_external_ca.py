"""A cluster whose CAs stay on the controller: kubeadm's requests, what signs them, and where all of it lands."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.unit.playbooks.playbook_files import module
from tests.unit.playbooks.test_customised import CHOICES
from tests.unit.playbooks.test_kubeadm import VERSIONS, kubeadm, versions
from tests.unit.playbooks.test_templates import render

CA = module("action_plugins/external_authority.py")
REQUESTS = module("library/certificate_requests.py")
EXTERNAL: dict[str, Any] = CHOICES["external-ca"]
FILES = frozenset({"external-ca.yml"})
Requests = Mapping[str, str]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that stands for a machine's root."""
    configuration = tmp_path / "etc/kubernetes"
    monkeypatch.setattr(REQUESTS, "CONFIGURATION", configuration)
    monkeypatch.setattr(REQUESTS, "STAGED", configuration / "external-ca")
    monkeypatch.setattr(REQUESTS, "KUBELET_KEYS", tmp_path / "var/lib/kubelet/pki")
    return tmp_path


def pending(machine: Path) -> Path:
    return machine / "etc/kubernetes/external-ca/requests"


def authorities(place: Path) -> dict[str, Any]:
    return {name: CA.authority(place / "cas", name, timedelta(hours=9000)) for name in CA.AUTHORITIES}


def given(requests: Requests, *, control_plane: bool = True, validity: str = "") -> dict[str, Any]:
    return {"machine": "cp-0", "control_plane": control_plane, "requests": requests, "validity": validity}


def request(name: str, group: str = "", key: Any = None) -> str:
    """Return a request for a name and a group."""
    pairs = [(NameOID.COMMON_NAME, name), *([(NameOID.ORGANIZATION_NAME, group)] if group else [])]
    subject = x509.Name([x509.NameAttribute(kind, value) for kind, value in pairs])
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject)
    made = asked.sign(key or ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM).decode()


@versions
def test_what_kubeadm_asks_for_is_signed_and_installed(
    version: str, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(REQUESTS, "KUBEADM", str(kubeadm(version)))
    config = render("cp1-w1", machine, FILES, **VERSIONS[version], **EXTERNAL) / "external-ca.yml"
    REQUESTS.make(config.read_text(encoding="utf-8"), pending(machine), control_plane=True)
    asked, signers, folder = REQUESTS.requests(pending(machine)), authorities(machine), machine / "etc/kubernetes/pki"
    assert set(asked) == set(CA.PURPOSES)
    # kubeadm asks for the name of the machine that it runs for
    signed = CA.all_signed({**given(asked, validity="100h"), "machine": "cp"}, signers)
    certificates = {name: CA.pem(one.certificate) for name, one in signers.items()}
    assert not REQUESTS.installed(folder, control_plane=True)
    REQUESTS.install(pending(machine), folder, certificates, signed)

    assert REQUESTS.installed(folder, control_plane=True)
    assert not pending(machine).exists()
    for name, purpose in CA.PURPOSES.items():
        read = x509.load_pem_x509_certificate(signed[name].encode())
        read.verify_directly_issued_by(signers[purpose.authority].certificate)
        assert read.not_valid_after_utc - read.not_valid_before_utc == timedelta(hours=100, minutes=5)
        usages = read.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert tuple(usages) == purpose.usages
    server = x509.load_pem_x509_certificate((folder / "apiserver.crt").read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "kubernetes.default.svc.cluster.local" in names.get_values_for_type(x509.DNSName)
    assert "127.0.0.1" in map(str, names.get_values_for_type(x509.IPAddress))
    assert (folder / "sa.pub").exists()
    assert (folder / "sa.key").stat().st_mode & 0o777 == 0o600
    assert not any("ca.key" in path.name for path in (machine / "etc").rglob("*"))
    assert (folder / "apiserver.key").stat().st_mode & 0o777 == 0o600
    admin = yaml.safe_load((machine / "etc/kubernetes/admin.conf").read_text(encoding="utf-8"))
    assert base64.b64decode(admin["users"][0]["user"]["client-certificate-data"]).decode() == signed["admin.conf"]
    held = admin["clusters"][0]["cluster"]["certificate-authority-data"]
    assert base64.b64decode(held).decode() == certificates["ca"]


@versions
def test_a_worker_asks_for_its_kubelet_alone(version: str, machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REQUESTS, "KUBEADM", str(kubeadm(version)))
    config = render("cp1-w1", machine, FILES, **VERSIONS[version], **EXTERNAL) / "external-ca.yml"
    REQUESTS.make(config.read_text(encoding="utf-8"), pending(machine), control_plane=False)
    asked, signers = REQUESTS.requests(pending(machine)), authorities(machine)
    assert set(asked) == {"kubelet.conf"}
    signed = CA.all_signed({**given(asked, control_plane=False), "machine": "cp"}, signers)
    REQUESTS.install(pending(machine), machine / "pki", {"ca": CA.pem(signers["ca"].certificate)}, signed)

    assert not (machine / "pki").exists()
    assert not (machine / "etc/kubernetes/kubelet.conf").exists()  # before the machine joins
    kubelet = yaml.safe_load((machine / "etc/kubernetes/external-ca/kubelet.conf").read_text(encoding="utf-8"))
    current = machine / "var/lib/kubelet/pki/kubelet-client-current.pem"
    assert kubelet["users"][0]["user"] == {"client-certificate": str(current), "client-key": str(current)}
    assert current.is_symlink()
    key = serialization.load_pem_private_key(current.read_bytes(), password=None)
    assert key.public_key() == x509.load_pem_x509_certificate(current.read_bytes()).public_key()


def test_requests_that_kubeadm_cannot_make_are_told(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REQUESTS, "KUBEADM", "/bin/false")
    with pytest.raises(REQUESTS.Trouble, match="kubeadm makes no requests"):
        REQUESTS.make("kind: None", pending(machine), control_plane=True)
    assert not pending(machine).exists()
    assert list((machine / "etc/kubernetes/external-ca").iterdir()) == []


@pytest.mark.parametrize(
    ("asked", "control_plane", "words"),
    [
        ({"kubelet.conf": request("system:node:w-7", "system:nodes")}, False, "is for .*CN=system:node:w-7"),
        ({"kubelet.conf": request("system:node:cp-0", "system:masters")}, False, "O=system:masters"),
        ({"admin.conf": request("kubernetes-admin", "kubeadm:cluster-admins")}, False, "which is not for it"),
        ({"other.conf": request("other")}, True, "which is not for it"),
        ({"scheduler.conf": request("system:kube-scheduler", "system:masters")}, True, "is for .*kube-scheduler"),
    ],
)
def test_a_request_for_another_is_refused(asked: Requests, control_plane: bool, words: str, tmp_path: Path) -> None:
    with pytest.raises(CA.Refused, match=words):
        CA.all_signed(given(asked, control_plane=control_plane), authorities(tmp_path))


def test_cas_are_made_once_and_a_half_or_strange_one_is_refused(tmp_path: Path) -> None:
    first = CA.authority(tmp_path, "etcd/ca", timedelta(hours=1))
    assert CA.authority(tmp_path, "etcd/ca", timedelta(hours=1)).certificate == first.certificate
    assert (tmp_path / "etcd/ca.key").stat().st_mode & 0o777 == 0o600
    CA.authority(tmp_path, "ca", timedelta(hours=1))
    (tmp_path / "ca.key").write_bytes((tmp_path / "etcd/ca.key").read_bytes())
    with pytest.raises(CA.Refused, match="is not the key of"):
        CA.authority(tmp_path, "ca", timedelta(hours=1))
    (tmp_path / "ca.key").unlink()
    with pytest.raises(CA.Refused, match=r"ca\.key is missing beside the other half"):
        CA.authority(tmp_path, "ca", timedelta(hours=1))


def test_cas_are_made_for_a_cluster_that_begins_and_not_for_a_machine_that_joins(tmp_path: Path) -> None:
    folder, valid = tmp_path / "cas", timedelta(hours=1)
    with pytest.raises(CA.Refused, match=r"cas/etcd/ca\.key missing, and the cluster has CAs already: set clust"):
        CA.all_authorities(folder, valid, begins=False)
    assert not folder.exists()
    made = CA.all_authorities(folder, valid, begins=True)
    found = CA.all_authorities(folder, valid, begins=False)
    assert {name: one.certificate for name, one in found.items()} == {n: one.certificate for n, one in made.items()}

    (folder / "front-proxy-ca.key").unlink()
    with pytest.raises(CA.Refused, match=r"cas/front-proxy-ca\.key missing, and the cluster has CAs already"):
        CA.all_authorities(folder, valid, begins=False)


def test_a_certificate_ends_with_its_ca_and_a_client_is_no_server(tmp_path: Path) -> None:
    signer = CA.authority(tmp_path, "ca", timedelta(hours=2))
    text = CA.signed(signer, "scheduler.conf", request("system:kube-scheduler"), "cp-0", timedelta(hours=5))
    read = x509.load_pem_x509_certificate(text.encode())
    assert read.not_valid_after_utc == signer.certificate.not_valid_after_utc
    usages = read.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]
