"""IPv4 and IPv6: whether Services have addresses of the IP families that they ask for, answer, and are named in DNS so.

https://kubernetes.io/docs/concepts/services-networking/dual-stack/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.kube import Cluster
from harness.kube.client import ApiFailure
from harness.kube.resources import SERVICE
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import of_family
from harness.validate.findings import Mismatch, differs, on_every, unjudged
from harness.validate.pods import HTTP_PORT
from harness.validate.probes import NAME, NO_DIALS, PROBE, SERVICE_PORT, Ask, Probes, dial_all, wrong_answers

WORDS = {4: "IPv4", 6: "IPv6"}
INVALID = 422
Given = Mapping[str, "tuple[str, ...] | None"]  # a Service's addresses by its name; None: it was refused


@dataclass(frozen=True)
class AskedService:
    """A Service: what it asks for, and the IP families whose addresses it then has; None where it is refused."""

    name: str
    policy: str
    asks_for: tuple[int, ...]
    has: tuple[int, ...] | None

    @property
    def words(self) -> str:
        """Return what it asks for, as its manifest has it."""
        return " ".join((self.policy, *(WORDS[version] for version in self.asks_for)))


def asked(expected: ExpectedGuest) -> tuple[AskedService, ...]:
    """Return Services of every policy, with what comes of each in a cluster of the cell's IP families."""
    own = tuple(family.version for family in expected.families)
    other = 6 if own[0] == 4 else 4
    both = expected.dual
    return (
        AskedService("first-family", "SingleStack", own[:1], own[:1]),
        AskedService("other-family", "SingleStack", (other,), (other,) if both else None),
        AskedService("preferred", "PreferDualStack", (), own),
        AskedService("required", "RequireDualStack", (other, own[0]), (other, own[0]) if both else None),
    )


def create(api: Cluster, services: Sequence[AskedService]) -> dict[str, tuple[str, ...] | None]:
    """Create the Services in front of the probes; return the addresses of each. They go with the probes' namespace.

    One that is there already stays.

    Raises:
        ApiFailure: another refusal than that of what is asked for.
    """
    addresses: dict[str, tuple[str, ...] | None] = {}
    for service in services:
        try:
            made = api.ensure(SERVICE, _service(service))
        except ApiFailure as failure:
            if failure.code != INVALID:
                raise
            addresses[service.name] = None
        else:
            addresses[service.name] = tuple(made["spec"].get("clusterIPs") or ())
    return addresses


def _service(service: AskedService) -> dict[str, Any]:
    families = {"ipFamilies": [WORDS[version] for version in service.asks_for]} if service.asks_for else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": service.name, "namespace": NAME},
        "spec": {
            "selector": {"app": PROBE},
            "ipFamilyPolicy": service.policy,
            **families,
            "ports": [{"port": SERVICE_PORT, "targetPort": HTTP_PORT}],
        },
    }


def wrong_families(addresses_of: Given, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the Services that have addresses of other IP families than they ask for, or are not refused."""
    if not expected.pod_cidr:
        why = "the cell's variables have no cluster_pod_cidr"
        return [unjudged("the IP families of Services", why, whole=True)]
    mismatches: list[Mismatch] = []
    for service in asked(expected):
        addresses = addresses_of[service.name]
        observed = _refused(addresses) if addresses is None else _families(addresses)
        families = (
            _refused(service.has) if service.has is None else ", ".join(WORDS[version] for version in service.has)
        )
        mismatches += differs(f"Service {service.name} ({service.words})", "addresses of", families, observed)
    return mismatches


def _refused(_nothing: None) -> str:
    return "none: it is refused"


def _families(addresses: Sequence[str]) -> str:
    return ", ".join(WORDS[6 if ":" in address else 4] for address in addresses)


def silent_addresses(probes: Probes, addresses_of: Given, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the Services' addresses where pods of a node get no answer."""
    places = [address for addresses in addresses_of.values() for address in addresses or ()]
    pairs = [(node, place) for node in expected.nodes for place in places]
    answers = dial_all(pairs, lambda node, place: probes.dial(node, place, SERVICE_PORT, "hostname"))
    mismatches = [] if places else [Mismatch("the cluster", "Services with addresses", "none")]
    return mismatches + wrong_answers(pairs, answers, lambda _: f"{PROBE}-", part=True)


def wrong_records(server: str, addresses_of: Given, expected: ExpectedGuest, ask: Ask) -> list[Mismatch]:
    """Return the Services whose name has other records in DNS than the Service has addresses.

    Args:
        server: the address of the DNS server.
    """
    names = {f"{name}.{NAME}.svc.{expected.dns_domain}": addresses or () for name, addresses in addresses_of.items()}
    flags = {name: " ".join(str(int(bool(of_family(a, version)))) for version in WORDS) for name, a in names.items()}
    asked_for = {node: {**NO_DIALS, "records": [[server, name] for name in names]} for node in expected.nodes}

    def judge(node: str, answers: Sequence[Sequence[Any]]) -> Iterator[Mismatch]:
        records_of = {name: told for _, _, name, told in answers}
        for name, records in flags.items():
            yield from differs(f"{node} -> {name}", "records A and AAAA", records, records_of.get(name) or "no answer")

    return on_every(expected.nodes, ask(asked_for), judge)
