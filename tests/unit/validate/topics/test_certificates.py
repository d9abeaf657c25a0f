"""Certificates that expire, are of another authority, lie elsewhere or do not fit their keys are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.files import FileRights, Kubeconfig, MachineFiles, MachineKeys, keys_of
from harness.validate.facts.node import Certificate, NodeFacts
from harness.validate.findings import Mismatch, Unjudged, real
from harness.validate.topics.certificates import (
    OTHER_ROLES,
    ROLES,
    Role,
    authority_of,
    bad_certificates,
    foreign_certificates,
    not_renewed,
    other_forms,
    other_roles,
    other_validity,
    strange_kubeconfigs,
    strayed_certificates,
    strayed_secrets,
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
        f"{CONF}/{file}": {
            "server": SERVER,
            "authority": CA,
            "certificate": certificates[f"{CONF}/{file}"],
            "form": form(file),
        }
        for file in files
    }
    kubelets = form("kubelet.conf", joined=name != "cp-0")
    own = {f"{CONF}/kubelet.conf": {"server": SERVER, "authority": CA, "certificate": "", "form": kubelets}}
    return {
        "pairs": {f"{KUBEADM_PKI}/apiserver.crt": "", "/var/lib/kubelet/pki/kubelet.crt": ""},
        "counts": {f"{KUBEADM_PKI}/ca.crt": 1, f"{KUBEADM_PKI}/front-proxy-ca.crt": 1},
        "kubeconfigs": {**made, **own},
        "authority": CA,
        "accounts": {f"{KUBEADM_PKI}/sa.pub": "a", f"{KUBEADM_PKI}/sa.key": "a"} if name == "cp-0" else {},
        "pair": {"link": "/var/lib/kubelet/pki/kubelet-client-2026.pem", "certificate": True, "key": True},
        "secrets": {"files": secrets(name), "whole": True},
    }


USERS = {
    "admin.conf": "kubernetes-admin",
    "super-admin.conf": "kubernetes-super-admin",
    "controller-manager.conf": "system:kube-controller-manager",
    "scheduler.conf": "system:kube-scheduler",
    "kubelet.conf": "system:node:cp-0",
}


def form(file: str, *, joined: bool = False) -> str:
    """Return a kubeconfig of kubeadm's as machines print it; kubelet's as kubelet has written it where it joined."""
    user = USERS[file]
    cluster, context, namespace = "kubernetes", f"{user}@kubernetes", ""
    if joined:
        cluster, context, user, namespace = (
            "default-cluster",
            "default-context",
            "default-auth",
            "    namespace: default\n",
        )
    pair = (
        f"    client-certificate: {KUBELET_CLIENT}\n    client-key: {KUBELET_CLIENT}\n"
        if file == "kubelet.conf"
        else "    client-certificate-data: given\n    client-key-data: given\n"
    )
    return (
        f"apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: given\n    server: {SERVER}\n"
        f"  name: {cluster}\ncontexts:\n- context:\n    cluster: {cluster}\n{namespace}    user: {user}\n"
        f"  name: {context}\ncurrent-context: {context}\nkind: Config\nusers:\n- name: {user}\n  user:\n{pair}"
    )


def secrets(name: str) -> list[list[Any]]:
    """Return the secrets of a machine of the recorded guest: key, kind, permissions, owner, readable, digests."""
    keys = ("ca.key", "sa.key", "etcd/ca.key", "apiserver.key") if name == "cp-0" else ()
    files = [f"{KUBEADM_PKI}/{key}" for key in keys]
    files += ["/var/lib/kubelet/pki/kubelet.key", "/var/lib/kubelet/pki/kubelet-client-2026-11-28-18-08-39.pem"]
    rows: list[list[Any]] = [[path, "key", 0o600, 0, False, [f"{name} {path}"]] for path in files]
    rows += [[f"{CONF}/admin.conf", "kubeconfig", 0o600, 0, False, ["admin"]]] if name == "cp-0" else []
    return [*rows, ["/etc/ssh/ssh_host_ed25519_key", "key", 0o600, 0, False, [f"{name} ssh"]]]


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
NOW = BEGAN + timedelta(minutes=10)
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
    assert other_validity(*validities(), customised.expected(), NOW) == []
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
    (found,) = other_validity(*validities(**{name: hours}), customised.expected(), NOW)
    assert words in str(found)


@pytest.mark.parametrize(
    ("signed", "hours", "good"),
    [(49, 4392, True), (0, 4392, True), (49, 4391, True), (0, 4391, False), (60, 4392, False), (0, 8760, False)],
)
def test_what_begins_with_an_older_ca_ends_in_the_time_asked_for_after_it_was_signed(
    signed: int, hours: int, good: bool
) -> None:
    end = BEGAN + timedelta(hours=signed + hours)
    certificates = (certificate(f"{SSL}/ca.crt", 43800), replace(certificate(f"{SSL}/a.crt", 0), not_after=end))
    facts = {"cp-0": replace(guests.facts()["cp-0"], certificates=certificates)}
    found = other_validity(facts, {}, customised.expected(), BEGAN + timedelta(hours=50))
    assert (found == []) is good


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


NAMES = {"server": x509.oid.ExtendedKeyUsageOID.SERVER_AUTH, "client": x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH}


def made(
    subject: str, usages: tuple[str, ...], names: tuple[str, ...] = (), *, signs: bool = False, issuer: str = ""
) -> str:
    """Return a certificate of somebody, for these usages and names, as PEM; by default it has signed itself."""
    name, now = x509.Name.from_rfc4514_string(subject), datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    by = x509.Name.from_rfc4514_string(issuer) if issuer else name
    builder = x509.CertificateBuilder(by, name, key.public_key(), x509.random_serial_number(), now, now)
    usage = dict.fromkeys(
        ("key_encipherment", "content_commitment", "data_encipherment", "key_agreement", "crl_sign"), False
    )
    bits = x509.KeyUsage(True, **usage, key_cert_sign=signs, encipher_only=False, decipher_only=False)
    builder = builder.add_extension(bits, critical=True)
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage([NAMES[one] for one in usages]), critical=False)
    if names:
        alternative = [
            x509.IPAddress(ip_address(one)) if one[0].isdigit() or ":" in one else x509.DNSName(one) for one in names
        ]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternative), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def roles(path: str, pem: str | None, of: str = "cp-0", **cell: Any) -> list[str]:
    """Return what is wrong when a file holds another certificate, or none."""

    def change(raw: Json) -> None:
        raw["certificates"].pop(path, None)
        raw["certificates"] |= {path: pem} if pem is not None else {}

    return [str(one) for one in other_roles(guests.facts(change, of=of), guests.expected(**cell))]


def whole(path: str) -> str:
    return path if path.startswith("/") else f"{KUBEADM_PKI}/{path}"


def right_names(role: Role, machine: str = "cp-0") -> tuple[str, ...]:
    """Return the names that a certificate of a role has on a machine of the recorded guest."""
    address = EXPECTED.addresses[machine]
    words = {"{address}": address, "{addresses}": address, "{service}": "10.95.0.1", "{local}": "127.0.0.1"}
    filled = (words.get(one, one.replace("{name}", machine).replace("{domain}", "cluster.local")) for one in role.names)
    return tuple(filled)


def right_subject(role: Role, machine: str = "cp-0") -> str:
    name = role.name.replace("{name}", machine)
    name += "1795262881" if name.endswith("@") else ""
    return f"CN={name},O={role.group}" if role.group else f"CN={name}"


EVERY_ROLE = sorted({**ROLES, **OTHER_ROLES}.items())
SHORT = {"serverAuth": "server", "clientAuth": "client"}


def test_a_well_guests_certificates_have_their_roles() -> None:
    assert [str(one) for one in other_roles(guests.facts(), EXPECTED)] == []
    assert other_roles({}, EXPECTED)
    assert isinstance(other_roles(guests.facts(), guests.expected(leaves=foreign.UNSAID))[0], Unjudged)


@pytest.mark.parametrize(("path", "role"), EVERY_ROLE)
def test_each_role_has_its_subject_usages_and_names(path: str, role: Role) -> None:
    file, usages, names = whole(path), tuple(SHORT[one] for one in role.usages), right_names(role)
    signs = role.authority
    assert roles(file, made(right_subject(role), usages, names, signs=signs)) == []
    (name,) = roles(file, made(right_subject(role).replace("CN=", "CN=x-", 1), usages, names, signs=signs))
    assert f"cp-0 {file}: expected CN [" in name
    (group,) = roles(file, made(f"CN={right_subject(role).split(',')[0][3:]},O=x", usages, names, signs=signs))
    assert f"cp-0 {file}: expected O [" in group
    other = ("client",) if usages == ("server",) else ("server",)
    (usage,) = roles(file, made(right_subject(role), other, names, signs=signs))
    assert f"expected extended key usage {sorted(role.usages)!r}" in usage
    (signing,) = roles(file, made(right_subject(role), usages, names, signs=not signs))
    assert "expected key usage [" in signing
    for missing in names:
        (found,) = roles(
            file, made(right_subject(role), usages, tuple(one for one in names if one != missing), signs=signs)
        )
        assert f"missing names []; saw ['{missing}']" in found
    (further,) = roles(file, made(right_subject(role), usages, (*names, "example.com"), signs=signs))
    assert "names besides those []; saw ['example.com']" in further


@pytest.mark.parametrize(("path", "role"), EVERY_ROLE)
def test_cas_of_an_organisation_have_any_names_and_nothing_else_has(path: str, role: Role) -> None:
    theirs = made("CN=clusters,O=organisation", (), signs=True, issuer="CN=organisation")
    assert (roles(whole(path), theirs) == []) is role.authority


@pytest.mark.parametrize("path", [*ROLES])
def test_each_certificate_that_a_machine_must_have_is_missed(path: str) -> None:
    (found,) = roles(whole(path), None)
    assert f"cp-0 {whole(path)}: expected a certificate of" in found


@pytest.mark.parametrize(("minor", "grouped"), [("1.34", True), ("1.35", True), ("1.36", False), ("1.37", False)])
def test_kubelets_know_the_api_server_by_a_group_in_some_minors(minor: str, grouped: bool) -> None:
    path, variables = (
        whole("apiserver-kubelet-client.crt"),
        {**guests.VARIABLES, "cluster_kubernetes_version": f"{minor}.4"},
    )
    with_group = made("CN=kube-apiserver-kubelet-client,O=kubeadm:cluster-admins", ("client",))
    without = made("CN=kube-apiserver-kubelet-client", ("client",))
    assert roles(path, with_group, variables=variables) == []
    assert bool(roles(path, without, variables=variables)) is grouped


@pytest.mark.parametrize(
    ("former", "further", "right"),
    [
        ((), ("10.222.1.9",), False),
        (("cp-1",), ("10.222.1.9",), True),
        (("cp-1",), ("10.222.1.9", "10.222.1.8"), False),
        (("cp-1", "cp-2"), ("10.222.1.9", "10.222.1.8"), True),
        (("cp-1",), ("10.222.1.3",), False),  # of the worker
        (("cp-1",), ("example.com",), False),
        (None, ("10.222.1.9", "10.222.1.8"), True),
    ],
)
def test_addresses_of_control_planes_that_have_left_stay_in_an_api_servers_certificate(
    former: tuple[str, ...] | None, further: tuple[str, ...], right: bool
) -> None:
    path, expected = (
        whole("apiserver.crt"),
        replace(EXPECTED, former_control_planes=None if former is None else frozenset(former)),
    )
    pem = made("CN=kube-apiserver", ("server",), (*right_names(ROLES["apiserver.crt"]), *further))
    found = other_roles(guests.facts(lambda raw: raw["certificates"].update({path: pem})), expected)
    assert (found == []) is right
    etcd = whole("etcd/server.crt")
    pem = made("CN=cp-0", ("server", "client"), (*right_names(ROLES["etcd/server.crt"]), *further))
    assert other_roles(guests.facts(lambda raw: raw["certificates"].update({etcd: pem})), expected) != []


def test_the_cell_may_ask_for_further_names() -> None:
    role = ROLES["apiserver.crt"]
    pem = made("CN=kube-apiserver", ("server",), (*right_names(role), "api.example.com"))
    asked = {**guests.VARIABLES, "cluster_api_extra_sans": ["api.example.com"]}
    assert roles(whole("apiserver.crt"), pem, variables=asked) == []


def forms(file: str, text: str, of: str = "cp-0") -> list[str]:
    def change(raw: Json) -> None:
        raw["kubeconfigs"][f"{CONF}/{file}"]["form"] = text

    return [str(one) for one in other_forms(keys(change, of=of), EXPECTED)]


def test_only_kubeconfigs_of_kubeadms_form_pass() -> None:
    assert [str(one) for one in other_forms(keys(), EXPECTED)] == []
    assert other_forms({}, EXPECTED)


# What may be otherwise in a kubeconfig: what is replaced by what, and where it is said to be.
OTHER_FORMS = (
    ("current-context: ", "current-context: x-", "current-context"),
    ("  name: kubernetes\n", "  name: other\n", "clusters[0].name"),
    ("    cluster: kubernetes", "    cluster: other", "contexts[0].context.cluster"),
    ("    user: ", "    namespace: x\n    user: ", "contexts[0].context.namespace"),
    ("- name: ", "- name: x-", "users[0].name"),
    ("    certificate-authority-data: given\n", "    certificate-authority: /etc/x.crt\n", "certificate-authority"),
    ("    server:", "    insecure-skip-tls-verify: true\n    server:", "clusters[0].cluster.insecure-skip-tls-verify"),
    ("    server:", "    proxy-url: http://x\n    server:", "clusters[0].cluster.proxy-url"),
    ("    server:", "    tls-server-name: x\n    server:", "clusters[0].cluster.tls-server-name"),
    ("  user:\n", "  user:\n    token: given\n", "users[0].user.token"),
    ("  user:\n", "  user:\n    exec: given\n", "users[0].user.exec"),
    ("  user:\n", "  user:\n    as: given\n", "users[0].user.as"),
    ("kind: Config\n", "kind: Config\nextensions: given\n", "extensions"),
)


@pytest.mark.parametrize("file", [*USERS])
@pytest.mark.parametrize(("old", "new", "where"), OTHER_FORMS)
def test_each_part_of_a_kubeconfig_is_kubeadms(file: str, old: str, new: str, where: str) -> None:
    assert old in form(file)
    found = forms(file, form(file).replace(old, new, 1))
    assert found
    assert any(where in one and one.startswith(f"cp-0 {CONF}/{file} ") for one in found)


def test_a_kubelet_whose_certificate_is_not_renewed_is_found() -> None:
    embeds = form("kubelet.conf").replace(f": {KUBELET_CLIENT}", "-data: given")
    assert any(
        "users[0].user.client-certificate: expected /var/lib/kubelet" in one for one in forms("kubelet.conf", embeds)
    )
    for pair, words in (
        ({"link": "", "certificate": True, "key": True}, "saw no link"),
        ({"link": "/root/x.pem", "certificate": True, "key": True}, "saw a link to /root/x.pem"),
        ({"link": "x.pem", "certificate": True, "key": False}, "saw (True, False)"),
    ):
        (found,) = other_forms(keys(lambda raw, new=pair: raw.update(pair=new)), EXPECTED)  # type: ignore[misc]
        assert words in str(found)


def strayed(row: list[Any], of: str = "cp-0", leaves: Any = guests.OURS) -> list[str]:
    seen = keys(lambda raw: raw["secrets"]["files"].append(row), of=of)
    return [str(one) for one in real(strayed_secrets(seen, guests.facts(), guests.expected(leaves=leaves)))]


CA_KEY = f"cp-0 {KUBEADM_PKI}/ca.key"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (["/srv/x", "key", 0o600, 0, False, [CA_KEY]], f"no copy of the cluster's secrets; saw a copy of {CA_KEY}"),
        ([f"{KUBEADM_PKI}/old/ca.key", "key", 0o600, 0, False, [CA_KEY]], "saw a copy of"),
        ([f"{KUBEADM_PKI}/ca.key.bak", "key", 0o600, 0, False, [CA_KEY]], "saw a copy of"),
        (["/home/me/x", "kubeconfig", 0o600, 1000, False, []], "saw a kubeconfig with credentials"),
        (["/var/backups/1", "etcd", 0o600, 0, False, []], "saw etcd's data"),
        (["/opt/x.yml", "encryption", 0o600, 0, False, []], "saw the keys of Secrets"),
        (
            ["/etc/tls/x", "key", 0o644, 0, True, ["other"]],
            "a private key that only its owner reads; saw permissions 0644",
        ),
    ],
)
def test_secrets_where_nobody_needs_them_are_found(row: list[Any], words: str) -> None:
    assert any(words in one and one.startswith(f"cp-0 {row[0]}: ") for one in strayed(row))


@pytest.mark.parametrize(
    "row",
    [
        ["/root/.kube/config", "kubeconfig", 0o600, 0, False, ["admin"]],
        ["/var/lib/etcd/member/snap/db", "etcd", 0o600, 0, False, []],
        ["/etc/ssl/private/web.key", "key", 0o640, 0, False, ["web"]],
        ["/etc/kubernetes/tmp/kubeadm-backup/db", "etcd", 0o600, 0, False, []],
        ["/etc/machine/token", "token", 0o600, 0, False, []],
    ],
)
def test_secrets_that_machines_need_are_no_finding(row: list[Any]) -> None:
    assert strayed(row) == []


def test_a_copy_on_another_machine_is_found() -> None:
    assert any(f"a copy of {CA_KEY}" in one for one in strayed(["/opt/x", "key", 0o600, 0, False, [CA_KEY]], of="w-0"))


def test_of_other_products_only_what_others_read_is_found() -> None:
    row = ["/srv/x", "key", 0o600, 0, False, [CA_KEY]]
    assert strayed(row, leaves=foreign.UNSAID) == []
    assert strayed([*row[:2], 0o644, 0, True, []], leaves=foreign.UNSAID)


def test_a_search_without_an_end_is_told() -> None:
    (found,) = strayed_secrets(keys(lambda raw: raw["secrets"].update(whole=False)), guests.facts(), EXPECTED)
    assert "a search of its files" in str(found)


def renewed(old: str, new: str) -> list[Mismatch]:
    """Return what is wrong after a phase in which the server certificate of etcd was one and is another."""
    seen = guests.facts()["cp-0"]
    path = "/etc/kubernetes/pki/etcd/server.crt"

    def of(text: str) -> dict[str, NodeFacts]:
        return {"cp-0": replace(seen, certificates=(replace(certificate(path, 1), pem=text),))}

    return not_renewed(of(old), of(new), guests.expected())


def test_a_certificate_that_no_phase_has_renewed_is_found() -> None:
    assert renewed("a", "b") == []
    assert [one.where for one in renewed("a", "a")] == ["cp-0 /etc/kubernetes/pki/etcd/server.crt"]
    bare = {"cp-0": replace(guests.facts()["cp-0"], certificates=())}
    assert [one.seen for one in not_renewed(bare, bare, guests.expected())] == ["none"]
