"""Rules for an instance's networks and interfaces (virt-api's network validator)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.embedded.admission.names import is_mac
from harness.embedded.admission.response import DUPLICATE, REQUIRED, Json, StatusCause

BINDINGS = ("bridge", "masquerade", "sriov", "passtBinding", "slirp", "macvtap", "passt", "binding")
NETWORK_SOURCES = ("pod", "multus", "resourceClaim")


def network_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge networks and interfaces, and how they go together."""
    networks: list[Json] = spec.get("networks") or []
    interfaces: list[Json] = (spec.get("domain", {}).get("devices") or {}).get("interfaces") or []
    yield from _sources(field, networks)
    yield from _pod_network(field, networks, interfaces)
    yield from _matches(field, networks, interfaces)
    by_name = {network.get("name"): network for network in networks}
    for index, interface in enumerate(interfaces):
        where = f"{field}.domain.devices.interfaces[{index}]"
        yield from _binding(where, interface, by_name.get(interface.get("name"), {}))
        mac = interface.get("macAddress")
        if mac and not is_mac(mac):
            yield StatusCause(f"interface {where}.name has malformed MAC address ({mac}).", f"{where}.macAddress")


def _sources(field: str, networks: list[Json]) -> Iterator[StatusCause]:
    seen: set[str] = set()
    for index, network in enumerate(networks):
        where, name = f"{field}.networks[{index}]", network.get("name", "")
        sources = [source for source in NETWORK_SOURCES if network.get(source) is not None]
        if not sources:
            yield StatusCause("should have a network type", where, REQUIRED)
        elif len(sources) > 1:
            yield StatusCause("should have only one network type", where, REQUIRED)
        if name in seen:
            message = f'Network with name "{name}" already exists, every network must have a unique name'
            yield StatusCause(message, f"{where}.name", DUPLICATE)
        seen.add(name)


def _pod_network(field: str, networks: list[Json], interfaces: list[Json]) -> Iterator[StatusCause]:
    on_pod = {network.get("name") for network in networks if network.get("pod") is not None}
    if sum(interface.get("name") in on_pod for interface in interfaces) > 1:
        where = f"{field}.interfaces"
        yield StatusCause(f"more than one interface is connected to a pod network in {where}", where, DUPLICATE)


def _matches(field: str, networks: list[Json], interfaces: list[Json]) -> Iterator[StatusCause]:
    names = [network.get("name", "") for network in networks]
    taken: list[str] = [interface.get("name", "") for interface in interfaces]
    for index, name in enumerate(taken):
        where = f"{field}.domain.devices.interfaces[{index}].name"
        if name not in names:
            yield StatusCause(f"{where} '{name}' not found.", where)
        if name in taken[:index]:
            yield StatusCause("Only one interface can be connected to one specific network", where, DUPLICATE)
    for index, name in enumerate(names):
        if name not in taken:
            where = f"{field}.networks[{index}].name"
            yield StatusCause(f"{where} '{name}' not found.", where, REQUIRED)


def _binding(where: str, interface: Json, network: Json) -> Iterator[StatusCause]:
    bindings = [binding for binding in BINDINGS if interface.get(binding) is not None]
    if len(bindings) != 1:
        name = interface.get("name", "")
        yield StatusCause(f"logical {name} interface must have exactly one binding method or binding plugin", where)
    elif bindings == ["masquerade"] and network and network.get("pod") is None:
        yield StatusCause("Masquerade interface only implemented with pod network", f"{where}.name")
