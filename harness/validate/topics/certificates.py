"""Certificates: expiry, names, issuer, validity, keys that fit, and kubeconfigs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Any

from harness.urls import joined
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.files import MachineFiles
from harness.validate.facts.node import Certificate, NodeFacts, certificate_of
from harness.validate.findings import Mismatch, differs, on_every, together, unjudged
from harness.validate.layout import absent
from harness.validate.variables import CA_VALIDITY, VALIDITY, hours_of


@dataclass(frozen=True)
class Kubeconfig:
    """Where a kubeconfig leads, the CA (PEM) that it trusts, and the certificate in it; None: it holds none."""

    server: str
    authority: str
    certificate: Certificate | None


@dataclass(frozen=True)
class MachineKeys:
    """One machine.

    pairs: why a certificate and the key beside it do not belong together, by the certificate's path.
    counts: how many certificates each file has.  authority: the cluster's CA (PEM).
    accounts: digests of the public halves of the keys for tokens, by path.
    """

    pairs: Mapping[str, str]
    counts: Mapping[str, int]
    kubeconfigs: Mapping[str, Kubeconfig]
    authority: str
    accounts: Mapping[str, str]


def keys_of(raw: Mapping[str, Any]) -> MachineKeys:
    """Read what machine/keys.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    return MachineKeys(
        pairs=raw["pairs"],
        counts=raw["counts"],
        kubeconfigs={path: _kubeconfig(path, one) for path, one in raw["kubeconfigs"].items()},
        authority=raw["authority"],
        accounts=raw["accounts"],
    )


def _kubeconfig(path: str, one: Mapping[str, str]) -> Kubeconfig:
    try:
        held = certificate_of(path, one["certificate"]) if one["certificate"] else None
    except ValueError:  # what it holds is no certificate, which is a finding and not the machine's fault
        held = None
    return Kubeconfig(one["server"], one["authority"], held)


Facts = Mapping[str, NodeFacts]
CERTIFICATE_MARGIN = timedelta(days=30)  # kubeadm issues for a year (its CA for ten): a fresh guest is far above this
KUBELET_CLIENT, API_SERVER = "kubelet's client", "API server"  # whose certificates, as machine/node.py calls them


def bad_certificates(facts: Facts, expected: ExpectedGuest, now: datetime | None = None) -> list[Mismatch]:
    """Return certificates that expire soon, are missing, or have another subject or other names than expected."""
    earliest = (now or datetime.now(UTC)) + CERTIFICATE_MARGIN

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        by_path = {certificate.path: certificate for certificate in seen.certificates}
        for path, certificate in by_path.items():
            if certificate.not_after < earliest:
                wanted = f"{path} ({certificate.subject}) valid for {CERTIFICATE_MARGIN.days} more days"
                yield Mismatch(name, wanted, f"it expires {certificate.not_after:%Y-%m-%d %H:%M} UTC")
        path = client_path or seen.whose_certificates.get(KUBELET_CLIENT, "")
        client = by_path.get(path)
        subject = f"CN=system:node:{name},O=system:nodes"
        if "kubelet" in judged and name in expected.nodes:
            whose = f"{name} {path or KUBELET_CLIENT}"
            yield from differs(whose, "subject", subject, client.subject if client else None)
        if name in expected.control_plane and "kube-apiserver" in judged:
            path = serving_path or seen.whose_certificates.get(API_SERVER, "")
            serving = by_path.get(path)
            names = set(serving.names) if serving else set()
            missing = sorted(
                {name, *expected.addresses_of(name), f"kubernetes.default.svc.{expected.dns_domain}"} - names
            )
            yield from differs(f"{name} {path or API_SERVER}", "missing names", [], missing)

    leaves = expected.leaves
    client_path = leaves.kubelet.client_certificate
    serving_path = f"{leaves.certificates}/apiserver.crt" if leaves.certificates is not None else None
    said = {"kubelet": client_path, "kube-apiserver": serving_path}
    judged = {program for program, path in said.items() if path is not None or not absent(facts, program)}
    why = "no process of that name runs, and product.yml does not say where it is"
    unknown: list[Mismatch] = [unjudged(f"the certificate of {program}", why) for program in sorted(set(said) - judged)]
    every = on_every(expected.machines, facts, judge)
    seen_any = any(seen.certificates for seen in facts.values())
    return together(every, unknown) if judged or seen_any or not facts else together(unknown)


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


Keys = Mapping[str, MachineKeys]
AUTHORITIES = (CLUSTER, ETCD, FRONT)
API_PORT = 6443
KUBELET = "kubelet.conf"
# Whom kubeadm's kubeconfigs are for (kubernetes.io, "PKI certificates and requirements"); kubelet's names a file.
SUBJECTS: Mapping[str, str | None] = {
    "admin.conf": "CN=kubernetes-admin,O=kubeadm:cluster-admins",
    "super-admin.conf": "CN=kubernetes-super-admin,O=system:masters",
    "controller-manager.conf": "CN=system:kube-controller-manager",
    "scheduler.conf": "CN=system:kube-scheduler",
    KUBELET: None,
}
NOT_SAID = "product.yml does not say that kubeadm made the certificates (certificates, kubeadm)"


def unfit_keys(keys: Keys, expected: ExpectedGuest) -> list[Mismatch]:
    """Return certificates whose key is another's, CAs that trust a second one, and keys for tokens that differ."""
    folder = expected.leaves.certificates
    strict = folder is not None and expected.leaves.kubeadm is not None
    first = expected.control_plane[0]
    public = keys[first].accounts.get(f"{folder}/sa.pub", "") if first in keys else ""

    def judge(name: str, seen: MachineKeys) -> Iterator[Mismatch]:
        for path, why in seen.pairs.items():
            if why:
                yield Mismatch(f"{name} {path}", "the key beside it to be its own", why)
        if strict and not seen.pairs:
            yield Mismatch(name, "certificates with their keys", "none in the places that checks know")
        for authority in (f"{folder}/{one}" for one in AUTHORITIES) if strict else ():
            if seen.counts.get(authority, 1) != 1:
                yield Mismatch(f"{name} {authority}", "one certificate", str(seen.counts[authority]))
        if strict and name in expected.control_plane:
            for path in (f"{folder}/sa.pub", f"{folder}/sa.key"):
                # without openssl, a machine does not tell of the private key
                if path.endswith(".pub") or path in seen.accounts:
                    same = seen.accounts.get(path) == public and public
                    wanted = f"the key pair of {first}'s sa.pub, by which tokens are checked"
                    yield from [] if same else [Mismatch(f"{name} {path}", wanted, "another, or none")]

    found = on_every(expected.machines, keys, judge)
    return found if strict else [*found, unjudged("CAs' files and the keys for tokens", NOT_SAID)]


def strange_kubeconfigs(keys: Keys, expected: ExpectedGuest) -> list[Mismatch]:
    """Return kubeconfigs that kubeadm does not make, and those of another user, CA or server than kubeadm gives."""
    if expected.leaves.certificates is None or expected.leaves.kubeadm is None:
        return [unjudged("kubeconfigs", NOT_SAID, whole=True)]
    local, nodes = expected.leaves.local_api.address, expected.nodes

    def judge(name: str, seen: MachineKeys) -> Iterator[Mismatch]:
        if name in expected.nodes and not seen.kubeconfigs:
            yield Mismatch(name, "kubelet's kubeconfig", "none")
        # kubelet's own is right if the API answers there, which another check asks
        own = [one.server for path, one in seen.kubeconfigs.items() if path.endswith(f"/{KUBELET}") and name in nodes]
        servers = [f"https://{local}", f"https://{joined(expected.addresses[name], API_PORT)}", *own] if local else []
        for path, one in seen.kubeconfigs.items():
            file = PurePosixPath(path).name
            if file not in SUBJECTS:
                yield Mismatch(f"{name} {path}", "no such file: kubeadm leaves none", _who(one))
                continue
            wanted = SUBJECTS[file]
            if wanted is not None:
                yield from differs(f"{name} {path}", "subject", wanted, _who(one))
            if one.authority != seen.authority:
                yield Mismatch(f"{name} {path}", "the cluster's CA", "another CA, or none")
            if servers and one.server not in servers:
                words = " or ".join(dict.fromkeys(servers))
                yield Mismatch(f"{name} {path}", f"server {words}", one.server or "none")

    unknown = [unjudged("the servers of kubeconfigs", "product.yml does not say local_api.address")]
    return together(on_every(expected.machines, keys, judge), [] if local is not None else unknown)


def _who(one: Kubeconfig) -> str:
    return one.certificate.subject if one.certificate is not None else "no certificate in it"


USUAL = "/etc/kubernetes/pki"
BACKDATED = timedelta(hours=1)  # at most: kubeadm lets certificates begin a few minutes ago
KUBEADMS = (".crt", ".key", ".pub")


def other_validity(
    facts: Mapping[str, NodeFacts], keys: Mapping[str, MachineKeys], expected: ExpectedGuest
) -> list[Mismatch]:
    """Return certificates of kubeadm's, in files and in kubeconfigs, that are valid for another time than asked for."""
    wanted = {name: expected.variables.get(name) for name in (VALIDITY, CA_VALIDITY)}
    folder = expected.leaves.certificates or USUAL
    authorities = {f"{folder}/{one}" for one in AUTHORITIES}
    machines = tuple(dict.fromkeys((*expected.control_plane, *expected.etcd)))

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        held = keys[name].kubeconfigs.items() if name in keys else ()
        there = [one for one in seen.certificates if one.path.startswith(f"{folder}/")]
        there += [one.certificate for path, one in held if one.certificate and not path.endswith(f"/{KUBELET}")]
        if not there:
            yield Mismatch(f"{name} {folder}", "certificates", "none")
        for one in there:
            asked = wanted[CA_VALIDITY if one.path in authorities else VALIDITY]
            yield from _other(name, one, hours_of(str(asked))) if asked else ()

    return on_every(machines, {one: facts[one] for one in machines if one in facts}, judge)


def _other(machine: str, one: Certificate, hours: int) -> Iterator[Mismatch]:
    lasts = one.not_after - one.not_before
    if not timedelta(0) <= lasts - timedelta(hours=hours) <= BACKDATED:
        seen = f"{lasts / timedelta(hours=1):.0f} hours"
        yield Mismatch(f"{machine} {one.path} ({one.subject})", f"valid for {hours} hours", seen)


def strayed_certificates(files: Mapping[str, MachineFiles], expected: ExpectedGuest) -> list[Mismatch]:
    """Return certificates and keys in kubeadm's usual folder, although the cell has another one."""
    folder = expected.leaves.certificates or USUAL

    def judge(name: str, seen: MachineFiles) -> Iterator[Mismatch]:
        if name in expected.nodes and f"{folder}/ca.crt" not in seen.files:
            yield Mismatch(f"{name} {folder}/ca.crt", "the cluster's CA", "none")
        for path in sorted(seen.files):
            if path.startswith(f"{USUAL}/") and folder != USUAL and PurePosixPath(path).suffix in KUBEADMS:
                yield Mismatch(f"{name} {path}", f"no such file: the cell's are in {folder}", "it exists")

    return on_every(expected.machines, files, judge)
