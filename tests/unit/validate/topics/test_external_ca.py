"""Keys of CAs on machines, certificates of other CAs, and a cluster that signs are found, and nothing else is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.kube import Cluster
from harness.kube.resources import Resource
from harness.validate.topics import external_ca
from harness.validate.topics.external_ca import MachineAuthority, authority_of
from harness.validate.topics.kubeadm import strange_flags
from tests.unit.validate import guests
from tests.unit.validate.changes import replace_flag
from tests.unit.validate.guests import Change, Json

EXTERNAL = {**guests.VARIABLES, "cluster_external_ca": True}
EXPECTED = guests.expected(variables=EXTERNAL)
PKI = "/etc/kubernetes/pki"


class Ca:
    """A CA that signs."""

    def __init__(self, name: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.pem = self.sign(name, self.key)

    def sign(self, name: str, key: Any = None) -> str:
        """Return a certificate for a name."""
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self.name)
            .public_key((key or ec.generate_private_key(ec.SECP256R1())).public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + timedelta(hours=1))
            .sign(self.key, hashes.SHA256())
        )
        return made.public_bytes(serialization.Encoding.PEM).decode()


CAS = {f"{PKI}/{file}": Ca(file) for file in external_ca.AUTHORITIES}
SIGNED = {
    **{f"{PKI}/{file}": f"{PKI}/ca.crt" for file in external_ca.OF_CLUSTER},
    **{f"{PKI}/{file}": f"{PKI}/front-proxy-ca.crt" for file in external_ca.OF_FRONT_PROXY},
    **{f"{PKI}/{file}": f"{PKI}/etcd/ca.crt" for file in (*external_ca.OF_ETCD_CLIENT, *external_ca.OF_ETCD)},
    **{f"/etc/kubernetes/{file}": f"{PKI}/ca.crt" for file in external_ca.CONFS},
    external_ca.KUBELET_PAIR: f"{PKI}/ca.crt",
}
FIRST = CAS[f"{PKI}/ca.crt"].sign(external_ca.FIRST_CONF)
ISSUED = {path: CAS[authority].sign(path) for path, authority in SIGNED.items()}


def raw(name: str) -> Json:
    """Return what a machine prints where all is well."""
    own = ISSUED if name == "cp-0" else {path: ISSUED[path] for path in ISSUED if "kubelet" in path and PKI not in path}
    authorities = {path: ca.pem for path, ca in CAS.items() if name == "cp-0" or path == f"{PKI}/ca.crt"}
    return {"authorities": authorities, "keys": 3, "fits": {}, "issued": dict(own)}


def seen(change: Change = lambda _: None, *, of: str = "cp-0") -> dict[str, MachineAuthority]:
    every = {name: raw(name) for name in ("cp-0", "w-0")}
    change(every[of])
    return {name: authority_of(one) for name, one in every.items()}


def test_only_a_well_guest_passes() -> None:
    for judge in (external_ca.found_keys, external_ca.foreign_certificates, external_ca.strange_authorities):
        assert [str(one) for one in judge(seen(), EXPECTED)] == []
        assert judge({}, EXPECTED)


def test_a_key_is_found_wherever_it_is() -> None:
    (found,) = external_ca.found_keys(seen(lambda one: one["fits"].update({"/root/x": [f"{PKI}/ca.crt"]})), EXPECTED)
    assert "cp-0 /root/x" in str(found)
    assert f"it has the key of {PKI}/ca.crt" in str(found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda one: one.update(keys=0), "w-0: expected private keys in the places"),
        (lambda one: one["authorities"].clear(), f"w-0 {PKI}/ca.crt: expected the certificate of a CA; saw none"),
        (lambda one: one["authorities"].update({f"{PKI}/ca.crt": "no PEM"}), f"w-0 {PKI}/ca.crt"),
    ],
)
def test_a_machine_that_was_not_looked_at_does_not_pass(change: Change, words: str) -> None:
    (found,) = external_ca.found_keys(seen(change, of="w-0"), EXPECTED)
    assert words in str(found)


@pytest.mark.parametrize("path", sorted(SIGNED))
def test_a_certificate_of_another_ca_and_a_missing_one_are_found(path: str) -> None:
    stranger = Ca(SIGNED[path].removeprefix(f"{PKI}/")).sign(path)  # with the name of ours
    (strange,) = external_ca.foreign_certificates(seen(lambda one: one["issued"].update({path: stranger})), EXPECTED)
    assert f"cp-0 {path}: expected a certificate that {SIGNED[path]} has signed" in str(strange)
    (gone,) = external_ca.foreign_certificates(seen(lambda one: one["issued"].pop(path)), EXPECTED)
    assert f"cp-0 {path}: expected a certificate; saw none" in str(gone)


def test_a_worker_with_another_ca_is_found() -> None:
    other = Ca("ca.crt").pem
    (found,) = external_ca.strange_authorities(
        seen(lambda one: one["authorities"].update({f"{PKI}/ca.crt": other}), of="w-0"), EXPECTED
    )
    assert f"w-0 {PKI}/ca.crt: expected the CA of cp-0" in str(found)


class Requests(Cluster):
    """An API that keeps one request, and may sign it or forget its approval."""

    def __init__(self, *, signs: bool = False, forgets: bool = False) -> None:
        super().__init__(guests.NOWHERE)
        self.signs, self.forgets = signs, forgets
        self.there: Json | None = None

    def create(self, resource: Resource, body: Json, *, dry_run: bool = False) -> Json:
        self.there = body
        return body

    def replace(self, resource: Resource, body: Json, *, subresource: str | None = None) -> Json:
        assert subresource == "approval"
        self.there = {**body, **({"status": {}} if self.forgets else {})}
        if self.signs:
            self.there["status"]["certificate"] = "signed"
        return self.there

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json | None:
        return self.there

    def delete(self, resource: Resource, name: str, *_: Any, **__: Any) -> bool:
        self.there = None
        return True


@pytest.mark.parametrize(
    ("api", "words"),
    [
        (Requests(), []),
        (Requests(signs=True), ["the cluster signed it"]),
        (Requests(forgets=True), ["expected Approved alone; saw none"]),
    ],
)
def test_a_cluster_that_signs_is_found(api: Requests, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_ca, "SIGNED_SECONDS", 0.05)
    found = [str(one) for one in external_ca.signed_request(api)]
    assert len(found) == len(words)
    assert all(word in one for word, one in zip(words, found, strict=True))
    assert api.there is None


def test_a_controller_manager_must_not_have_a_signers_key() -> None:
    def unsigning(facts: Json) -> None:
        for file in ("crt", "key"):
            flag = f"--cluster-signing-{'cert' if file == 'crt' else file}-file="
            replace_flag("kube-controller-manager", f"{flag}{PKI}/ca.{file}", flag)(facts)

    assert [str(one) for one in strange_flags(guests.facts(unsigning), EXPECTED)] == []
    found = [str(one) for one in strange_flags(guests.facts(), EXPECTED)]
    assert len(found) == 2
    assert f"expected --cluster-signing-key-file=; saw --cluster-signing-key-file={PKI}/ca.key" in found[1]


def test_a_strange_certificate_of_the_first_control_plane_is_found() -> None:
    def judged(pem: str) -> list[str]:
        changed = seen(lambda one: one["issued"].update({external_ca.FIRST_CONF: pem}))
        return [str(one) for one in external_ca.foreign_certificates(changed, EXPECTED)]

    assert judged(FIRST) == []
    (found,) = judged(Ca("ca.crt").sign("x"))
    assert external_ca.FIRST_CONF in found


def test_members_of_etcd_and_control_planes_need_what_they_have() -> None:
    expected = guests.expected(variables=EXTERNAL, groups=(("control_plane", "node"), ("etcd",)))
    wanted = {name: external_ca._wanted(name, PKI, expected) for name in ("cp-0", "w-0")}
    assert f"{PKI}/apiserver-etcd-client.crt" in wanted["cp-0"]
    assert f"{PKI}/etcd/server.crt" not in wanted["cp-0"]
    assert set(wanted["w-0"]) == {f"{PKI}/{name}" for name in (*external_ca.OF_ETCD_CLIENT, *external_ca.OF_ETCD)}
    assert external_ca._authorities("w-0", PKI, expected) == [f"{PKI}/etcd/ca.crt"]
