"""External CA: the keys of the cluster's CAs are nowhere in it, and they have signed what it works with."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.kube import Cluster
from harness.kube.resources import CSR
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import Json
from harness.validate.facts.node import Certificate, certificate_of
from harness.validate.findings import Mismatch, on_every


@dataclass(frozen=True)
class MachineAuthority:
    """One machine.

    authorities: the CAs' certificates, by path.  keys: how many private keys were found in files.
    fits: paths of the CAs whose key a file holds, by the file.
    issued: certificates in files of the cluster, in kubeconfigs and of the kubelet, by path.
    unread: certificates that cannot be read, and why, by path.
    """

    authorities: Mapping[str, Certificate]
    keys: int
    fits: Mapping[str, tuple[str, ...]]
    issued: Mapping[str, Certificate]
    unread: Mapping[str, str]


def authority_of(raw: Mapping[str, Any]) -> MachineAuthority:
    """Read what machine/external_ca.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    read: dict[str, dict[str, Certificate]] = {"authorities": {}, "issued": {}}
    unread: dict[str, str] = {}
    for kind, there in read.items():
        for path, pem in raw[kind].items():
            try:
                there[path] = certificate_of(path, pem)
            except ValueError as error:  # a finding, and not the machine's fault
                unread[path] = str(error)
    fits = {path: tuple(names) for path, names in raw["fits"].items()}
    return MachineAuthority(read["authorities"], int(raw["keys"]), fits, read["issued"], unread)


Seen = Mapping[str, MachineAuthority]
AUTHORITIES = ("ca.crt", "front-proxy-ca.crt", "etcd/ca.crt")
OF_FRONT_PROXY = ("front-proxy-client.crt",)
OF_ETCD_CLIENT = ("apiserver-etcd-client.crt",)
OF_ETCD = ("etcd/server.crt", "etcd/peer.crt", "etcd/healthcheck-client.crt")
OF_CLUSTER = ("apiserver.crt", "apiserver-kubelet-client.crt")
CONFS = ("admin.conf", "controller-manager.conf", "scheduler.conf", "kubelet.conf")
FIRST_CONF = "/etc/kubernetes/super-admin.conf"  # of the machine that the cluster began with
KUBELET_CONF, KUBELET_PAIR = "/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/pki/kubelet-client-current.pem"
REQUEST = "vmatrix-external-ca"
SIGNER = "kubernetes.io/kube-apiserver-client"
SIGNED_SECONDS = 20.0  # a controller manager signs within a second, one that has just started after its lease of 15


def found_keys(machines: Seen, expected: ExpectedGuest) -> list[Mismatch]:
    """Return files of machines that hold the key of a CA."""
    folder = _folder(expected)

    def judge(name: str, machine: MachineAuthority) -> Iterator[Mismatch]:
        for path in _authorities(name, folder, expected):
            if path not in machine.authorities:
                yield Mismatch(f"{name} {path}", "the certificate of a CA", machine.unread.get(path, "none"))
        if not machine.keys:  # every machine has its kubelet's
            yield Mismatch(name, "private keys in the places that are looked at", "none")
        for path, authorities in sorted(machine.fits.items()):
            yield Mismatch(f"{name} {path}", "no key of a CA", f"it has the key of {', '.join(authorities)}")

    return on_every(expected.machines, machines, judge)


def foreign_certificates(machines: Seen, expected: ExpectedGuest) -> list[Mismatch]:
    """Return certificates that are missing, or that the CA they belong to has not signed."""
    folder = _folder(expected)

    def judge(name: str, machine: MachineAuthority) -> Iterator[Mismatch]:
        authorities = _wanted(name, folder, expected)
        if FIRST_CONF in machine.issued:
            authorities[FIRST_CONF] = f"{folder}/{AUTHORITIES[0]}"
        for path, authority in sorted(authorities.items()):
            certificate, signer = machine.issued.get(path), machine.authorities.get(authority)
            if certificate is None or signer is None:
                missing = path if certificate is None else authority
                yield Mismatch(f"{name} {missing}", "a certificate", machine.unread.get(missing, "none"))
            elif not certificate.signed_by(signer):
                yield Mismatch(f"{name} {path}", f"a certificate that {authority} has signed", certificate.subject)

    return on_every(expected.machines, machines, judge)


def strange_authorities(machines: Seen, expected: ExpectedGuest) -> list[Mismatch]:
    """Return machines whose cluster's CA is another one than the first control plane's."""
    path, first = f"{_folder(expected)}/ca.crt", machines.get(expected.control_plane[0])
    cluster_ca = first.authorities.get(path) if first is not None else None

    def judge(name: str, machine: MachineAuthority) -> Iterator[Mismatch]:
        there = machine.authorities.get(path)
        if there is None or cluster_ca is None or there.pem != cluster_ca.pem:
            yield Mismatch(f"{name} {path}", f"the CA of {expected.control_plane[0]}", "another one, or none")

    return on_every(expected.nodes, machines, judge)


def signed_request(api: Cluster) -> list[Mismatch]:
    """Return whether the cluster signs a request for a certificate that was approved. The request is deleted again."""
    api.delete(CSR, REQUEST)  # of an interrupted run
    try:
        made = api.create(CSR, _request())
        made["status"] = {"conditions": [_approval()]}
        api.replace(CSR, made, subresource="approval")
        return _judged(api)
    finally:
        api.delete(CSR, REQUEST)


def _judged(api: Cluster) -> list[Mismatch]:
    where = f"CertificateSigningRequest {REQUEST}"
    last: list[Json] = [{}]

    def probe() -> bool | NotYet:
        last[:] = [api.get(CSR, REQUEST) or {}]
        return True if last[0].get("status", {}).get("certificate") else NotYet("it is not signed")

    try:
        until(probe, deadline=Deadline.after(SIGNED_SECONDS), what=f"{where} to be signed", interval=1.0)
    except TimedOut:
        kinds = [condition["type"] for condition in last[0].get("status", {}).get("conditions") or ()]
        return [] if kinds == ["Approved"] else [Mismatch(where, "Approved alone", ", ".join(kinds) or "none")]
    return [Mismatch(where, f"no certificate within {SIGNED_SECONDS:.0f} s of its approval", "the cluster signed it")]


def _request() -> Json:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, REQUEST)])
    asked = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    text = asked.public_bytes(serialization.Encoding.PEM)
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": REQUEST},
        "spec": {"request": _encoded(text), "signerName": SIGNER, "usages": ["client auth"], "expirationSeconds": 600},
    }


def _approval() -> Json:
    reason = {"reason": "Check", "message": "whether the cluster signs it"}
    return {"type": "Approved", "status": "True", **reason}


def _encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


def _folder(expected: ExpectedGuest) -> str:
    return expected.leaves.certificates or "/etc/kubernetes/pki"


def _authorities(name: str, folder: str, expected: ExpectedGuest) -> list[str]:
    if name in expected.control_plane:
        return [f"{folder}/{file}" for file in AUTHORITIES]
    files = (AUTHORITIES[0] if name in expected.nodes else "", AUTHORITIES[2] if name in expected.etcd else "")
    return [f"{folder}/{file}" for file in files if file]


def _wanted(name: str, folder: str, expected: ExpectedGuest) -> dict[str, str]:
    """Return the certificates that a machine must have, each with that of its CA."""
    cluster, front, etcd = (f"{folder}/{file}" for file in AUTHORITIES)
    signers = {KUBELET_CONF: cluster, KUBELET_PAIR: cluster} if name in expected.nodes else {}
    if name in expected.control_plane:
        signers |= {f"/etc/kubernetes/{file}": cluster for file in CONFS}
        for names, authority in ((OF_CLUSTER, cluster), (OF_FRONT_PROXY, front), (OF_ETCD_CLIENT, etcd)):
            signers |= {f"{folder}/{file}": authority for file in names}
    if name in expected.etcd:
        signers |= {f"{folder}/{file}": etcd for file in (*OF_ETCD_CLIENT, *OF_ETCD)}
    return signers
