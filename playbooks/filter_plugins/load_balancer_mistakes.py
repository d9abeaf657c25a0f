"""Jinja filter `load_balancer_mistakes`: what is wrong with the addresses for load balancers, each with its remedy.

For preflight, which says it before any machine changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, ip_address
from typing import Any

VARIABLE = "cluster_load_balancer_addresses"
FORMS = "give addresses as 192.0.2.240-192.0.2.250 or 192.0.2.240/28"
Range = tuple[IPv4Address, IPv4Address]


def load_balancer_mistakes(given: Mapping[str, Any]) -> list[str]:
    """Return what is wrong.

    Args:
        given: `addresses`, whether MetalLB is `wanted`, `hosts` with name and address, the cluster's `networks` by the
            variables that name them, and `outside`: further addresses that machines have to reach.
    """
    if not isinstance(given["addresses"], list):
        return [f"{VARIABLE} is no list: {FORMS}, one an entry"]
    if not given["wanted"]:
        return []
    if not given["addresses"]:
        return [f"cluster_metallb_version is set and {VARIABLE} is not: {FORMS}, of the machines' network"]
    return list(_mistakes(given))


def range_of(text: str) -> Range:
    """Return the first and the last address of a range. Raises ValueError with what is wrong."""
    first, dash, last = text.partition("-")
    if not dash:
        network = IPv4Network(text)
        return network[0], network[-1]
    found = IPv4Address(first.strip()), IPv4Address(last.strip())
    if found[0] > found[1]:
        raise ValueError(f"{found[0]} is above {found[1]}")
    return found


def _mistakes(given: Mapping[str, Any]) -> Iterator[str]:
    others = {str(host.get("address")): f"of machine {host.get('name')}" for host in given["hosts"]}
    others |= dict.fromkeys(map(str, given["outside"]), "of the mirror")
    before: list[tuple[str, Range]] = []
    for place, entry in enumerate(given["addresses"]):
        where = f"{VARIABLE}[{place}]"
        try:
            own = range_of(str(entry))
        except ValueError as error:
            yield f"{where} is {entry!r} ({error}): {FORMS}"
            continue
        for variable, text in given["networks"].items():
            if _within(text, own):
                yield f"{where} {entry} overlaps {variable} {text}: choose addresses that only load balancers have"
        for address, whose in others.items():
            if _meets(address, own):
                yield f"{where} {entry} contains {address}, the address {whose}: choose addresses that nobody has"
        for other, taken in before:
            if own[0] <= taken[1] and taken[0] <= own[1]:
                yield f"{where} {entry} overlaps {other}: let each address be in one entry"
        before.append((str(entry), own))


def _within(text: Any, own: Range) -> bool:
    """Tell whether a range overlaps a network; what is none is said elsewhere."""
    try:
        network = IPv4Network(str(text))
    except ValueError:
        return False
    return own[0] <= network[-1] and network[0] <= own[1]


def _meets(address: str, own: Range) -> bool:
    """Tell whether an address is in a range; names and IPv6 are not."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return isinstance(found, IPv4Address) and own[0] <= found <= own[1]


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"load_balancer_mistakes": load_balancer_mistakes}
