"""The role of an external CA on this host: what is signed, where all of it lands, and what is refused."""

from __future__ import annotations

import base64
import json
import shutil
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from harness import paths, proc
from harness.artifacts.store import Store
from harness.plan.tiers import tier_cells
from harness.spec import load_spec
from tests.unit.playbooks.playbook_files import PLAYBOOKS, load, run_here
from tests.unit.playbooks.test_kubeadm import VERSIONS

SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
KINDS = {"client": [CLIENT], "server": [SERVER], "peer": [SERVER, CLIENT]}
OWN = load(PLAYBOOKS / "roles/external_ca/vars/main.yml")
AUTHORITIES: dict[str, str] = OWN["external_ca_authorities"]
PURPOSES: list[dict[str, Any]] = (
    OWN["external_ca_files"] + OWN["external_ca_kubeconfigs"] + [OWN["external_ca_kubelet_conf"]]
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


def variables(place: Path, version: str, cas: Path, *, control_plane: bool = True, **more: Any) -> dict[str, Any]:
    """Return what the role is given for a machine whose files are in a folder."""
    etc = place / "etc/kubernetes"
    etc.mkdir(parents=True, exist_ok=True)
    return {
        "external_ca_wanted": True,
        "external_ca_begins": control_plane,
        "external_ca_control_plane": control_plane,
        "external_ca_member": str(etc / "pki/init-done"),
        "external_ca_folder": str(cas),
        "external_ca_configuration": str(etc),
        "external_ca_certificates": str(etc / "pki"),
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


def signed(place: Path, version: str, *, control_plane: bool = True, then: str = "", **more: Any) -> str:
    """Run the role for a machine whose files are in a folder; return what Ansible says.

    then: what the machine does once kubeadm has made its requests.
    """
    given = variables(place, version, place / "cas", control_plane=control_plane, **more)
    made = f'{kubeadm(version)} "$@"' + (f" && {then}" if then else "")
    return run_here(place, [{"vars": given, "roles": ["external_ca"]}], {"kubeadm": made, "kubectl": KUBECTL}, cp={})


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def lasts(read: x509.Certificate) -> timedelta:
    return read.not_valid_after_utc - read.not_valid_before_utc


CONFIGS = [each["name"] for each in OWN["external_ca_kubeconfigs"]]
FRONT = ["front-proxy-ca.crt", "front-proxy-ca.key"]
SMOKE = tier_cells(load_spec(paths.project_dir() / "matrix"), "smoke", "embedded")[0]
VERSION = str(SMOKE.vars["cluster_kubernetes_version"])  # what every infrastructure has built already


@cache
def kubeadm(version: str) -> Path:
    """Return the program of a version, which is built where no test before has done it."""
    return Store().obtain("kubeadm", version).file("kubeadm")


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
    assert (etc / "pki/sa.key").read_bytes() == (cas / "sa.key").read_bytes()
    private = [*etc.glob("pki/**/*.key"), *cas.glob("**/*.key"), etc / "admin.conf", etc / "external-ca/kubelet.conf"]
    assert len(private) == 7 + 1 + 4 + 2
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}
    assert not any("ca.key" in path.name for path in etc.rglob("*"))
    held = configs["admin.conf"]["clusters"][0]["cluster"]["certificate-authority-data"]
    assert base64.b64decode(held) == (cas / "ca.crt").read_bytes() == (etc / "pki/ca.crt").read_bytes()
    assert not (etc / "external-ca/requests").exists()
    assert sorted(path.name for path in cas.iterdir()) == ["ca.crt", "ca.key", "etcd", *FRONT, "sa.key", "sa.pub"]
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
    forged = machine / "forged.csr"
    forged.write_bytes(signed_request.public_bytes(serialization.Encoding.PEM))
    then = f"cp {forged} {machine}/etc/kubernetes/external-ca/new/conf/kubelet.conf.csr"
    output = " ".join(signed(machine, VERSION, control_plane=False, then=then).split())
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
    said = " ".join(signed(machine, VERSION).split())
    assert f"{machine}/etc/kubernetes/pki/ca.key is on this machine, which has no part in a cluster: reset it" in said


SUPER_ADMIN = "CN=kubernetes-super-admin,O=system:masters"


def client(path: Path) -> x509.Certificate:
    """Return the certificate in a kubeconfig."""
    user = yaml.safe_load(path.read_text(encoding="utf-8"))["users"][0]["user"]
    return x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"]))


def ends(place: Path) -> dict[str, Any]:
    """Return by the file when each certificate ends that a machine has."""
    etc, found = place / "etc/kubernetes", {}
    for path in sorted(etc.glob("pki/**/*.crt")):
        found[str(path.relative_to(etc))] = certificate(path).not_valid_after_utc
    for path in sorted(etc.glob("*.conf")):
        user = yaml.safe_load(path.read_text(encoding="utf-8"))["users"][0]["user"]
        pem = base64.b64decode(user["client-certificate-data"]) if "client-certificate-data" in user else b""
        if pem:
            found[path.name] = x509.load_pem_x509_certificate(pem).not_valid_after_utc
    if (place / "kubelet").exists():
        found["kubelet"] = certificate(place / "kubelet/kubelet-client-current.pem").not_valid_after_utc
    return found


@pytest.fixture
def member(tmp_path: Path, control_plane: Path) -> Path:
    """Return the folder of a control plane that has become part of a cluster."""
    shutil.copytree(control_plane / "cas", tmp_path / "cas")
    shutil.copytree(control_plane / "etc", tmp_path / "etc")
    shutil.copytree(control_plane / "kubelet", tmp_path / "kubelet", symlinks=True)
    current = tmp_path / "kubelet/kubelet-client-current.pem"
    current.unlink()
    current.symlink_to(tmp_path / "kubelet/kubelet-client-signed.pem")
    etc = tmp_path / "etc/kubernetes"
    (etc / "external-ca/kubelet.conf").rename(etc / "kubelet.conf")
    (etc / "external-ca").rmdir()
    (etc / "pki/init-done").touch()
    return tmp_path


def test_another_control_plane_gets_certificates_of_the_same_cas(machine: Path) -> None:
    said = signed(machine, VERSION, external_ca_begins=False)
    assert "failed=0" in said, said
    etc = machine / "etc/kubernetes"
    assert certificate(etc / "pki/apiserver.crt").issuer.rfc4514_string() == "CN=kubernetes"
    certificate(etc / "pki/etcd/peer.crt").verify_directly_issued_by(certificate(machine / "cas/etcd/ca.crt"))
    assert (etc / "pki/sa.key").read_bytes() == (machine / "cas/sa.key").read_bytes()
    assert client(etc / "super-admin.conf").subject.rfc4514_string() == SUPER_ADMIN
    assert (etc / "external-ca/kubelet.conf").exists()


def test_machines_that_begin_together_have_the_same_cas(tmp_path: Path) -> None:
    """The one that makes the CAs is not the first in the inventory, and the others wait for it."""
    begins = {"a": False, "b": True, "c": False}
    hosts = {
        name: variables(tmp_path / name, VERSION, tmp_path / "cas", external_ca_begins=first)
        for name, first in begins.items()
    }
    programs = {"kubeadm": f'{kubeadm(VERSION)} "$@"', "kubectl": KUBECTL}
    output = run_here(tmp_path, [{"roles": ["external_ca"]}], programs, **hosts)
    assert output.count("failed=0") == len(begins), output
    authority = certificate(tmp_path / "cas/ca.crt")
    for name in begins:
        etc = tmp_path / name / "etc/kubernetes"
        certificate(etc / "pki/apiserver.crt").verify_directly_issued_by(authority)
        client(etc / "super-admin.conf").verify_directly_issued_by(authority)
        assert (etc / "pki/sa.key").read_bytes() == (tmp_path / "cas/sa.key").read_bytes()
    assert sorted(path.name for path in (tmp_path / "cas").iterdir() if path.name.startswith("signing")) == []


def test_a_member_of_external_etcd_gets_etcds_certificates_alone(tmp_path: Path) -> None:
    kind: dict[str, Any] = {"external_ca_etcd": True, "external_ca_kubelet": False, "external_ca_etcd_local": False}
    said = signed(tmp_path, VERSION, control_plane=False, **{**kind, "external_ca_begins": True})
    assert "failed=0" in said, said
    pki = tmp_path / "etc/kubernetes/pki"
    names = {"etcd/ca", "etcd/server", "etcd/peer", "etcd/healthcheck-client", "apiserver-etcd-client"}
    assert {str(path.relative_to(pki).with_suffix("")) for path in pki.rglob("*.crt")} == names
    assert {str(path.relative_to(pki).with_suffix("")) for path in pki.rglob("*.key")} == names - {"etcd/ca"}
    server = certificate(pki / "etcd/server.crt")
    server.verify_directly_issued_by(certificate(tmp_path / "cas/etcd/ca.crt"))
    covered = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"10.0.0.2", "127.0.0.1"} <= set(map(str, covered.get_values_for_type(x509.IPAddress)))
    assert not (tmp_path / "etc/kubernetes/external-ca").exists()
    assert not (tmp_path / "cas/sa.key").exists()  # which the first control plane makes
    assert "changed=0" in signed(tmp_path, VERSION, control_plane=False, **kind)


def test_a_control_plane_whose_etcd_is_elsewhere_gets_none_of_its_certificates(machine: Path) -> None:
    said = signed(machine, VERSION, external_ca_begins=False, external_ca_etcd_local=False)
    assert "failed=0" in said, said
    found = {
        str(path.relative_to(machine / "etc/kubernetes/pki")) for path in machine.glob("etc/kubernetes/pki/**/*.crt")
    }
    wanted = {"apiserver.crt", "apiserver-kubelet-client.crt", "ca.crt", "front-proxy-ca.crt", "front-proxy-client.crt"}
    assert found == wanted


def test_what_is_due_is_signed_anew_and_nothing_else_changes(member: Path) -> None:
    before, key = ends(member), (member / "etc/kubernetes/pki/sa.key").read_bytes()
    kubelet = (member / "etc/kubernetes/kubelet.conf").read_bytes()
    due: dict[str, Any] = {
        "external_ca_due": True,
        "external_ca_begins": False,
        "external_ca_certificates_validity": "200h",
    }
    said = signed(member, VERSION, **due, external_ca_kubelet=False)
    assert "failed=0" in said, said
    after = ends(member)
    assert before.keys() == after.keys()
    cas = {"pki/ca.crt", "pki/front-proxy-ca.crt", "pki/etcd/ca.crt"}
    assert {name for name in before if after[name] == before[name]} == {*cas, "kubelet"}
    assert all(after[name] - before[name] >= timedelta(hours=99) for name in before.keys() - cas - {"kubelet"})
    assert "failed=0" in signed(member, VERSION, **due, external_ca_only=["kubelet.conf"])
    assert ends(member)["kubelet"] - before["kubelet"] >= timedelta(hours=99)
    pem = (member / "kubelet/kubelet-client-current.pem").read_bytes()
    pair = serialization.load_pem_private_key(pem, password=None)
    assert pair.public_key() == x509.load_pem_x509_certificate(pem).public_key()
    assert (member / "etc/kubernetes/pki/sa.key").read_bytes() == key
    assert (member / "etc/kubernetes/kubelet.conf").read_bytes() == kubelet
    assert not list(member.glob("etc/kubernetes/external-ca*"))


def test_a_control_plane_from_before_gets_super_admin_conf_and_nothing_else(member: Path) -> None:
    """It joined when kubeadm could sign for itself, and each `kubeadm init phase` wants to see the file from now on."""
    config = member / "etc/kubernetes/super-admin.conf"
    before = ends(member)
    config.unlink()
    output = signed(member, VERSION, external_ca_begins=False)
    assert "failed=0" in output, output
    assert client(config).subject.rfc4514_string() == SUPER_ADMIN
    client(config).verify_directly_issued_by(certificate(member / "cas/ca.crt"))
    assert {name for name, end in ends(member).items() if before[name] != end} <= {config.name}
    assert not list(member.glob("etc/kubernetes/external-ca*"))
    assert "changed=0" in signed(member, VERSION, external_ca_begins=False)


@pytest.mark.parametrize("authority", AUTHORITIES)
def test_cas_of_another_cluster_sign_nothing(
    authority: str, member: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    assert "failed=0" in signed(other, VERSION)
    for half in ("crt", "key"):
        shutil.copy(other / f"cas/{authority}.{half}", member / f"cas/{authority}.{half}")
    files = {path: path.read_bytes() for path in (member / "etc/kubernetes").rglob("*") if path.is_file()}
    output = " ".join(signed(member, VERSION, external_ca_due=True, external_ca_begins=False).split())
    assert f"{member}/cas/{authority}.crt is not the CA that cp trusts, and nothing was signed: set" in output, output
    assert {path: path.read_bytes() for path in files} == files


def test_the_api_servers_certificate_gets_other_names(member: Path) -> None:
    before = ends(member)
    only: dict[str, Any] = {"external_ca_due": True, "external_ca_begins": False, "external_ca_only": ["apiserver"]}
    # a run that was killed had begun with other names
    pending = member / "etc/kubernetes/external-ca-renewal/requests"
    pending.mkdir(parents=True)
    (pending / "kubeadm.yml").write_text("of other names\n", encoding="utf-8")
    said = signed(member, VERSION, **only, external_ca_extra_sans=["api.example.com"], external_ca_kubelet=False)
    assert "failed=0" in said, said
    after = ends(member)
    assert {name for name in before if after[name] != before[name]} == {"pki/apiserver.crt"}
    server = certificate(member / "etc/kubernetes/pki/apiserver.crt")
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "api.example.com" in names.get_values_for_type(x509.DNSName)
    key = serialization.load_pem_private_key((member / "etc/kubernetes/pki/apiserver.key").read_bytes(), password=None)
    assert key.public_key() == server.public_key()


@pytest.mark.parametrize("version", VERSIONS)
def test_kubeadm_knows_that_somebody_else_signs(version: str, member: Path) -> None:
    """The role certificates renews what kubeadm calls externally managed."""
    config = (member / "config.yml").as_posix()
    cluster = {"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration"}
    cluster |= {"certificatesDir": str(member / "etc/kubernetes/pki")}
    Path(config).write_text(yaml.safe_dump({**cluster, "kubernetesVersion": "v1.36.3"}), encoding="utf-8")
    words = ["--config", config, "--output=json", "--cert-dir", str(member / "etc/kubernetes/pki")]
    output = proc.run([kubeadm(version), "certs", "check-expiration", *words], timeout=60).stdout
    found = {one["name"]: one for one in json.loads(output)["certificates"] if not one["missing"]}
    assert {"apiserver", "front-proxy-client", "etcd-server", "apiserver-etcd-client"} <= found.keys()
    assert {name for name, one in found.items() if not one["externallyManaged"]} == set()


def removed(place: Path, **more: Any) -> str:
    pki = str(place / "etc/kubernetes/pki")
    given = {"ca_keys_removal_wanted": True, "ca_keys_removal_folder": str(place / "cas")}
    given |= {"ca_keys_removal_certificates": pki, **more}
    return run_here(place, [{"vars": given, "roles": ["ca_keys_removal"]}], {"kubectl": "echo gone"}, cp={})


KEYS = ("ca.key", "front-proxy-ca.key", "etcd/ca.key")


def test_keys_leave_a_machine_and_come_back(member: Path) -> None:
    pki = member / "etc/kubernetes/pki"
    returned: dict[str, Any] = {"external_ca_wanted": False, "external_ca_returned_path": str(member / "cas")}
    assert "failed=0" in signed(member, VERSION, **returned)
    assert {name: (pki / name).read_bytes() for name in KEYS} == {
        name: (member / "cas" / name).read_bytes() for name in KEYS
    }
    assert {(pki / name).stat().st_mode & 0o777 for name in KEYS} == {0o600}
    assert "changed=0" in signed(member, VERSION, **returned)
    assert "changed=0" in signed(member, VERSION)  # it needs no certificate, and stays as it is
    said = removed(member, ca_keys_removal_first=True)
    assert "failed=0" in said, said
    assert not any((pki / name).exists() for name in KEYS)
    assert "changed=0" in removed(member, ca_keys_removal_first=True)


@pytest.mark.parametrize("other", ["another", "none"])
def test_a_key_that_the_controller_does_not_have_stays(other: str, member: Path) -> None:
    pki, kept = member / "etc/kubernetes/pki", member / "cas/front-proxy-ca.key"
    shutil.copy(member / "cas/ca.key", pki / "ca.key")
    shutil.copy(kept, pki / "front-proxy-ca.key")
    kept.unlink()
    if other == "another":
        shutil.copy(member / "cas/ca.key", kept)
    said = " ".join(removed(member).split())
    assert f"{pki}/front-proxy-ca.key is on this machine, and {member}/cas has not the same key: put it there" in said
    assert (pki / "ca.key").exists()


def test_a_machine_that_begins_gets_no_keys_back(tmp_path: Path, control_plane: Path) -> None:
    returned: dict[str, Any] = {"external_ca_wanted": False, "external_ca_returned_path": str(control_plane / "cas")}
    assert "changed=0" in signed(tmp_path, VERSION, **returned)
    assert not (tmp_path / "etc/kubernetes/pki").exists()
