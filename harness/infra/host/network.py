"""Network of an instance: its addresses and ports by its index, and a bridge without ports that carries them.

The bridge has 10.X.0.1 and its like of IPv6. Its alias names the instance that made it, so that it is found again when
every file is lost. Networks of VM namespaces are not made here.
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from harness import proc
from harness.embedded.machines.names import (
    API_PORT,
    DELIVERIES_PORT,
    MAX_INSTANCES,
    MIRROR_PORT,
    PULLS_PORT,
    REGISTRY_PORT,
    Names,
)
from harness.errors import InfraError
from harness.infra.host.layout import Layout
from harness.model import Mirror
from harness.urls import joined

INDICES = range(MAX_INSTANCES)
ETCD_PORT = 2379
ETCD_PEER_PORT = 2380
ETCD_HTTP_PORT = 2381  # health and metrics
KCM_PORT = 10257
SCHEDULER_PORT = 10259
WEBHOOK_PORT = 8443
SUBRESOURCES_PORT = 8444  # KubeVirt's aggregated API
KUBELET_PORT = 10250  # what the API server asks for launchers' logs
PORTS = {  # by program
    "etcd": (ETCD_PORT, ETCD_PEER_PORT, ETCD_HTTP_PORT),
    "kube-apiserver": (API_PORT,),
    "kube-controller-manager": (KCM_PORT,),
    "kube-scheduler": (SCHEDULER_PORT,),
    "mirror": (MIRROR_PORT,),
    "registry": (REGISTRY_PORT,),
    "deliveries": (DELIVERIES_PORT,),
    "pulls": (PULLS_PORT,),
    "kubevirt": (WEBHOOK_PORT, SUBRESOURCES_PORT, KUBELET_PORT),
}


def block_of(index: int) -> str:
    """Return the address block of an instance."""
    return str(Names(index).instance_network)


def address_of(index: int) -> str:
    """Return the address of those services of an instance that guests, or the node of a kind cluster, reach."""
    return str(Names(index).instance_address)


def address6_of(index: int) -> str:
    """Return the IPv6 address at which guests reach the mirror and the registry."""
    return str(Names(index).instance_address6)


def loopback_of(index: int) -> str:
    """Return the address of those services that only this host's own processes use."""
    return str(Names(index).loopback_address)


def bridge_of(index: int) -> str:
    """Return the host bridge that carries the instance's address."""
    return f"vmx{index}"


def service_range_of(index: int) -> str:
    """Return the range of the infra cluster's Services, the last /24 of the block."""
    return str(_service_range(index))


def service_address_of(index: int) -> str:
    """Return the address of the Service `kubernetes`, the first of the range."""
    return str(_service_range(index)[1])


def _service_range(index: int) -> IPv4Network:
    return list(Names(index).instance_network.subnets(new_prefix=24))[-1]


def mirror_of(index: int) -> Mirror:
    """Return the addresses of an instance's mirror."""
    return replace(_mirror_at(address_of(index)), ipv6=_mirror_at(address6_of(index)))


def deliveries_of(index: int) -> str:
    """Return the registry that the infra cluster's pods push to, and pull from."""
    return joined(address_of(index), DELIVERIES_PORT)


def pulls_of(index: int) -> str:
    """Return where guests pull from that registry."""
    return joined(address_of(index), PULLS_PORT)


def _mirror_at(address: str) -> Mirror:
    return Mirror(http=f"http://{joined(address, MIRROR_PORT)}", registry=joined(address, REGISTRY_PORT))


SECONDS = 10.0  # against hanging: one `ip` command of this host's kernel
SYS_NET = Path("/sys/class/net")
IPV6_CONF = Path("/proc/sys/net/ipv6/conf")
NETNS_DIR = Path("/run/netns")
ALIAS_PREFIX = "vmatrix:"


class BridgeTaken(InfraError):
    """The bridge of that name belongs to somebody else."""


def ensure_bridge(index: int, layout: Layout) -> None:
    """Make the instance's bridge with its addresses, up; nothing to do when it is all there.

    A kernel without IPv6 leaves out that address: machines of other providers than ours need none.

    Raises:
        BridgeTaken: there is a bridge of that name with another owner.
    """
    bridge, address, address6 = bridge_of(index), address_of(index), address6_of(index)
    owner = _owner(bridge)
    if owner not in {None, "", _alias(layout)}:
        raise BridgeTaken(
            f"bridge {bridge} belongs to {str(owner).removeprefix(ALIAS_PREFIX)}",
            hint="take this instance down and up again, with other addresses: "
            f"vmatrix infra down --infra-name {layout.name}",
        )
    if owner is None:
        _ip("link", "add", "name", bridge, "type", "bridge")
    if not owner:
        _ip("link", "set", "dev", bridge, "alias", _alias(layout))
    shown = _show("address", "show", "dev", bridge)[0]
    if "UP" not in shown.get("flags", []):
        _ip("link", "set", "dev", bridge, "up")
    there = {a["local"] for a in shown.get("addr_info", [])}
    if address not in there:
        _ip("address", "add", f"{address}/24", "dev", bridge)
    if address6 not in there and IPV6_CONF.is_dir():
        # of the bridge alone: the host may have IPv6 turned off, and need not listen to routers here
        for key, value in (("disable_ipv6", "0"), ("accept_ra", "0"), ("forwarding", "0")):
            (IPV6_CONF / bridge / key).write_text(value, encoding="utf-8")
        _ip("address", "add", f"{address6}/128", "dev", bridge, "nodad")


def remove_bridge(index: int, layout: Layout) -> None:
    """Remove the instance's bridge and with it its address; one that names another instance stays.

    One without an alias is this instance's, as the index is: its `up` was killed between two commands.
    """
    if _owner(bridge_of(index)) in {"", _alias(layout)}:
        _ip("link", "delete", "dev", bridge_of(index))


def owned_bridge_index(layout: Layout) -> int | None:
    """Return the index of the bridge whose alias names this instance, None when there is none."""
    return next((index for index in INDICES if _owner(bridge_of(index)) == _alias(layout)), None)


def belongs_to_another(index: int, layout: Layout) -> bool:
    """Tell whether an index's bridge names another instance than this one."""
    return _owner(bridge_of(index)) not in {None, "", _alias(layout)}


def taken_indices() -> dict[int, str]:
    """Return the indices whose bridge, namespaces or addresses are in use on this host, each with the reason."""
    routed = _routed()
    namespaces = sorted(p.name for p in NETNS_DIR.glob("vmx*-*"))
    answer: dict[int, str] = {}
    for index in INDICES:
        block = ipaddress.IPv4Network(block_of(index))
        overlapping = [f"{net} on {device}" for net, device in routed if net.overlaps(block)]
        if _owner(bridge_of(index)) is not None:
            answer[index] = f"bridge {bridge_of(index)} exists"
        elif mine := [n for n in namespaces if n.startswith(f"{bridge_of(index)}-")]:
            answer[index] = f"network namespace {mine[0]} exists"
        elif overlapping:
            answer[index] = f"the host routes {', '.join(overlapping)}"
    return answer


def _routed() -> list[tuple[ipaddress.IPv4Network, str]]:
    """Return the networks that the host routes or has addresses in, but for the default route."""
    routes = _show("-4", "route", "show", "table", "all")
    there = [(route.get("dst", "default"), route.get("dev", "?")) for route in routes]
    return [(ipaddress.IPv4Network(to, strict=False), device) for to, device in there if to != "default"]


def _alias(layout: Layout) -> str:
    return f"{ALIAS_PREFIX}{layout.root}"[:255]


def _owner(bridge: str) -> str | None:
    """Return a link's alias, None when there is no such link."""
    try:
        return (SYS_NET / bridge / "ifalias").read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _show(*words: str) -> list[dict[str, Any]]:
    done = proc.run(["ip", "-json", *words], timeout=SECONDS)
    entries: list[dict[str, Any]] = json.loads(done.stdout or "[]")
    return entries


def _ip(*words: str) -> None:
    proc.run(["ip", *words], timeout=SECONDS)
