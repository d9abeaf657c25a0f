"""When the certificates of a machine expire: those that an operation renews, and all others; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from cryptography import x509

from harness.kube.client import Json
from harness.kube.objects import stamp

PKI, CONFIGS, MANIFESTS = "/etc/kubernetes/pki", "/etc/kubernetes", "/etc/kubernetes/manifests"
# What `kubeadm certs renew all` renews, which is what the operation certificates runs on control planes.
OF_THE_API = (
    *(f"{PKI}/{name}.crt" for name in ("apiserver", "apiserver-kubelet-client", "front-proxy-client")),
    *(f"{CONFIGS}/{name}.conf" for name in ("admin", "super-admin", "controller-manager", "scheduler")),
)
# The same, where etcd runs beside the API server; those of external etcd are no operation's.
OF_ETCD = (
    f"{PKI}/apiserver-etcd-client.crt",
    *(f"{PKI}/etcd/{n}.crt" for n in ("server", "peer", "healthcheck-client")),
)


def dates(certificates: Mapping[str, bytes], files: Collection[str]) -> Json | None:
    """Return a Machine's `certificates`, None when nothing was found.

    Args:
        certificates: PEM by path.  files: paths of other files that are on the machine.
    """
    renewed = OF_THE_API if f"{MANIFESTS}/kube-apiserver.yaml" in files else ()
    renewed = (*renewed, *OF_ETCD) if renewed and f"{MANIFESTS}/etcd.yaml" in files else renewed
    ends = {path: end for path, pem in certificates.items() if (end := _end(pem)) is not None}
    made: Json = {}
    for date, file, paths in (
        ("firstExpiry", "file", [path for path in ends if path in renewed]),
        ("otherExpiry", "otherFile", [path for path in ends if path not in renewed]),
    ):
        if paths:
            first = min(sorted(paths), key=lambda path: ends[path])
            made |= {date: stamp(ends[first]), file: first}
    return made or None


def _end(pem: bytes) -> datetime | None:
    """Return when the first certificate of a file expires, None if it holds none that can be read."""
    try:
        return min((one.not_valid_after_utc for one in x509.load_pem_x509_certificates(pem)), default=None)
    except ValueError:  # a file that is just being written
        return None
