"""What kind is told about a cluster, read back as kind reads it."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import yaml

from harness.infra.host.guests import HostKernel
from harness.infra.kind.cluster import Node, configuration

OWN = Node("vmatrix/kind-node:v1.36.3-abc", own=True, repository="vmatrix.invalid")
PUBLISHED = Node("kindest/node:v1.36.3", own=False)
MODERN = HostKernel(unified_cgroups=True, may_raise_limits=True)
OLD = HostKernel(unified_cgroups=False, may_raise_limits=True)


def read(node: Node, host: HostKernel) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(configuration("vmatrix-a", node, host))
    return document


def patches(document: dict[str, Any]) -> dict[str, Any]:
    found = [yaml.safe_load(text) for text in document["kubeadmConfigPatches"]]
    return {patch["kind"]: patch for patch in found}


def test_a_published_node_on_a_modern_host_is_left_as_kind_makes_it() -> None:
    document = read(PUBLISHED, MODERN)

    assert document["nodes"] == [{"role": "control-plane", "image": "kindest/node:v1.36.3"}]
    assert "disableDefaultCNI" not in document["networking"]
    (patch,) = map(tomllib.loads, document["containerdConfigPatches"])
    assert patch == {"plugins": {"io.containerd.grpc.v1.cri": {"registry": {"config_path": "/etc/containerd/certs.d"}}}}
    assert set(patches(document)) == {"KubeProxyConfiguration", "InitConfiguration"}


def test_a_node_of_our_own_brings_its_network_and_its_images() -> None:
    document = read(OWN, MODERN)

    assert document["networking"]["disableDefaultCNI"] is True
    assert patches(document)["ClusterConfiguration"]["imageRepository"] == "vmatrix.invalid"


def test_kubelet_and_containerd_are_told_of_cgroup_v1() -> None:
    document = read(PUBLISHED, OLD)

    kubelet = patches(document)["KubeletConfiguration"]
    assert (kubelet["failCgroupV1"], kubelet["cgroupDriver"], kubelet["cgroupRoot"]) == (False, "cgroupfs", "/kubelet")
    assert "SystemdCgroup = false" in "".join(document["containerdConfigPatches"])


@pytest.mark.parametrize("may", [True, False])
def test_scores_are_only_lowered_where_the_host_can(may: bool) -> None:
    document = read(PUBLISHED, HostKernel(unified_cgroups=True, may_raise_limits=may))

    assert ("restrict_oom_score_adj = true" in "".join(document["containerdConfigPatches"])) is not may
