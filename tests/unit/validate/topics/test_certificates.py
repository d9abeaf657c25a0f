"""Certificates that expire, are of another authority, lie elsewhere or do not fit their keys are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.files import FileRights, MachineFiles
from harness.validate.facts.node import Certificate, NodeFacts
from harness.validate.findings import Mismatch, Unjudged
from harness.validate.topics.certificates import (
    Kubeconfig,
    MachineKeys,
    authority_of,
    bad_certificates,
    foreign_certificates,
    keys_of,
    other_validity,
    strange_kubeconfigs,
    strayed_certificates,
    unfit_keys,
)
from tests.unit.validate import customised, foreign, guests, on_disk
from tests.unit.validate.changes import Judge, finds, passes_a_well_guest_only
from tests.unit.validate.guests import Change, Json

KUBELET_CLIENT = "/var/lib/kubelet/pki/kubelet-client-current.pem"
API_SERVER = "/etc/kubernetes/pki/apiserver.crt"
RECORDED_AT = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)


def certificates(seen: Mapping[str, NodeFacts], wanted: ExpectedGuest) -> list[Mismatch]:
    return bad_certificates(seen, wanted, RECORDED_AT)


def certificates_a_year_on(seen: Mapping[str, NodeFacts], wanted: ExpectedGuest) -> list[Mismatch]:
    return bad_certificates(seen, wanted, datetime(2027, 11, 1, tzinfo=UTC))


def without_kubelet_client(raw: Json) -> None:
    del raw["certificates"]["/var/lib/kubelet/pki/kubelet-client-current.pem"]


JUDGES: tuple[Judge, ...] = (certificates,)
FAULTS: list[tuple[Judge, Change]] = [
    (certificates_a_year_on, lambda _: None),
    (certificates, without_kubelet_client),
    (
        certificates,
        lambda raw: raw["certificates"].update({API_SERVER: raw["certificates"][KUBELET_CLIENT]}),
    ),
]


@pytest.mark.parametrize("judge", JUDGES)
def test_only_a_well_guest_passes(judge: Judge) -> None:
    assert passes_a_well_guest_only(judge)


@pytest.mark.parametrize(("judge", "fault"), FAULTS)
def test_a_fault_is_found(judge: Judge, fault: Change) -> None:
    assert finds(judge, fault)


PKI = "/etc/kubernetes/pki"


def stranger() -> str:
    """Return a certificate that signed itself, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def seen(path: str, of: str) -> list[str]:
    """Return what is found when a file holds a certificate of a stranger."""
    facts = guests.facts(lambda raw: raw["certificates"].update({path: stranger()}), of=of)
    return [str(one) for one in foreign_certificates(facts, guests.expected())]


def test_only_certificates_of_the_clusters_authorities_pass() -> None:
    assert [str(one) for one in foreign_certificates(guests.facts(), guests.expected())] == []
    assert foreign_certificates({}, guests.expected())


def test_a_certificate_of_another_authority_is_found() -> None:
    (found,) = seen(f"{PKI}/apiserver-kubelet-client.crt", "cp-0")
    assert f"cp-0 {PKI}/apiserver-kubelet-client.crt (CN=kubernetes): expected signed by {PKI}/ca.crt" in found
    (found,) = seen(f"{PKI}/etcd/healthcheck-client.crt", "cp-0")
    assert f"signed by {PKI}/etcd/ca.crt" in found


def test_another_authority_on_a_worker_is_found() -> None:
    assert "w-0 /etc/kubernetes/pki/ca.crt: expected the same authority" in "\n".join(seen(f"{PKI}/ca.crt", "w-0"))


def test_each_certificate_has_the_authority_of_its_folder() -> None:
    assert authority_of(f"{PKI}/etcd/peer.crt", PKI) == f"{PKI}/etcd/ca.crt"
    assert authority_of(f"{PKI}/apiserver-etcd-client.crt", PKI) == f"{PKI}/etcd/ca.crt"
    assert authority_of(f"{PKI}/front-proxy-client.crt", PKI) == f"{PKI}/front-proxy-ca.crt"
    assert authority_of("/var/lib/kubelet/pki/kubelet-client-current.pem", PKI) == f"{PKI}/ca.crt"


def test_nothing_is_judged_of_a_product_that_says_nothing() -> None:
    (found,) = foreign_certificates(guests.facts(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)


EXPECTED = guests.expected()
KUBEADM_PKI, CONF = "/etc/kubernetes/pki", "/etc/kubernetes"
SERVER, CA = "https://127.0.0.1:6445", "the CA"


def raw_keys(name: str) -> Json:
    """Return what a machine of the recorded guest prints, with the certificates that were recorded."""
    certificates = guests.raw_facts("cp-0")["certificates"]
    files = ("admin.conf", "super-admin.conf", "controller-manager.conf", "scheduler.conf") if name == "cp-0" else ()
    made = {
        f"{CONF}/{file}": {"server": SERVER, "authority": CA, "certificate": certificates[f"{CONF}/{file}"]}
        for file in files
    }
    own = {f"{CONF}/kubelet.conf": {"server": SERVER, "authority": CA, "certificate": ""}}
    return {
        "pairs": {f"{KUBEADM_PKI}/apiserver.crt": "", "/var/lib/kubelet/pki/kubelet.crt": ""},
        "counts": {f"{KUBEADM_PKI}/ca.crt": 1, f"{KUBEADM_PKI}/front-proxy-ca.crt": 1},
        "kubeconfigs": {**made, **own},
        "authority": CA,
        "accounts": {f"{KUBEADM_PKI}/sa.pub": "a", f"{KUBEADM_PKI}/sa.key": "a"} if name == "cp-0" else {},
    }


def keys(change: Change = lambda _: None, *, of: str = "cp-0") -> dict[str, MachineKeys]:
    raw = {name: raw_keys(name) for name in ("cp-0", "w-0")}
    change(raw[of])
    return {name: keys_of(one) for name, one in raw.items()}


def test_only_keys_and_kubeconfigs_of_a_well_guest_pass() -> None:
    assert [str(one) for one in unfit_keys(keys(), EXPECTED)] == []
    assert [str(one) for one in strange_kubeconfigs(keys(), EXPECTED)] == []
    assert unfit_keys({}, EXPECTED)
    assert strange_kubeconfigs({}, EXPECTED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw["pairs"].update({f"{KUBEADM_PKI}/apiserver.crt": "key values mismatch"}), "apiserver.crt"),
        (lambda raw: raw.update(pairs={}), "certificates with their keys"),
        (lambda raw: raw["counts"].update({f"{KUBEADM_PKI}/ca.crt": 2}), "ca.crt: expected one certificate; saw 2"),
        (lambda raw: raw["accounts"].update({f"{KUBEADM_PKI}/sa.key": "b"}), "sa.key"),
        (lambda raw: raw["accounts"].pop(f"{KUBEADM_PKI}/sa.pub"), "sa.pub"),
    ],
)
def test_an_unfit_key_is_found(change: Change, words: str) -> None:
    found = unfit_keys(keys(change), EXPECTED)
    assert words in str(found[0])


def test_a_machine_without_openssl_tells_nothing_of_the_private_key() -> None:
    assert unfit_keys(keys(lambda raw: raw["accounts"].pop(f"{KUBEADM_PKI}/sa.key")), EXPECTED) == []


def copied(source: str, target: str) -> Change:
    def change(raw: Json) -> None:
        raw["kubeconfigs"][f"{CONF}/{target}"] = raw["kubeconfigs"][f"{CONF}/{source}"]

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (copied("super-admin.conf", "extra.conf"), "extra.conf: expected no such file"),
        (copied("super-admin.conf", "controller-manager.conf"), "saw 'CN=kubernetes-super-admin,O=system:masters'"),
        (copied("kubelet.conf", "scheduler.conf"), "saw 'no certificate in it'"),
        (lambda raw: raw["kubeconfigs"][f"{CONF}/admin.conf"].update(authority="another"), "another CA, or none"),
        (
            lambda raw: raw["kubeconfigs"][f"{CONF}/admin.conf"].update(server="https://192.0.2.1:6443"),
            "saw https://192.0.2.1",
        ),
        (lambda raw: raw["kubeconfigs"][f"{CONF}/admin.conf"].update(certificate="none"), "no certificate in it"),
        (lambda raw: raw["kubeconfigs"].clear(), "kubelet's kubeconfig"),
    ],
)
def test_a_strange_kubeconfig_is_found(change: Change, words: str) -> None:
    (found,) = strange_kubeconfigs(keys(change), EXPECTED)
    assert words in str(found)


def test_the_api_server_of_the_machine_itself_is_as_good() -> None:
    def change(raw: Json) -> None:
        raw["kubeconfigs"][f"{CONF}/scheduler.conf"]["server"] = "https://10.222.1.2:6443"

    assert strange_kubeconfigs(keys(change), EXPECTED) == []


def test_of_a_product_that_says_nothing_only_pairs_are_judged() -> None:
    unsaid = guests.expected(leaves=foreign.UNSAID)
    wrong = keys(lambda raw: raw["pairs"].update({"/x.crt": "key values mismatch"}))
    assert [isinstance(one, Unjudged) for one in unfit_keys(wrong, unsaid)] == [False, True]
    (found,) = strange_kubeconfigs(keys(), unsaid)
    assert isinstance(found, Unjudged)


BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
SSL = "/etc/kubernetes/ssl"


def certificate(path: str, hours: int) -> Certificate:
    end = BEGAN + timedelta(hours=hours)
    return Certificate(path, "CN=one", BEGAN - timedelta(minutes=5), end, ())


def validities(**hours: int) -> tuple[dict[str, NodeFacts], dict[str, MachineKeys]]:
    """Return the certificates of a control plane, some of them valid for other hours."""
    lasts = {"ca": 43800, "server": 4392, "admin": 4392, "kubelet": 8760, **hours}
    files = (certificate(f"{SSL}/ca.crt", lasts["ca"]), certificate(f"{SSL}/etcd/server.crt", lasts["server"]))
    kubelet = certificate("/var/lib/kubelet/pki/kubelet-client-current.pem", lasts["kubelet"])
    configs = {
        path: Kubeconfig("", "", certificate(path, lasts[name]))
        for name, path in (("admin", "/etc/kubernetes/admin.conf"), ("kubelet", "/etc/kubernetes/kubelet.conf"))
    }
    facts = {"cp-0": replace(guests.facts()["cp-0"], certificates=(*files, kubelet))}
    return facts, {"cp-0": MachineKeys({}, {}, configs, "", {})}


def test_certificates_of_the_time_asked_for_pass() -> None:
    assert other_validity(*validities(), customised.expected()) == []
    assert [one.seen for one in other_validity({}, {}, customised.expected())] == ["none"]


@pytest.mark.parametrize(
    ("name", "hours", "words"),
    [
        ("ca", 87600, "/etc/kubernetes/ssl/ca.crt (CN=one): expected valid for 43800 hours; saw 87600 hours"),
        ("server", 8760, "etcd/server.crt (CN=one): expected valid for 4392 hours; saw 8760 hours"),
        ("server", 4390, "saw 4390 hours"),
        ("admin", 8760, "/etc/kubernetes/admin.conf"),
    ],
)
def test_a_certificate_of_another_time_is_found(name: str, hours: int, words: str) -> None:
    (found,) = other_validity(*validities(**{name: hours}), customised.expected())
    assert words in str(found)


def test_a_machine_without_certificates_is_found() -> None:
    facts = {"cp-0": replace(guests.facts()["cp-0"], certificates=())}
    (found,) = other_validity(facts, {}, customised.expected())
    assert str(found) == f"cp-0 {SSL}: expected certificates; saw none"


def files(*paths: str) -> MachineFiles:
    """Return the recorded files of a machine, with these and without those of kubeadm's usual folder."""
    read = on_disk.files()["cp-0"]
    kept = {path: one for path, one in read.files.items() if not path.startswith("/etc/kubernetes/pki/")}
    return replace(read, files={**kept, **dict.fromkeys(paths, FileRights("file", 0o600, 0, 0, secret=False))})


def test_certificates_in_the_usual_folder_are_found() -> None:
    well = {name: files(f"{SSL}/ca.crt", "/etc/kubernetes/pki/init-done") for name in ("cp-0", "w-0")}
    assert strayed_certificates(well, customised.expected()) == []
    strayed = {**well, "w-0": files(f"{SSL}/ca.crt", "/etc/kubernetes/pki/ca.crt")}
    (found,) = strayed_certificates(strayed, customised.expected())
    assert (
        str(found) == f"w-0 /etc/kubernetes/pki/ca.crt: expected no such file: the cell's are in {SSL}; saw it exists"
    )
    (missing,) = strayed_certificates({**well, "w-0": files()}, customised.expected())
    assert str(missing) == f"w-0 {SSL}/ca.crt: expected the cluster's CA; saw none"
