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

from harness.artifacts.node_images import network
from harness.errors import BadInput, InfraError
from harness.infra.guest_facts import HostKernel
from harness.infra.host.layout import Layout
from harness.infra.kind import cluster
from harness.infra.kind.cluster import (
    SYSCTL_FILE,
    Installed,
    KindCluster,
    KindConfig,
    KubeVirt,
    Made,
    Node,
    NodePlace,
    OwnNode,
    answer_for_pods,
    configuration,
    load_record,
    node_places,
    plugin_types,
    save_record,
    wanted,
)
from harness.infra.kind.engine import Engine
from harness.kube.resources import NODE, POD
from harness.proc import Completed
from harness.until import TimedOut
from tests.unit.fake_cluster import FakeCluster

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
    assert set(patches(document)) == {"KubeProxyConfiguration", "InitConfiguration", "JoinConfiguration"}


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


WORKERS: dict[int, tuple[str, ...]] = {
    0: ("a-control-plane",),
    1: ("a-control-plane", "a-worker"),
    2: ("a-control-plane", "a-worker", "a-worker2"),
    3: ("a-control-plane", "a-worker", "a-worker2", "a-worker3"),
}


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("node", [OWN, PUBLISHED], ids=["own", "published"])
def test_workers_have_the_node_image_too_and_join_as_patiently(node: Node, workers: int) -> None:
    document = yaml.safe_load(configuration("vmatrix-a", node, OLD, 300.0, workers=workers))
    roles = ["control-plane", *["worker"] * workers]
    assert document["nodes"] == [{"role": role, "image": node.image} for role in roles]
    told = patches(document)
    assert told["JoinConfiguration"]["timeouts"] == told["InitConfiguration"]["timeouts"]
    assert KindCluster("a", cast(Engine, Containers()), workers).nodes == WORKERS[workers]


@dataclass
class Containers:
    """The containers of a cluster: names, and which of them run; and what is run in them."""

    running: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    code: int = 0
    client: str = "docker"
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def containers(self, _cluster: str) -> list[dict[str, Any]]:
        """Return them as the engine describes them."""
        there = [(name, True) for name in self.running] + [(name, False) for name in self.ended]
        return [{"Name": f"/{name}", "State": {"Running": runs, "Pid": 7 if runs else 0}} for name, runs in there]

    def inside(self, container: str, *words: str, check: bool = True) -> Completed:
        """Take note of a command."""
        self.asked.append((container, *words))
        return Completed(words, self.code, "", "no such file", 0.0)


def test_a_cluster_runs_if_all_of_its_nodes_do() -> None:
    whole = Containers(running=WORKERS[2])
    assert KindCluster("a", cast(Engine, whole), 2).running()
    for gone in WORKERS[2]:
        rest = tuple(name for name in WORKERS[2] if name != gone)
        for engine_ in (Containers(running=rest), Containers(running=rest, ended=(gone,))):
            broken = KindCluster("a", cast(Engine, engine_), 2)
            assert not broken.running()
            assert broken.pids() == {**dict.fromkeys(WORKERS[2], 7), gone: None}


def test_each_node_has_to_reach_this_host() -> None:
    node = Containers()
    KindCluster("a", cast(Engine, node), 2).require_way_to("http://10.0.0.1/")
    assert [words[0] for words in node.asked] == list(WORKERS[2])
    with pytest.raises(InfraError, match="the node a-control-plane cannot reach"):
        KindCluster("a", cast(Engine, Containers(code=7)), 2).require_way_to("http://10.0.0.1/")


@pytest.mark.parametrize(
    ("made", "asked", "fits"), [(0, None, True), (2, None, True), (2, 2, True), (0, 2, False), (2, 0, False)]
)
def test_the_number_of_workers_is_that_of_the_instance(
    layout: Layout, made: int, asked: int | None, fits: bool
) -> None:
    save_record(layout, Made("embedded", "1.36.3", workers=made))
    if fits:
        assert wanted(layout, replace(config(None), workers=asked)).workers == made
        return
    with pytest.raises(BadInput, match=f"was made with --workers {made}, not {asked}"):
        wanted(layout, replace(config(None), workers=asked))


def test_a_new_one_has_the_workers_that_are_asked_for(layout: Layout) -> None:
    assert [wanted(layout, replace(config(None), workers=n)).workers for n in (None, 0, 2)] == [0, 0, 2]


PLACES = {
    "a-control-plane": NodePlace("172.18.0.2", "10.244.0.0/24"),
    "a-worker": NodePlace("172.18.0.3", "10.244.1.0/24"),
}


def node_object(name: str, address: str | None, pods: str | None) -> dict[str, Any]:
    addresses = [
        {"type": "Hostname", "address": name},
        *([{"type": "InternalIP", "address": address}] if address else []),
    ]
    return {"metadata": {"name": name}, "spec": {"podCIDR": pods} if pods else {}, "status": {"addresses": addresses}}


def test_pod_networks_are_waited_for() -> None:
    nodes = [node_object(name, place.address, place.pods) for name, place in PLACES.items()]
    assert node_places(FakeCluster({NODE: nodes}), list(PLACES), 0.0) == PLACES
    for lacking in (node_object("a-worker", None, "10.244.1.0/24"), node_object("a-worker", "172.18.0.3", None)):
        with pytest.raises(TimedOut, match="a-worker have none"):
            node_places(FakeCluster({NODE: [nodes[0], lacking]}), list(PLACES), 0.0)
    with pytest.raises(TimedOut, match="a-worker have none"):
        node_places(FakeCluster({NODE: nodes[:1]}), list(PLACES), 0.0)


def test_pods_of_nodes_of_our_own_image_reach_each_other() -> None:
    node = Containers()
    cluster.route_pods(cast(Engine, node), PLACES, network)
    told = {words[0]: (json.loads(words[-2]), words[-1]) for words in node.asked}
    assert told.keys() == PLACES.keys()
    for name, (written, unit) in told.items():
        own, (other,) = PLACES[name], [place for each, place in PLACES.items() if each != name]
        assert written["plugins"][0]["ipam"]["ranges"] == [[{"subnet": own.pods}]]
        routes = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
        assert routes == [f"ExecStart=/usr/sbin/ip route replace {other.pods} via {other.address}"]
    with pytest.raises(InfraError, match="the node a-control-plane has no routes to pods of other nodes: no such file"):
        cluster.route_pods(cast(Engine, Containers(code=1)), PLACES, network)


def test_pods_with_addresses_of_another_node_are_made_anew() -> None:
    def pod(name: str, node: str, address: str, **more: Any) -> dict[str, Any]:
        meta = {"name": name, "namespace": "kube-system"}
        return {"metadata": meta, "spec": {"nodeName": node, **more}, "status": {"podIP": address}}

    there = [
        pod("right", "a-worker", "10.244.1.2"),
        pod("wrong", "a-worker", "10.244.0.2"),
        pod("first", "a-control-plane", "10.244.0.3"),
        pod("proxy", "a-worker", "172.18.0.3", hostNetwork=True),
        pod("waits", "a-worker", ""),
        pod("elsewhere", "b", "10.244.0.9"),
    ]
    api = FakeCluster({POD: there})
    cluster.replace_pods(api, PLACES)
    assert [request for request in api.asked if request.startswith("DELETE")] == ["DELETE pods wrong"]
