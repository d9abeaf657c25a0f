"""Which addresses, ports and bridge an instance has on the host, by its index."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network

from harness.embedded.machines.names import API_PORT, MAX_INSTANCES, MIRROR_PORT, REGISTRY_PORT, Names
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


def _mirror_at(address: str) -> Mirror:
    return Mirror(http=f"http://{joined(address, MIRROR_PORT)}", registry=joined(address, REGISTRY_PORT))
