"""Load balancers: Services of type LoadBalancer have an address of the pool each, and answer there to clients outside.

Does not cover what becomes of an address when the machine that announces it is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from ipaddress import IPv4Address, IPv4Network, ip_address
from typing import Any

from harness.kube import Cluster
from harness.kube.resources import SERVICE
from harness.validate.facts.cluster import Json
from harness.validate.findings import Mismatch, differs
from harness.validate.pods import HTTP_PORT
from harness.validate.probes import NAME, PROBE, SERVICE_PORT, TRIES_PER_BACKEND, Probes

OK = 200


@dataclass(frozen=True)
class OutsideAnswer:
    """What a server answered, and the client's own address in that connection; `error` where it did not."""

    text: str = ""
    own: str = ""
    error: str = ""


def get_from_outside(address: str, port: int, path: str, seconds: float) -> OutsideAnswer:
    """Send one GET request on a connection of its own."""
    connection = HTTPConnection(address, port, timeout=seconds)
    try:
        connection.connect()
        own = str(connection.sock.getsockname()[0])
        connection.request("GET", f"/{path}")
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace").strip()
    except (OSError, HTTPException) as error:
        return OutsideAnswer(error=str(error) or type(error).__name__)
    finally:
        connection.close()
    if answer.status != OK:
        return OutsideAnswer(own=own, error=f"{answer.status}: {text[:200]}")
    return OutsideAnswer(text, own)


POOL = "cluster_load_balancer_addresses"
ANY_NODE, OWN_NODE = "balanced", "balanced-local"  # which backends an address leads to
SERVICES: Mapping[str, str] = {ANY_NODE: "Cluster", OWN_NODE: "Local"}  # by externalTrafficPolicy
Ask = Callable[[str, int, str], OutsideAnswer]  # address, port, path


@dataclass(frozen=True)
class AddressRange:
    """Addresses from the first to the last."""

    first: IPv4Address
    last: IPv4Address

    def __contains__(self, text: str) -> bool:
        """Tell whether an address is one of them."""
        address = ip_address(text)
        return isinstance(address, IPv4Address) and self.first <= address <= self.last


def pool_of(variables: Mapping[str, Any]) -> tuple[AddressRange, ...]:
    """Return the addresses that a cell has for load balancers; the playbooks have judged how they are written."""
    return tuple(_range(str(text)) for text in variables.get(POOL) or ())


def _range(text: str) -> AddressRange:
    first, dash, last = text.partition("-")
    if dash:
        return AddressRange(IPv4Address(first.strip()), IPv4Address(last.strip()))
    network = IPv4Network(text)
    return AddressRange(network[0], network[-1])


def create(api: Cluster) -> None:
    """Create the Services, before the probes, which serve them."""
    remove(api)  # of an interrupted run
    for name, policy in SERVICES.items():
        api.create(SERVICE, _service(name, policy))


def remove(api: Cluster) -> None:
    """Delete the Services. Idempotent."""
    for name in SERVICES:
        api.delete(SERVICE, name, NAME)


def wrong_addresses(api: Cluster, pool: Sequence[AddressRange]) -> list[Mismatch]:
    """Return the Services that do not have one address of the pool, which no other has."""
    if not pool:
        return [Mismatch("the cell", "addresses for load balancers", f"no {POOL}")]
    addresses_by_service = {name: addresses_of(api, name) for name in SERVICES}
    mismatches: list[Mismatch] = []
    for name, addresses in addresses_by_service.items():
        where = f"Service {NAME}/{name}"
        if len(addresses) != 1:
            observed = ", ".join(addresses) or "; ".join(api.events_of(NAME, name)[-2:]) or "none"
            mismatches.append(Mismatch(where, "one address", observed))
        elif not any(addresses[0] in part for part in pool):
            ranges = ", ".join(f"{part.first}-{part.last}" for part in pool)
            mismatches.append(Mismatch(where, f"an address of {ranges}", addresses[0]))
    every = [address for addresses in addresses_by_service.values() for address in addresses]
    return mismatches + differs("Services", "addresses of their own", len(every), len(set(every)))


def addresses_of(api: Cluster, name: str) -> list[str]:
    """Return the addresses that a Service has for who is outside."""
    ingress = (api.get(SERVICE, name, NAME) or {}).get("status", {}).get("loadBalancer", {}).get("ingress") or ()
    return [str(point.get("ip", "")) for point in ingress]


def unserved_outside(api: Cluster, probes: Probes, ask: Ask) -> list[Mismatch]:
    """Return what a client outside misses of the backends of the Service that may lead to every node."""
    backends = sorted(pod.name for pod in probes.dialling.values())
    mismatches = differs("the check", "any backend", True, bool(backends))
    for address, where, first in _first_answers(api, ANY_NODE, ask, "hostname"):
        if first.error:  # each further try would cost seconds
            mismatches.append(Mismatch(where, f"an answer of one of {backends}", first.error))
            continue
        answers = [ask(address, SERVICE_PORT, "hostname") for _ in range(TRIES_PER_BACKEND * len(backends))]
        mismatches += differs(
            where, "answers from", backends, sorted({answer.text for answer in answers if not answer.error})
        )
        mismatches += differs(where, "errors", [], sorted({answer.error for answer in answers if answer.error}))
    return mismatches


def hidden_clients(api: Cluster, ask: Ask) -> list[Mismatch]:
    """Return whether a Service with externalTrafficPolicy Local shows its pods another client than the one outside."""
    mismatches: list[Mismatch] = []
    for _, where, answer in _first_answers(api, OWN_NODE, ask, "clientip"):
        if answer.error:
            mismatches.append(Mismatch(where, "an answer", answer.error))
        else:
            mismatches += differs(where, "client that the pod sees", answer.own, answer.text.rpartition(":")[0])
    return mismatches


def _first_answers(api: Cluster, name: str, ask: Ask, path: str) -> Iterator[tuple[str, str, OutsideAnswer]]:
    """Yield each address of a Service, the words that say where it is, and its answer; of none, an error once."""
    for address in addresses_of(api, name) or [""]:
        answer = ask(address, SERVICE_PORT, path) if address else OutsideAnswer(error="the Service has no address")
        yield address, f"outside -> {address}:{SERVICE_PORT} (Service {NAME}/{name})", answer


def _service(name: str, policy: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAME},
        "spec": {
            "type": "LoadBalancer",
            "externalTrafficPolicy": policy,
            "selector": {"app": PROBE},
            "ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": HTTP_PORT}],
        },
    }
