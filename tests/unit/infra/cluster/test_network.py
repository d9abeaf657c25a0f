"""The infra cluster's own networks as they are read there, and guests' networks that collide with them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.infra.cluster.network import check_ipv6, check_networks, check_plugin, read_outer
from harness.kube.resources import CALICO_FELIX, CALICO_POOL, CONFIG_MAP, NODE, SERVICE, SERVICE_CIDR
from tests.unit.infra.cluster.networked import Cluster, any_of, config_map, named

GUESTS = {"pod network": "10.243.0.0/16", "service network": "10.95.0.0/16"}


def test_every_source_is_read_and_none_is_needed() -> None:
    flannel = json.dumps({"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan"}})
    kubeadm = "networking:\n  podSubnet: 10.10.0.0/16,fd00::/48\n  serviceSubnet: 10.11.0.0/16\n"
    node = named("n", podCIDR="10.12.0.0/24") | {
        "status": {"addresses": [{"type": "InternalIP", "address": "10.13.0.1"}]}
    }
    outer = read_outer(
        any_of(
            Cluster(
                lists={
                    NODE.kind: [node],
                    SERVICE_CIDR.kind: [named("kubernetes", cidrs=["10.14.0.0/16"])],
                    CALICO_POOL.kind: [named("default", cidr="10.15.0.0/16", vxlanMode="Always")],
                },
                objects={
                    (CONFIG_MAP.kind, "kube-flannel", "kube-flannel-cfg"): config_map(**{"net-conf.json": flannel}),
                    (CONFIG_MAP.kind, "kube-system", "kubeadm-config"): config_map(ClusterConfiguration=kubeadm),
                    (CONFIG_MAP.kind, "kube-system", "cilium-config"): config_map(
                        **{"cluster-pool-ipv4-cidr": "10.16.0.0/16", "tunnel-port": "8473"}
                    ),
                    (CALICO_FELIX.kind, "", "default"): named("default", vxlanPort=4790),
                    (SERVICE.kind, "default", "kubernetes"): named("kubernetes", clusterIPs=["10.17.0.1"]),
                },
            )
        ),
        ranges=["10.18.0.0/16"],
    )
    own = {"10.244.0.0/16", "10.10.0.0/16", "fd00::/48", "10.11.0.0/16", "10.12.0.0/24", "10.13.0.1/32", "10.14.0.0/16"}
    assert set(outer.networks) == own | {"10.15.0.0/16", "10.16.0.0/16", "10.17.0.1/32", "10.18.0.0/16"}
    assert outer.vxlan_ports == {8472, 8473, 4790}
    assert outer.vxlan_port() == 8474
    assert outer.known == {"pods", "services", "nodes"}


def test_where_nothing_may_be_read_the_setting_is_asked_for() -> None:
    (finding,) = check_networks(any_of(Cluster()), GUESTS)
    assert not finding.fatal
    assert "no permission to read the cluster's networks of pods and services" in finding.what
    assert "outer_networks" in finding.remedy
    assert list(check_networks(any_of(Cluster()), GUESTS, ["10.1.0.0/16"])) == []


def test_an_overlap_is_refused_with_a_network_that_is_free() -> None:
    given = ["10.0.0.0/10", "10.95.3.0/24", "10.243.0.0/24"]
    pods, services = check_networks(any_of(Cluster()), GUESTS, given)
    assert pods.fatal
    assert "10.243.0.0/16 overlaps with the cluster's 10.243.0.0/24 (pods, by the setting outer_networks)" in pods.what
    assert "`cluster_pod_cidr: 10.64.0.0/16`" in pods.remedy
    assert "`cluster_service_cidr: 10.65.0.0/16`" in services.remedy


@pytest.mark.parametrize(
    ("group", "fatal"),
    [
        ("crd.k8s.amazonaws.com/v1alpha1", [True]),
        ("cilium.io/v2", [False]),
        ("crd.projectcalico.org/v1", []),
        ("apps/v1", []),
    ],
)
def test_the_network_plugin_is_judged_for_bridged_machines(group: str, fatal: list[bool]) -> None:
    assert [f.fatal for f in check_plugin(any_of(Cluster(absent=False)), [group])] == fatal


class Pods:
    """A cluster with pods of these addresses, each by family; one on its node's network."""

    def __init__(self, *addresses: str) -> None:
        status = {"podIP": addresses[0], "podIPs": [{"ip": one} for one in addresses]} if addresses else {}
        self.pods = [
            {"spec": {"hostNetwork": True}, "status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "fd00::1"}]}},
            {"spec": {}, "status": status},
        ]

    def list(self, *_: object) -> SimpleNamespace:
        """List them."""
        return SimpleNamespace(items=self.pods)


def test_pods_without_ipv6_addresses_are_found_where_cells_need_them() -> None:
    assert list(check_ipv6(cast(Any, Pods("10.1.0.5", "fd10::5")))) == []
    (lacking,) = check_ipv6(cast(Any, Pods("10.1.0.5")))
    assert (lacking.fatal, "no IPv6 addresses" in lacking.what) == (True, True)
    (unknown,) = check_ipv6(cast(Any, Pods()))
    assert not unknown.fatal
