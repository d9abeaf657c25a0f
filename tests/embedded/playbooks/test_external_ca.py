"""The role of an external CA on this host: what is signed, where all of it lands, and what is refused."""

from __future__ import annotations

import base64
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.unit.playbooks.playbook_files import PLAYBOOKS, load, run_here
from tests.unit.playbooks.test_kubeadm import VERSIONS, kubeadm

SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
KINDS = {"client": [CLIENT], "server": [SERVER], "peer": [SERVER, CLIENT]}
OWN = load(PLAYBOOKS / "roles/external_ca/vars/main.yml")
AUTHORITIES: dict[str, str] = OWN["external_ca_authorities"]
PURPOSES: list[dict[str, Any]] = (
    OWN["external_ca_files"] + OWN["external_ca_kubeconfigs"] + [OWN["external_ca_kubelet"]]
)
# This host need not have kubectl, whose two commands are played.
KUBECTL = f"""exec {shutil.which("python3")} - "$@" <<'END'
import base64, sys, yaml
flags = dict(word[2:].partition("=")[::2] for word in sys.argv[3:] if word.startswith("--"))
path = flags["kubeconfig"]
content = yaml.safe_load(open(path))
def data(name): return base64.b64encode(open(flags[name], "rb").read()).decode()
if sys.argv[2] == "set-cluster":
    assert content["clusters"][0]["name"] == sys.argv[3]
    content["clusters"][0]["cluster"]["certificate-authority-data"] = data("certificate-authority")
else:
    assert content["users"][0]["name"] == sys.argv[3]
    user = content["users"][0]["user"]
    if "embed-certs" in flags:
        user["client-certificate-data"] = data("client-certificate")
    else:
        content["users"][0]["user"] = {{name: flags[name] for name in ("client-certificate", "client-key")}}
yaml.safe_dump(content, open(path, "w"))
END
"""


def signed(place: Path, version: str, *, control_plane: bool = True, **more: Any) -> str:
    """Run the role for a machine whose files are in a folder; return what Ansible says."""
    given = {
        "external_ca_wanted": True,
        "external_ca_control_plane": control_plane,
        "external_ca_folder": str(place / "cas"),
        "external_ca_configuration": str(place / "etc/kubernetes"),
        "external_ca_certificates": str(place / "etc/kubernetes/pki"),
        "external_ca_kubelet_keys": str(place / "kubelet"),
        "external_ca_cri_socket": "unix:///run/containerd/containerd.sock",
        "external_ca_kubernetes_version": VERSIONS[version]["cluster_kubernetes_version"],
        "external_ca_address": "10.0.0.2",
        "external_ca_endpoint": "127.0.0.1:6445",
        "external_ca_service_cidr": "10.95.0.0/16",
        "external_ca_dns_domain": "cluster.local",
        "external_ca_certificates_validity": "100h",
        **more,
    }
    programs = {"kubeadm": f'exec {kubeadm(version)} "$@"', "kubectl": KUBECTL}
    (place / "etc/kubernetes").mkdir(parents=True, exist_ok=True)
    return run_here(place, [{"vars": given, "roles": ["external_ca"]}], programs, cp={})


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def lasts(read: x509.Certificate) -> timedelta:
    return read.not_valid_after_utc - read.not_valid_before_utc


CONFIGS = [each["name"] for each in OWN["external_ca_kubeconfigs"]]
FRONT = ["front-proxy-ca.crt", "front-proxy-ca.key"]
VERSION = next(iter(VERSIONS))


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a control plane, with CAs that end in 900 hours."""
    place = tmp_path_factory.mktemp("control-plane")
    said = signed(place, VERSION, external_ca_ca_validity="900h")
    assert "failed=0" in said, said
    return place


@pytest.fixture
def machine(tmp_path: Path, control_plane: Path) -> Path:
    """Return the folder of a machine that joins the cluster."""
    shutil.copytree(control_plane / "cas", tmp_path / "cas")
    return tmp_path


def test_what_kubeadm_asks_for_is_signed_and_installed(control_plane: Path) -> None:
    etc, cas = control_plane / "etc/kubernetes", control_plane / "cas"
    certificates = {path: certificate(path) for path in sorted(etc.glob("pki/**/*.crt"))}
    configs = {name: yaml.safe_load((etc / name).read_text(encoding="utf-8")) for name in CONFIGS}
    for purpose in PURPOSES:
        name = purpose["name"]
        if name == "kubelet.conf":
            read = certificate(control_plane / "kubelet/kubelet-client-current.pem")
        elif name in configs:
            data = configs[name]["users"][0]["user"]["client-certificate-data"]
            read = x509.load_pem_x509_certificate(base64.b64decode(data))
        else:
            read = certificates[etc / f"pki/{name}.crt"]
        read.verify_directly_issued_by(certificate(cas / f"{purpose['ca']}.crt"))
        assert lasts(read) == timedelta(hours=100, minutes=5), name
        usages = read.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usages) == KINDS[purpose["kind"]], name
        assert not read.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    server = certificates[etc / "pki/apiserver.crt"]
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "kubernetes.default.svc.cluster.local" in names.get_values_for_type(x509.DNSName)
    assert "127.0.0.1" in map(str, names.get_values_for_type(x509.IPAddress))
    private = [*etc.glob("pki/**/*.key"), *cas.glob("**/*.key"), etc / "admin.conf", etc / "external-ca/kubelet.conf"]
    assert len(private) == 7 + 1 + 3 + 2
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}
    assert not any("ca.key" in path.name for path in etc.rglob("*"))
    held = configs["admin.conf"]["clusters"][0]["cluster"]["certificate-authority-data"]
    assert base64.b64decode(held) == (cas / "ca.crt").read_bytes() == (etc / "pki/ca.crt").read_bytes()
    assert not (etc / "external-ca/requests").exists()
    assert sorted(path.name for path in cas.iterdir()) == ["ca.crt", "ca.key", "etcd", *FRONT]
    assert "changed=0" in signed(control_plane, VERSION)


def test_cas_are_as_kubeadm_makes_them(control_plane: Path) -> None:
    for name, subject in AUTHORITIES.items():
        read = certificate(control_plane / f"cas/{name}.crt")
        read.verify_directly_issued_by(read)
        assert lasts(read) == timedelta(hours=900, minutes=5)
        assert read.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        assert read.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
        assert [part.value for part in read.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [subject]


def test_a_worker_asks_for_its_kubelet_alone_and_for_no_longer_than_its_ca_lasts(machine: Path) -> None:
    said = signed(machine, VERSION, control_plane=False, external_ca_certificates_validity="9999h")
    assert "failed=0" in said, said
    etc, current = machine / "etc/kubernetes", machine / "kubelet/kubelet-client-current.pem"
    assert not (etc / "pki").exists()
    assert not (etc / "kubelet.conf").exists()  # before the machine joins
    kubelet = yaml.safe_load((etc / "external-ca/kubelet.conf").read_text(encoding="utf-8"))
    assert kubelet["users"][0]["user"] == {"client-certificate": str(current), "client-key": str(current)}
    assert current.is_symlink()
    key = serialization.load_pem_private_key(current.read_bytes(), password=None)
    assert key.public_key() == certificate(current).public_key()
    assert certificate(current).not_valid_after_utc == certificate(machine / "cas/ca.crt").not_valid_after_utc


def test_a_worker_begins_no_cas(machine: Path) -> None:
    (machine / "cas/ca.crt").unlink()
    said = " ".join(signed(machine, VERSION, control_plane=False).split())
    assert f"{machine}/cas/ca.crt missing, and the cluster has CAs already: set cluster_external_ca_folder" in said
    # a later run goes on with these
    assert (machine / "etc/kubernetes/external-ca/requests/conf/kubelet.conf.csr").exists()


NODE = [("O", "system:nodes"), ("CN", "system:node:cp")]
FORGED = "a\nsubject=CN=system:node:cp,O=system:nodes"  # openssl prints line breaks of a name as they are


@pytest.mark.parametrize(
    ("subject", "extension", "said"),
    [
        ([("O", "system:masters"), NODE[1]], None, "is for CN=system:node:cp,O=system:masters or has extensions"),
        ([("O", "system:masters"), NODE[1]], x509.SubjectAlternativeName([x509.DNSName(FORGED)]), "system:masters or"),
        (NODE, x509.BasicConstraints(ca=True, path_length=None), "or has extensions"),
        (NODE, x509.TLSFeature([x509.TLSFeatureType.status_request]), "or has extensions"),
        (NODE, x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00"), "or has extensions"),
    ],
    ids=["subject", "forged", "ca", "feature", "unknown"],
)
def test_a_request_for_anything_else_is_refused(
    machine: Path, subject: list[tuple[str, str]], extension: x509.ExtensionType | None, said: str
) -> None:
    names = {"O": NameOID.ORGANIZATION_NAME, "CN": NameOID.COMMON_NAME}
    request = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(names[name], value) for name, value in subject])
    )
    if extension is not None:
        request = request.add_extension(extension, critical=True)
    signed_request = request.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    conf = machine / "etc/kubernetes/external-ca/requests/conf"
    conf.mkdir(parents=True)
    (conf / "kubelet.conf.csr").write_bytes(signed_request.public_bytes(serialization.Encoding.PEM))
    output = " ".join(signed(machine, VERSION, control_plane=False).split())
    assert "the request kubelet.conf of cp is for" in output, output
    assert said in output, output
    assert "signs it for CN=system:node:cp,O=system:nodes" in output
    assert not (machine / "kubelet").exists()


def test_a_strange_ca_is_refused(machine: Path) -> None:
    (machine / "cas/ca.key").write_bytes((machine / "cas/etcd/ca.key").read_bytes())
    said = " ".join(signed(machine, VERSION, control_plane=False).split())
    assert f"{machine}/cas/ca.key is not the key of {machine}/cas/ca.crt, or one of them is missing: put back" in said


def test_a_machine_with_the_key_of_a_ca_is_refused(machine: Path) -> None:
    (machine / "etc/kubernetes/pki").mkdir(parents=True)
    (machine / "etc/kubernetes/pki/ca.key").touch()
    assert "a cluster has an external CA from its beginning on" in " ".join(signed(machine, VERSION).split())
