"""What kind is told about a cluster, read back as kind reads it."""

from __future__ import annotations

import json
import subprocess
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from harness.artifacts.node.rootfs import network
from harness.errors import BadInput, InfraError
from harness.infra.guest_facts import HostKernel
from harness.infra.host.layout import Layout
from harness.infra.kind import cluster
from harness.infra.kind.cluster import (
    SYSCTL_FILE,
    Installed,
    KindConfig,
    KubeVirt,
    Made,
    Node,
    OwnNode,
    answer_for_pods,
    configuration,
    load_record,
    plugin_types,
    save_record,
    wanted,
)
from harness.infra.kind.engine import Engine
from harness.proc import Completed

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


@pytest.mark.parametrize(("ready", "plane", "other"), [(300.0, "600s", "300s"), (3000.0, "6000s", "3000s")])
def test_kubeadm_waits_as_long_as_the_limit_says(ready: float, plane: str, other: str) -> None:
    times = patches(yaml.safe_load(configuration("vmatrix-a", PUBLISHED, MODERN, ready)))["InitConfiguration"][
        "timeouts"
    ]
    assert times.pop("controlPlaneComponentHealthCheck") == plane
    assert set(times.values()) == {other}
    assert {"kubeletHealthCheck", "kubernetesAPICall", "etcdAPICall", "tlsBootstrap", "discovery"} == times.keys()


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


ADDRESS = "10.213.0.1:5000"


class RegistryNode:
    """Runs words on this host."""

    client = "docker"

    def inside(self, container: str, *words: str, check: bool = True) -> Completed:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return Completed(words, done.returncode, done.stdout, done.stderr, 0.0)


def test_a_node_pulls_from_it_without_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CERTS_FOLDER", str(tmp_path / "certs.d"))
    for _ in range(2):
        cluster.trust_registry(cast(Engine, RegistryNode()), "n", ADDRESS)
    told = tomllib.loads((tmp_path / "certs.d" / ADDRESS / "hosts.toml").read_text(encoding="utf-8"))
    server = f"http://{ADDRESS}"
    assert told == {"server": server, "host": {server: {"capabilities": ["pull", "resolve"]}}}


def test_a_node_that_cannot_be_told_ends_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(cluster, "CERTS_FOLDER", str(tmp_path / "file"))
    with pytest.raises(InfraError, match=f"cannot be told of the registry {ADDRESS}"):
        cluster.trust_registry(cast(Engine, RegistryNode()), "n", ADDRESS)


KINDNET = json.dumps({"cniVersion": "0.3.1", "name": "kindnet", "plugins": [{"type": "ptp"}, {"type": "portmap"}]})
FLANNEL = json.dumps({"name": "cbr0", "plugins": [{"type": "flannel"}, {"type": "portmap"}]})


@dataclass
class PodNetworkNode:
    """A node's answers: its CNI configuration, and how a change ends."""

    configuration: str
    code: int = 0
    scripts: list[str] = field(default_factory=list)
    client: str = "docker"

    def inside(self, container: str, *words: str, check: bool = True) -> Completed:
        self.scripts.append(words[-1])
        if "cat" in words[-1]:
            return Completed(words, 0, self.configuration, "", 0.0)
        return Completed(words, self.code, "", "read-only file system", 0.0)


def engine(node: PodNetworkNode) -> Engine:
    return cast(Engine, node)


@pytest.mark.parametrize("configuration", [KINDNET, json.dumps(network()), ""], ids=["kindnet", "own", "not yet there"])
def test_a_network_of_links_is_answered_for_now_and_after_a_restart(configuration: str) -> None:
    node = PodNetworkNode(configuration)

    assert answer_for_pods(engine(node), "n")

    file = SYSCTL_FILE
    assert node.scripts[-1] == f"echo 'net.ipv4.conf.all.proxy_arp = 1' >{file} && sysctl --quiet --load={file}"


def test_another_network_is_left_as_it_is() -> None:
    node = PodNetworkNode(FLANNEL)

    assert not answer_for_pods(engine(node), "n")

    assert len(node.scripts) == 1


def test_a_node_that_refuses_is_an_infra_failure_with_the_command() -> None:
    with pytest.raises(InfraError) as caught:
        answer_for_pods(engine(PodNetworkNode(KINDNET, code=1)), "n")

    assert "read-only file system" in caught.value.summary
    assert "docker exec n sysctl -w net.ipv4.conf.all.proxy_arp=1" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "types"),
    [(KINDNET, ["ptp", "portmap"]), (json.dumps({"type": "bridge"}), ["bridge"]), ("", []), ("{", []), ("[]", [])],
)
def test_the_plugins_of_a_configuration(text: str, types: list[Any]) -> None:
    assert plugin_types(text) == types


def config(kubevirt: KubeVirt | None) -> KindConfig:
    return KindConfig(
        kubevirt=kubevirt,
        version="1.36.3",
        node_image=None,
        releases=Path("releases.yml"),
        kind=lambda: Path("kind"),
        own_node=lambda: OwnNode("image", Path("archive"), "repository"),
        own_node_made=lambda: True,
        say=lambda _: None,
    )


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout("a", tmp_path)


def test_a_new_one_gets_the_releases_unless_asked_otherwise(layout: Layout) -> None:
    assert wanted(layout, config(None)).kubevirt == "release"
    assert wanted(layout, config("embedded")).kubevirt == "embedded"


def test_one_that_is_there_is_taken_as_it_is(layout: Layout) -> None:
    save_record(layout, Made("embedded", "1.36.3"))

    assert wanted(layout, replace(config(None), releases=None)) == Made("embedded", "1.36.3")


def test_one_that_is_there_does_not_change_its_version(layout: Layout) -> None:
    save_record(layout, Made("embedded", "1.35.4"))

    with pytest.raises(BadInput, match=r"was made with Kubernetes 1\.35\.4, not 1\.36\.3"):
        wanted(layout, config(None))


def test_one_that_is_there_is_not_turned_into_the_other(layout: Layout) -> None:
    save_record(layout, Made("embedded", "1.36.3"))

    with pytest.raises(BadInput, match="was made with --kubevirt embedded"):
        wanted(layout, config("release"))


def test_what_was_chosen_and_installed_is_kept(layout: Layout) -> None:
    made = Made("release", "1.36.3", "hide", Path("/x.yml"), Installed("v1", "v2", ("kubevirt/op",)))
    save_record(layout, made)

    assert load_record(layout) == made
    assert wanted(layout, replace(config(None), releases=None)) == made


def test_what_is_chosen_anew_replaces_what_was(layout: Layout) -> None:
    save_record(layout, Made("release", "1.36.3", "hide", Path("/x.yml")))

    found = wanted(layout, replace(config(None), kvm="use"))

    assert (found.kvm, found.releases) == ("use", Path("releases.yml"))


def test_a_record_of_before_knows_of_no_whole_installation(layout: Layout) -> None:
    (layout.root / "kind.json").write_text('{"kubevirt": "release", "version": "1.36.3"}')

    assert load_record(layout) == Made("release", "1.36.3")


def test_a_damaged_record_is_none(layout: Layout) -> None:
    (layout.root / "kind.json").write_text("{")

    assert load_record(layout) is None
