"""Who signed a guest's certificates: the authority of their folder, which is the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.node import Certificate, NodeFacts
from harness.validate.findings import Mismatch, on_every, unjudged

Facts = Mapping[str, NodeFacts]
# kubeadm's authorities and, of other certificates than those of the first, whose they are
# (kubernetes.io, "PKI certificates and requirements").
CLUSTER, ETCD, FRONT = "ca.crt", "etcd/ca.crt", "front-proxy-ca.crt"
OF_OTHERS = {"apiserver-etcd-client.crt": ETCD, "front-proxy-client.crt": FRONT}
SELF_SIGNED = ("/var/lib/kubelet/pki/kubelet.crt",)  # kubelet's own, where nobody signs its requests


def foreign_certificates(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return certificates that another authority signed than the cluster's, and authorities that differ."""
    folder = expected.leaves.certificates
    if folder is None or expected.leaves.kubeadm is None:
        why = "product.yml does not say that kubeadm made the certificates (certificates, kubeadm)"
        return [unjudged("who signed certificates", why, whole=True)]
    by_machine = {name: {one.path: one for one in seen.certificates} for name, seen in facts.items()}
    first = _authorities(folder, by_machine, expected)

    def judge(name: str, there: Mapping[str, Certificate]) -> Iterator[Mismatch]:
        for path, one in sorted(there.items()):
            authority = authority_of(path, folder)
            known = first.get(authority)
            if known is None or path in SELF_SIGNED:
                continue
            if path == authority and one.pem != known.pem:
                yield Mismatch(f"{name} {path}", "the same authority as on the first control plane", "another")
            if path != authority and not one.signed_by(known):
                yield Mismatch(f"{name} {path} ({one.subject})", f"signed by {authority}", "by another authority")
        if name in expected.nodes and f"{folder}/{CLUSTER}" not in there:
            yield Mismatch(f"{name} {folder}/{CLUSTER}", "the cluster's authority", "none")

    return on_every(expected.machines, by_machine, judge)


def authority_of(path: str, folder: str) -> str:
    """Return the file of the authority that must have signed a certificate; an authority is its own."""
    place = PurePosixPath(path)
    inside = path.removeprefix(f"{folder}/")
    if inside in (CLUSTER, ETCD, FRONT):
        return path
    of = ETCD if place.parent.name == "etcd" else OF_OTHERS.get(inside, CLUSTER)
    return f"{folder}/{of}"


def _authorities(
    folder: str, by_machine: Mapping[str, Mapping[str, Certificate]], expected: ExpectedGuest
) -> dict[str, Certificate]:
    found: dict[str, Certificate] = {}
    for name in (*expected.control_plane, *expected.machines):
        for inside in (CLUSTER, ETCD, FRONT):
            path = f"{folder}/{inside}"
            if path in by_machine.get(name, {}):
                found.setdefault(path, by_machine[name][path])
    return found
