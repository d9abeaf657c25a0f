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
        return " ".join((self.policy, *(WORDS[one] for one in self.asks_for)))


def asked(expected: ExpectedGuest) -> tuple[AskedService, ...]:
    """Return Services of every policy, with what comes of each in a cluster of the cell's IP families."""
    own = tuple(one.version for one in expected.families)
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
    found: dict[str, tuple[str, ...] | None] = {}
    for one in services:
        try:
            made = api.ensure(SERVICE, _service(one))
        except ApiFailure as failure:
            if failure.code != INVALID:
                raise
            found[one.name] = None
        else:
            found[one.name] = tuple(made["spec"].get("clusterIPs") or ())
    return found


def _service(one: AskedService) -> dict[str, Any]:
    families = {"ipFamilies": [WORDS[version] for version in one.asks_for]} if one.asks_for else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": one.name, "namespace": NAME},
        "spec": {
            "selector": {"app": PROBE},
            "ipFamilyPolicy": one.policy,
            **families,
            "ports": [{"port": SERVICE_PORT, "targetPort": HTTP_PORT}],
        },
    }


def wrong_families(given: Given, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the Services that have addresses of other IP families than they ask for, or are not refused."""
    if not expected.pod_cidr:
        why = "the cell's variables have no cluster_pod_cidr"
        return [unjudged("the IP families of Services", why, whole=True)]
    found: list[Mismatch] = []
    for one in asked(expected):
        addresses = given[one.name]
        seen = _refused(addresses) if addresses is None else _families(addresses)
        wanted = _refused(one.has) if one.has is None else ", ".join(WORDS[version] for version in one.has)
        found += differs(f"Service {one.name} ({one.words})", "addresses of", wanted, seen)
    return found


def _refused(_nothing: None) -> str:
    return "none: it is refused"


def _families(addresses: Sequence[str]) -> str:
    return ", ".join(WORDS[6 if ":" in one else 4] for one in addresses)


def silent_addresses(probes: Probes, given: Given, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the Services' addresses where pods of a node get no answer."""
    places = [address for addresses in given.values() for address in addresses or ()]
    pairs = [(node, place) for node in expected.nodes for place in places]
    answers = dial_all(pairs, lambda node, place: probes.dial(node, place, SERVICE_PORT, "hostname"))
    found = [] if places else [Mismatch("the cluster", "Services with addresses", "none")]
    return found + wrong_answers(pairs, answers, lambda _: f"{PROBE}-", part=True)


def wrong_records(server: str, given: Given, expected: ExpectedGuest, ask: Ask) -> list[Mismatch]:
    """Return the Services whose name has other records in DNS than the Service has addresses.

    Args:
        server: the address of the DNS server.
    """
    names = {f"{name}.{NAME}.svc.{expected.dns_domain}": addresses or () for name, addresses in given.items()}
    wanted = {name: " ".join(str(int(bool(of_family(a, version)))) for version in WORDS) for name, a in names.items()}
    asked_for = {node: {**NO_DIALS, "records": [[server, name] for name in names]} for node in expected.nodes}

    def judge(node: str, answers: Sequence[Sequence[Any]]) -> Iterator[Mismatch]:
        seen = {name: told for _, _, name, told in answers}
        for name, records in wanted.items():
            yield from differs(f"{node} -> {name}", "records A and AAAA", records, seen.get(name) or "no answer")

    return on_every(expected.nodes, ask(asked_for), judge)
