"""Whether CoreDNS is configured as kubeadm does it for the cell: zone, plugins, where it forwards to, cache."""

from __future__ import annotations

from collections.abc import Mapping

from harness.validate.expected import ExpectedGuest
from harness.validate.findings import Mismatch, unjudged

FILE = "Corefile"
CACHE_SECONDS = 30  # in the lines that kubeadm writes, see below
# What kubeadm writes for Kubernetes 1.34 to 1.37 (`kubeadm init phase addon coredns --print-manifest`), line by line.
LINES = (
    ".:53 {",
    "errors",
    "health {",
    "lameduck 5s",
    "}",
    "ready",
    "kubernetes {domain} in-addr.arpa ip6.arpa {",
    "pods insecure",
    "fallthrough in-addr.arpa ip6.arpa",
    "ttl 30",
    "}",
    "prometheus :9153",
    "forward . /etc/resolv.conf {",
    "max_concurrent 1000",
    "}",
    "cache {cache} {",
    "disable success {domain}",
    "disable denial {domain}",
    "}",
    "loop",
    "reload",
    "loadbalance",
    "}",
)


def wrong_corefile(data: Mapping[str, str], expected: ExpectedGuest) -> list[Mismatch]:
    """Return the lines of CoreDNS's configuration that are not kubeadm's, and those that are missing.

    Args:
        data: of the ConfigMap kube-system/coredns.
    """
    if expected.leaves.kubeadm is None:
        why = "product.yml does not say that kubeadm made the cluster (kubeadm)"
        return [unjudged("CoreDNS's configuration", why, whole=True)]
    if FILE not in data:
        return [Mismatch("ConfigMap kube-system/coredns", f"the key {FILE}", ", ".join(data) or "no keys")]
    cache = str(expected.variables.get("cluster_coredns_cache_seconds", CACHE_SECONDS))
    words = {"{domain}": expected.dns_domain, "{cache}": cache}
    wanted = [_filled(line, words) for line in LINES]
    there = [" ".join(line.partition("#")[0].split()) for line in data[FILE].splitlines()]
    there = [line for line in there if line]
    missing = [line for line in wanted if line not in there]
    strange = [line for line in there if line not in wanted]
    if not missing and not strange:
        same = there == wanted
        return [] if same else [Mismatch(FILE, "kubeadm's order of lines", "another one, or a line twice")]
    return [
        *(Mismatch(FILE, f"the line `{line}`", "no such line") for line in missing),
        *(Mismatch(FILE, "no other line than kubeadm's", f"`{line}`") for line in strange),
    ]


def _filled(line: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        line = line.replace(word, value)
    return line
