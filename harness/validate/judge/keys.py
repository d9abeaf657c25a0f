"""Whether keys belong to their certificates, and kubeconfigs are those that kubeadm makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from harness.urls import joined
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.keys import Kubeconfig, MachineKeys
from harness.validate.findings import Mismatch, differs, on_every, together, unjudged

Keys = Mapping[str, MachineKeys]
AUTHORITIES = ("ca.crt", "etcd/ca.crt", "front-proxy-ca.crt")
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
