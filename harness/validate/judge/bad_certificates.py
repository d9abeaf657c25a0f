"""Part of node_configuration.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch, differs, on_every, together, unjudged
from harness.validate.layout import absent

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
