"""The address at which a node reaches the API on itself: as the product says, or as its kubelet's kubeconfig does."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from harness.validate.expected import ExpectedGuest
from harness.validate.phases.observation import Observation
from harness.validate.phases.phase_record import LocalApi

NO_KUBELET = "no process named kubelet runs, and product.yml does not name the address (local_api.address)"


def local_api(expected: ExpectedGuest, before: Observation | None, machine: str) -> LocalApi:
    """Return the address on one machine; without a URL where there is none that is the machine's own."""
    said = expected.leaves.local_api
    facts = before.facts.get(machine) if before is not None else None
    kubelet = facts.kubelet if facts is not None else {}
    ca = said.ca or kubelet.get("ca") or kubelet.get("kubeconfig", "")
    if said.address is not None:
        return LocalApi(f"https://{said.address}", ca)
    server = kubelet.get("server", "")
    if not server:
        return LocalApi(why=NO_KUBELET)
    if _is_local(urlsplit(server).hostname or ""):
        return LocalApi(server.rstrip("/"), ca)
    return LocalApi(why=f"its kubelet uses {server}, which is no address of its own")


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
