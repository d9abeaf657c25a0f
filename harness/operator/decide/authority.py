"""The CAs of a cluster and the key of its ServiceAccounts: as they are made, and what is wrong with those it has; pure.

Names and keys of the Secrets are Cluster API's (https://cluster-api.sigs.k8s.io/tasks/certs/using-custom-certificates).
What kubeadm takes for a CA: https://kubernetes.io/docs/tasks/administer-cluster/kubeadm/kubeadm-certs
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from harness.kube import certificates
from harness.kube.certificates import pem_of, signed_by
from harness.kube.objects import stamp
from harness.operator.api.cluster import AuthorityPart, AuthorityState
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.resources import ETCD_CLUSTER
from harness.operator.api.rules import EXTERNAL_CA
from harness.operator.decide.due import Situation, Wait, WaitReason

CERTIFICATE, KEY = "tls.crt", "tls.key"
YEARS = timedelta(days=3650)  # as kubeadm's own CAs
SOON = timedelta(days=90)  # policy: a CA is replaced on all machines and in all kubeconfigs, which people have to plan
EXPIRES_SOON, VALID = "ExpiresSoon", "Valid"
LEAST_BITS = 2048  # of an RSA key, as kubeadm makes them


@dataclass(frozen=True)
class Authority:
    """One of the four. stem: of its files in kubeadm's folder.  common_name: of the CA, "" for a key without one.

    field: of `spec.authority`, which names a Secret of one's own.
    """

    name: str
    stem: str
    common_name: str
    field: str

    @property
    def public(self) -> str:
        """Return the file of the certificate, or of the public key."""
        return f"{self.stem}.crt" if self.common_name else f"{self.stem}.pub"

    @property
    def private(self) -> str:
        """Return the file of the private key."""
        return f"{self.stem}.key"


AUTHORITIES = (
    Authority("ca", "ca", "kubernetes", "caSecretRef"),
    Authority("etcd", "etcd/ca", "etcd-ca", "etcdSecretRef"),
    Authority("proxy", "front-proxy-ca", "front-proxy-ca", "proxySecretRef"),
    Authority("sa", "sa", "", "serviceAccountSecretRef"),
)


def authorities_of(cd: ClusterDeployment) -> tuple[Authority, ...]:
    """Return those that a cluster has: an EtcdCluster that of etcd alone, and who names one all others."""
    if cd.kind == ETCD_CLUSTER.kind:
        return tuple(authority for authority in AUTHORITIES if authority.name == "etcd")
    return tuple(authority for authority in AUTHORITIES if authority.name != "etcd" or cd.spec.etcd.cluster_ref is None)


class AuthorityRefused(ValueError):
    """What a Secret has cannot be used. reason: one word for programs."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def secret_of(cd: ClusterDeployment, authority: Authority) -> tuple[str, bool]:
    """Return the name of an authority's Secret, and whether the object names it."""
    fields = cd.spec.authority.model_dump(by_alias=True)
    named = fields[authority.field]
    return (named["name"], True) if named is not None else (f"{cd.metadata.name}-{authority.name}", False)


def is_wanted(cd: ClusterDeployment) -> bool:
    """Tell whether a cluster is begun with CAs of the operator's: adopted ones have some, other playbooks make some."""
    return not cd.spec.adopt and cd.spec.playbooks.product is None


def outlives(cd: ClusterDeployment) -> bool:
    """Tell whether the operator's Secrets stay when their object goes.

    Machines that are left have a cluster that goes on, and no key of its CAs. Machines that the operator made go, too.
    """
    left = cd.spec.deletion.machines == "Leave" and not cd.spec.authority.keys_on_machines
    return left and any(machine_set.machines.kubevirt is None for machine_set in cd.spec.machine_sets)


def lifetime_of(cd: ClusterDeployment) -> timedelta:
    """Return for how long CAs are valid that are made."""
    hours = cd.spec.certificates.ca_validity
    return timedelta(hours=int(hours.partition("h")[0])) if hours is not None else YEARS


def made(authority: Authority, now: datetime, lifetime: timedelta) -> dict[str, bytes]:
    """Return a new CA, or a new pair of keys, as a Secret has it."""
    if authority.common_name:
        certificate, key = certificates.authority(authority.common_name, now, lifetime, kubeadm=True)
        return {CERTIFICATE: pem_of(certificate), KEY: pem_of(key)}
    key = certificates.new_key()
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return {CERTIFICATE: key.public_key().public_bytes(*form), KEY: pem_of(key)}


def judged(authority: Authority, secret: str, data: Mapping[str, bytes], now: datetime) -> AuthorityPart:
    """Return what a Secret has.

    Raises:
        AuthorityRefused: machines cannot use it.
    """
    where = f"Secret {secret}"
    for key in (CERTIFICATE, KEY):
        if not data.get(key):
            raise AuthorityRefused("KeyMissing", f"{where} lacks {key}: add it, as PEM")
    private = private_key(where, data[KEY])
    if not authority.common_name:
        public, expires = _public_key(where, data[CERTIFICATE]), None
    else:
        certificate = _certificate(where, data[CERTIFICATE], now)
        public, expires = certificate.public_key(), certificate.not_valid_after_utc
    if plain_key(public) != plain_key(private.public_key()):
        what = f"the certificate in {CERTIFICATE}" if authority.common_name else f"the public key in {CERTIFICATE}"
        raise AuthorityRefused(
            "KeyDoesNotMatch", f"{where}: {KEY} is not the key of {what}: put both of one pair there"
        )
    pin = hashlib.sha256(plain_key(public)).hexdigest()
    return AuthorityPart(
        name=authority.name, secret=secret, public_key=f"sha256:{pin}", expires=stamp(expires) if expires else None
    )


def signer_of(secret: str, data: Mapping[str, bytes]) -> tuple[x509.Certificate, certificates.SigningKey]:
    """Return the CA of a Secret that was judged, and its key."""
    return x509.load_pem_x509_certificates(data[CERTIFICATE])[0], private_key(f"Secret {secret}", data[KEY])


def private_key(where: str, pem: bytes) -> certificates.SigningKey:
    """Return a key that kubeadm takes.

    Args:
        where: the Secret that has it, for the error.

    Raises:
        AuthorityRefused: it is not one, or of another kind.
    """
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        remedy = "put an RSA or ECDSA key there, without a password"
        raise AuthorityRefused("NotAKey", f"{where}: {KEY} is not a private key as PEM: {remedy}") from error
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size >= LEAST_BITS:
        return key
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key
    remedy = f"use ECDSA, or RSA of {LEAST_BITS} bits or more"
    raise AuthorityRefused("UnsupportedKey", f"{where}: {KEY} is of a kind that kubeadm does not take: {remedy}")


def _public_key(where: str, pem: bytes) -> PublicKeyTypes:
    try:
        return serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        remedy = f"put there what `openssl pkey -pubout` makes of {KEY}"
        raise AuthorityRefused("NotAKey", f"{where}: {CERTIFICATE} is not a public key as PEM: {remedy}") from error


def _certificate(where: str, pem: bytes, now: datetime) -> x509.Certificate:
    """Return the CA of a chain, which is its first certificate; those after it have issued the one before them."""
    try:
        chain = x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        message = f"{where}: {CERTIFICATE} is not a certificate as PEM: put the CA's there"
        raise AuthorityRefused("NotACertificate", message) from error
    for certificate in chain:
        name = certificate.subject.rfc4514_string()
        if not _signs(certificate):
            remedy = "use one with CA:TRUE and, where it has key usages, with that to sign certificates"
            raise AuthorityRefused("NotACA", f"{where}: the certificate {name} is not a CA: {remedy}")
        if certificate.not_valid_after_utc <= now:
            ended = stamp(certificate.not_valid_after_utc)
            raise AuthorityRefused("Expired", f"{where}: the CA {name} has expired at {ended}: use a newer one")
        if certificate.not_valid_before_utc > now:
            begins = stamp(certificate.not_valid_before_utc)
            raise AuthorityRefused("NotYetValid", f"{where}: the CA {name} is valid from {begins} on: use an older one")
    for lower, upper in pairwise(chain):
        if not signed_by(lower, upper):
            names = f"{upper.subject.rfc4514_string()} has not issued {lower.subject.rfc4514_string()}"
            message = f"{where}: {names}: begin with the CA itself, then the one that issued it, and so on"
            raise AuthorityRefused("BrokenChain", message)
    return chain[0]


def _signs(certificate: x509.Certificate) -> bool:
    try:
        if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
        return certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound as missing:
        return missing.oid == x509.KeyUsage.oid


def plain_key(key: PublicKeyTypes) -> bytes:
    """Return a public key as bytes that are the same for the same key."""
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return key.public_bytes(*form)


def unchanged(part: AuthorityPart, before: AuthorityState | None) -> AuthorityPart:
    """Return a part that is still the one that the cluster was begun with.

    Raises:
        AuthorityRefused: it has another key.
    """
    known = {known_part.name: known_part for known_part in before.parts} if before is not None else {}
    if part.name in known and known[part.name].public_key != part.public_key:
        message = f"Secret {part.secret} has another key ({part.public_key}) than the cluster: put that back, which is"
        raise AuthorityRefused("Changed", f"{message} {known[part.name].public_key}")
    return part


def state_of(
    parts: list[AuthorityPart], refused: AuthorityRefused | None, before: AuthorityState | None, now: datetime
) -> AuthorityState:
    """Return what stands in the Cluster's status.

    Args:
        parts: those that can be used.  refused: what is wrong with the first other one; None where all can be used.
        before: what stood there.
    """
    if refused is not None:
        known = before.parts if before is not None else ()
        return AuthorityState(usable=False, reason=refused.reason, message=str(refused), parts=known)
    ends = [(datetime.fromisoformat(part.expires), part) for part in parts if part.expires is not None]
    soon = [f"{part.name} (Secret {part.secret}) at {part.expires}" for end, part in ends if end - now < SOON]
    if soon:
        message = f"CAs expire within {SOON.days} days: {', '.join(soon)}: plan their rotation"
        return AuthorityState(usable=True, reason=EXPIRES_SOON, message=message, parts=tuple(parts))
    return AuthorityState(usable=True, reason=VALID, message="", parts=tuple(parts))


def authority_missing(situation: Situation) -> Wait | None:
    """Wait for the CAs that a cluster is begun with."""
    state = situation.observed.authority
    if state is None or state.usable or not is_wanted(situation.desired.wish):
        return None
    return Wait(WaitReason.WAITING_FOR_AUTHORITY, state.message)


def signs_outside(variables: Mapping[str, Any]) -> bool:
    """Tell whether the keys of CAs are on no machine of a cluster that has, or is to have, these variables."""
    return variables.get(EXTERNAL_CA) is True


KEYS_LOST = (
    "spec.authority.keysOnMachines is false, and machines of this cluster made its CAs, whose keys"
    " the operator does not have: set it to true"
)


def signer_missing(situation: Situation) -> Wait | None:
    """Wait for the CAs where the executor signs, or is to give machines the keys that it has signed with."""
    applied, state = situation.observed.applied, situation.observed.authority
    before = applied is not None and signs_outside(applied.variables)
    if not before and not signs_outside(situation.desired.variables):
        return None
    if state is not None and state.usable:
        return None
    return Wait(WaitReason.WAITING_FOR_AUTHORITY, state.message if state is not None else KEYS_LOST)


def files_of(state: AuthorityState | None) -> dict[str, tuple[str, str]]:
    """Return the files of kubeadm's folder, each with the Secret and the key that it comes from."""
    secrets = {part.name: part.secret for part in state.parts} if state is not None and state.usable else {}
    return {
        file: (secrets[authority.name], key)
        for authority in AUTHORITIES
        if authority.name in secrets
        for file, key in ((authority.public, CERTIFICATE), (authority.private, KEY))
    }
