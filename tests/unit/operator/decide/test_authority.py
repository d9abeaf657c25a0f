"""CAs that a cluster is begun with: those that are made can be used, and what cannot is refused with its reason."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from harness.kube import certificates
from harness.kube.certificates import pem_of
from harness.operator.api.cluster import AuthorityState
from harness.operator.decide.authority import (
    AUTHORITIES,
    SOON,
    AuthorityRefused,
    files_of,
    judged,
    lifetime_of,
    made,
    state_of,
    unchanged,
)
from harness.operator.decide.observed import Observed
from harness.operator.decide.operations import next_operation
from tests.unit.operator.api.objects import defaulted, deployment
from tests.unit.operator.decide.wishes import NOW, operation, wait, wish

CA, ETCD, PROXY, SA = AUTHORITIES
YEAR = timedelta(days=365)
GOOD = {one.name: made(one, NOW, YEAR) for one in AUTHORITIES}


@cache
def signed() -> dict[str, bytes]:
    """Return certificates of all kinds, and their keys."""
    root = certificates.authority("root", NOW, YEAR)
    lower = _below(root)
    leaf = certificates.leaf(root, "leaf", now=NOW, lifetime=YEAR, client=True)
    bare = _named("bare").sign(root[1], hashes.SHA256())
    other = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 - it is to be refused
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    return {
        "root": pem_of(root[0]),
        "root key": pem_of(root[1]),
        "lower": pem_of(lower[0]),
        "lower key": pem_of(lower[1]),
        "leaf": pem_of(leaf[0]),
        "leaf key": pem_of(leaf[1]),
        "bare": pem_of(bare),
        "short": other.private_bytes(*form, serialization.NoEncryption()),
        "edwards": ed25519.Ed25519PrivateKey.generate().private_bytes(*form, serialization.NoEncryption()),
        "locked": root[1].private_bytes(*form, serialization.BestAvailableEncryption(b"secret")),
    }


def _named(name: str) -> x509.CertificateBuilder:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")]))
        .public_key(certificates.new_key().public_key())
        .serial_number(1)
        .not_valid_before(NOW - YEAR)
        .not_valid_after(NOW + YEAR)
    )


def _below(root: certificates.Pair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = certificates.new_key()
    builder = _named("lower")
    builder._public_key = key.public_key()
    ca = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return ca.sign(root[1], hashes.SHA256()), key


@pytest.mark.parametrize("authority", [CA, ETCD, PROXY])
def test_a_ca_is_made_as_kubeadm_makes_it(authority: Any) -> None:
    """The checks of files expect kubeadm's own, whoever has made them."""
    certificate = x509.load_pem_x509_certificate(GOOD[authority.name]["tls.crt"])
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert (usage.digital_signature, usage.key_cert_sign, usage.crl_sign) == (True, True, False)
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length is None
    assert names.get_values_for_type(x509.DNSName) == [authority.common_name]


@pytest.mark.parametrize("authority", AUTHORITIES, ids=lambda one: one.name)
def test_what_is_made_can_be_used_and_has_a_name_of_its_own(authority: Any) -> None:
    part = judged(authority, "guest-x", GOOD[authority.name], NOW)
    assert (part.name, part.secret) == (authority.name, "guest-x")
    assert part.public_key.startswith("sha256:")
    assert (part.expires is None) == (authority is SA)
    assert made(authority, NOW, YEAR) != GOOD[authority.name]


# what the Secret has, for which authority -> the reason, and words of what is said
REFUSED: dict[str, tuple[Any, dict[str, bytes | str], str, str]] = {
    "nothing": (CA, {}, "KeyMissing", "Secret s lacks tls.crt"),
    "no key": (CA, {"tls.crt": "root"}, "KeyMissing", "Secret s lacks tls.key"),
    "a certificate that is none": (CA, {"tls.crt": b"x", "tls.key": "root key"}, "NotACertificate", "not a certifica"),
    "a key that is none": (CA, {"tls.crt": "root", "tls.key": b"x"}, "NotAKey", "without a password"),
    "a key with a password": (CA, {"tls.crt": "root", "tls.key": "locked"}, "NotAKey", "without a password"),
    "a key of a kind": (CA, {"tls.crt": "root", "tls.key": "edwards"}, "UnsupportedKey", "use ECDSA, or RSA of 2048"),
    "a short key": (CA, {"tls.crt": "root", "tls.key": "short"}, "UnsupportedKey", "use ECDSA, or RSA of 2048"),
    "another's key": (ETCD, {"tls.crt": "root", "tls.key": "leaf key"}, "KeyDoesNotMatch", "put both of one pair"),
    "a leaf": (PROXY, {"tls.crt": "leaf", "tls.key": "leaf key"}, "NotACA", "CN=leaf is not a CA"),
    "no constraints": (CA, {"tls.crt": "bare", "tls.key": "root key"}, "NotACA", "CN=bare is not a CA"),
    "a chain upside down": (CA, {"tls.crt": "root+lower", "tls.key": "root key"}, "BrokenChain", "has not issued"),
    "a chain with a leaf": (CA, {"tls.crt": "root+leaf", "tls.key": "root key"}, "NotACA", "CN=leaf is not a CA"),
    "a certificate for tokens": (SA, {"tls.crt": "root", "tls.key": "root key"}, "NotAKey", "openssl pkey -pubout"),
}


def _content(told: dict[str, bytes | str]) -> dict[str, bytes]:
    known = signed()
    return {
        key: b"".join(known[name] for name in value.split("+")) if isinstance(value, str) else value
        for key, value in told.items()
    }


@pytest.mark.parametrize("case", REFUSED)
def test_what_machines_cannot_use_is_refused_with_its_secret_and_a_remedy(case: str) -> None:
    authority, told, reason, words = REFUSED[case]
    with pytest.raises(AuthorityRefused, match=r"^Secret s") as refused:
        judged(authority, "s", _content(told), NOW)
    assert refused.value.reason == reason
    assert words in str(refused.value)


@pytest.mark.parametrize(("moment", "reason"), [(NOW + YEAR, "Expired"), (NOW - YEAR, "NotYetValid")])
def test_a_ca_counts_in_its_time_alone(moment: datetime, reason: str) -> None:
    with pytest.raises(AuthorityRefused) as refused:
        judged(CA, "s", GOOD["ca"], moment)
    assert refused.value.reason == reason


def test_an_intermediate_ca_comes_with_those_above_it() -> None:
    chain = {"tls.crt": signed()["lower"] + signed()["root"], "tls.key": signed()["lower key"]}
    assert judged(CA, "s", chain, NOW).name == "ca"


def test_a_cluster_keeps_the_keys_that_it_was_begun_with() -> None:
    part = judged(CA, "s", GOOD["ca"], NOW)
    before = state_of([part], None, None, NOW)
    assert unchanged(part, before) is part
    assert unchanged(part, None) is part
    with pytest.raises(AuthorityRefused, match="put that back, which is sha256:") as refused:
        unchanged(judged(CA, "s", made(CA, NOW, YEAR), NOW), before)
    assert refused.value.reason == "Changed"


def test_what_ends_soon_is_told_and_what_is_refused_forgets_nothing() -> None:
    parts = [judged(one, f"guest-{one.name}", GOOD[one.name], NOW) for one in AUTHORITIES]
    good = state_of(parts, None, None, NOW)
    assert (good.usable, good.reason, good.message) == (True, "Valid", "")
    soon = state_of(parts, None, good, NOW + YEAR - SOON + timedelta(hours=1))
    assert (soon.usable, soon.reason) == (True, "ExpiresSoon")
    assert "ca (Secret guest-ca) at 2027-11-23" in soon.message
    refused = state_of(parts[:1], AuthorityRefused("Expired", "no"), good, NOW)
    assert (refused.usable, refused.reason, refused.parts) == (False, "Expired", good.parts)


def test_machines_get_kubeadms_files() -> None:
    parts = [judged(one, f"guest-{one.name}", GOOD[one.name], NOW) for one in AUTHORITIES]
    found = files_of(state_of(parts, None, None, NOW))
    assert {file: secret for file, (secret, _) in found.items()} == {
        **dict.fromkeys(("ca.crt", "ca.key"), "guest-ca"),
        **dict.fromkeys(("etcd/ca.crt", "etcd/ca.key"), "guest-etcd"),
        **dict.fromkeys(("front-proxy-ca.crt", "front-proxy-ca.key"), "guest-proxy"),
        **dict.fromkeys(("sa.pub", "sa.key"), "guest-sa"),
    }
    assert {file.endswith(".key"): key for file, (_, key) in found.items()} == {True: "tls.key", False: "tls.crt"}
    assert files_of(None) == files_of(AuthorityState()) == {}


@pytest.mark.parametrize(("given", "days"), [({}, 3650), ({"caValidity": "48h"}, 2)])
def test_cas_are_valid_as_long_as_the_variable_says(given: dict[str, str], days: int) -> None:
    assert lifetime_of(defaulted(deployment(certificates=given))) == timedelta(days=days)


def test_a_deployment_waits_for_its_cas() -> None:
    lacking = AuthorityState(reason="Expired", message="Secret s: the CA has expired")
    waits = wait(next_operation(wish(), Observed(NOW, authority=lacking)))
    assert (waits.reason, waits.message) == ("WaitingForAuthority", lacking.message)
    assert operation(next_operation(wish(), Observed(NOW, authority=AuthorityState(usable=True)))).operation == "deploy"
    adopted = wish(adopt=True)
    assert operation(next_operation(adopted, Observed(NOW, authority=AuthorityState()))).operation == "adopt"
