"""What the roles write, rendered by Ansible itself and read back by a parser of its format."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import yaml

from harness import proc
from tests.unit import ansible_programs
from tests.unit.playbooks.playbook_files import PLAYBOOKS, ROLES

HERE = Path(__file__).parent
FILTERS = PLAYBOOKS / "filter_plugins"
ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
TEMPLATES = {
    "chosen.json": "../../tests/unit/playbooks/chosen.json.j2",
    "patches.json": "../../tests/unit/playbooks/patches.json.j2",
    "kubeadm-upgrade.yml": "kubeadm_upgrade/templates/upgrade.yml.j2",
    "kubeadm.yml": "control_plane/templates/kubeadm.yml.j2",
    "kubeadm-join-control-plane.yml": "control_plane_join/templates/kubeadm-join-control-plane.yml.j2",
    "haproxy.cfg": "api_endpoint/templates/haproxy.cfg.j2",
    "keepalived.conf": "virtual_address/templates/keepalived.conf.j2",
    "audit.yml": "hardening/templates/audit.yml.j2",
    "authentication.yml": "hardening/templates/authentication.yml.j2",
    "admission.yml": "hardening/templates/admission.yml.j2",
    "scheduler.yml": "scheduler/templates/config.yml.j2",
    "encryption.yml": "encryption_key/templates/encryption.yml.j2",
    "etcd-kubeadm.yml": "etcd/templates/kubeadm.yml.j2",
    "etcd.service": "etcd/templates/etcd.service.j2",
    "external-ca.yml": "external_ca/templates/kubeadm.yml.j2",
    "kubeadm-join.yml": "node/templates/kubeadm-join.yml.j2",
    "config-v3.toml": "container_runtime/templates/config-v3.toml.j2",
    "config-v2.toml": "container_runtime/templates/config-v2.toml.j2",
    "servers.json": "../../tests/unit/playbooks/servers.json.j2",
    "hosts.toml": "container_runtime/templates/hosts.toml.j2",
    "crio.conf": "container_runtime/templates/crio.conf.j2",
    "registries.conf": "container_runtime/templates/registries.conf.j2",
    "sysctl.conf": "preinstall/templates/sysctl.conf.j2",
    "flannel-cni.service": "network_plugin/templates/flannel-cni.service.j2",
    "flannel.yml": "network_plugin/templates/flannel.yml.j2",
    "pod-routes.conflist": "network_plugin/templates/pod-routes.conflist.j2",
    "pod-routes.service": "network_plugin/templates/pod-routes.service.j2",
    "metrics-server.yml": "addons/templates/metrics-server.yml.j2",
    "local-path-provisioner.yml": "addons/templates/local-path-provisioner.yml.j2",
    "metallb.yml": "addons/templates/metallb.yml.j2",
    "metallb-pool.yml": "addons/templates/metallb-pool.yml.j2",
    "kube-router.yml": "addons/templates/kube-router.yml.j2",
    "traefik.yml": "addons/templates/traefik.yml.j2",
}
SUBNET = "FLANNEL_NETWORK=10.243.0.0/16\nFLANNEL_SUBNET=10.243.7.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"


def sources() -> list[Path]:
    """Return the files of variables that a run of the playbooks has, and the tests' own."""
    known = [role / kind / "main.yml" for role in ROLES for kind in ("defaults", "vars")]
    known += [*sorted((PLAYBOOKS / "group_vars/all").glob("*.yml")), HERE / "variables.yml"]
    return [source for source in known if source.exists()]


@cache
def renderer() -> subprocess.Popen[str]:
    """Return a process of Ansible that renders for all tests of this one; it ends with its input."""
    home = mkdtemp()
    atexit.register(shutil.rmtree, home)
    made = subprocess.Popen(
        [sys.executable, HERE / "renderer.py", *sources()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "ANSIBLE_HOME": home,
            "ANSIBLE_FILTER_PLUGINS": str(FILTERS),
        },
    )
    atexit.register(made.communicate)
    return made


def render(topology: str, directory: Path, only: frozenset[str] = frozenset(), **more: Any) -> Path:
    """Render every template, or only those named, for the first control plane of a topology."""
    given = {
        "render": {name: place for name, place in TEMPLATES.items() if not only or name in only},
        "roles": str(PLAYBOOKS / "roles"),
        "encryption_key_new": ["b25l", "dHdv"],
        "static_pods_differing": ["etcd"],
        "virtual_address_links": {"stdout": json.dumps([{}, {"ifname": "eth0", "addr_info": []}])},
        **more,
    }
    for name, text in answered(topology, given).items():
        # before ansible-core 2.19, the text of a lookup that is JSON became what it says
        text = text if isinstance(text, str) else json.dumps(text)
        (directory / name).write_text(text, encoding="utf-8")
    return directory


def answered(topology: str | Path, given: dict[str, Any]) -> dict[str, Any]:
    """Return the text of each template of a request, by name; a topology may be an inventory's file."""
    inventory = HERE / f"inventories/{topology}.yml" if isinstance(topology, str) else topology
    request = {"inventory": str(inventory), "target": "cp", "given": given}
    program = renderer()
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(json.dumps(request) + "\n")
    program.stdin.flush()
    answer = json.loads(program.stdout.readline())
    assert "error" not in answer, answer
    return dict(answer["rendered"])


def test_what_is_rendered_is_what_a_run_of_the_play_has(tmp_path: Path) -> None:
    chosen = {name: TEMPLATES[name] for name in ("kubeadm.yml", "haproxy.cfg")}
    given = {"render": chosen, "target": "cp", "roles": str(PLAYBOOKS / "roles")}
    extra = [word for source in sources() for word in ("-e", f"@{source}")]
    words = [*extra, "-e", json.dumps(given)]
    argv: list[str | Path] = [ANSIBLE, "-i", HERE / "inventories/cp1-w1.yml", *words, HERE / "render.yml"]
    plugins = {"ANSIBLE_FILTER_PLUGINS": str(FILTERS)}
    done = proc.run(
        argv, timeout=300, env={**plugins, "ANSIBLE_HOME": str(tmp_path), "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
    )
    shown = re.search(r"^ok: \[cp\] => (\{.*?^\})", done.stdout, re.DOTALL | re.MULTILINE)
    assert shown is not None, done.stdout
    message = json.loads(shown[1])["msg"]
    expected = json.loads(message) if isinstance(message, str) else message
    assert answered("cp1-w1", given) == expected


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the rendered templates of a control plane that is not a node."""
    return render("cp1-w1", tmp_path_factory.mktemp("cp1-w1"))


@pytest.fixture(scope="module")
def all_in_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the rendered templates of a control plane that is a node as well, with other choices."""
    nested: dict[str, Any] = {"cluster_vxlan_port": 8473, "cluster_vxlan_mtu": 1350}
    return render("all-in-one", tmp_path_factory.mktemp("all-in-one"), cluster_kube_proxy_mode="iptables", **nested)


def documents(path: Path) -> dict[str, dict[str, Any]]:
    """Return a file's YAML documents by kind."""
    return {document["kind"]: document for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))}


def test_kubeadm_gets_everything_from_the_mirror(rendered: Path) -> None:
    cluster = documents(rendered / "kubeadm.yml")["ClusterConfiguration"]
    assert cluster["kubernetesVersion"] == "v1.36.3"
    assert cluster["imageRepository"] == "10.0.0.1:5000"
    assert cluster["dns"] == {"imageTag": "v1.14.2"}
    assert cluster["etcd"]["local"]["imageTag"] == "3.6.8-0"
    assert cluster["controlPlaneEndpoint"] == "127.0.0.1:6445"


def test_component_configurations_are_merged_with_what_the_infra_needs(rendered: Path) -> None:
    found = documents(rendered / "kubeadm.yml")
    assert found["KubeletConfiguration"]["cgroupDriver"] == "cgroupfs"
    assert found["KubeletConfiguration"]["failCgroupV1"] is False
    assert found["KubeletConfiguration"]["serializeImagePulls"] is False
    assert found["KubeProxyConfiguration"]["mode"] == "nftables"
    assert found["KubeProxyConfiguration"]["conntrack"] == {"maxPerCore": 0, "min": 0}


def test_only_a_control_plane_that_is_a_node_gets_no_taint(rendered: Path, all_in_one: Path) -> None:
    of_control_plane = documents(rendered / "kubeadm.yml")["InitConfiguration"]["nodeRegistration"]
    of_both = documents(all_in_one / "kubeadm.yml")["InitConfiguration"]["nodeRegistration"]
    assert "taints" not in of_control_plane
    assert of_both["taints"] == []


def test_a_single_control_plane_is_reached_without_asking_whether_it_is_there(rendered: Path) -> None:
    config = (rendered / "haproxy.cfg").read_text()
    assert "bind 127.0.0.1:6445" in config
    assert re.findall(r"^  server .*$", config, re.M) == ["  server cp 10.0.0.2:6443"]
    assert "httpchk" not in config


def test_several_control_planes_are_asked_whether_they_are_ready(tmp_path: Path) -> None:
    config = (render("cp3-w1", tmp_path, frozenset({"haproxy.cfg"})) / "haproxy.cfg").read_text()
    checked, _, unchecked = config.partition("backend any_control_plane\n")
    assert re.findall(r"^  server (\S+)", checked, re.M) == ["cp", "cp-1", "cp-2"]
    assert "option httpchk GET /readyz" in checked
    assert re.findall(r"^  server (\S+)", unchecked, re.M) == ["cp", "cp-1", "cp-2"]
    assert "check" not in unchecked
    assert "use_backend any_control_plane if { nbsrv(control_planes) eq 0 }" in checked
    assert "check-ssl verify none" in config


IPV6_ALONE: dict[str, Any] = {
    "cluster_pod_cidr": "fd10:243::/56",
    "cluster_service_cidr": "fd10:95::/112",
    "cluster_hosts": [{"name": "cp", "address": "2001:db8::2"}, {"name": "w", "address": "2001:db8::3"}],
}
# By a cluster: who its packets are sent to, and whether others' are looked at.
PEERS = {
    "cp1-w1": ({}, "192.0.2.50", "127.0.0.1", False),
    "cp1-w1 of IPv6": (IPV6_ALONE, "2001:db8::50", "2001:db8::50", True),
    "cp3-w1": ({}, "192.0.2.50", "10.0.0.4", False),
}


@pytest.mark.parametrize("case", PEERS)
def test_a_lone_control_plane_tells_nobody_of_its_virtual_address(case: str, tmp_path: Path) -> None:
    given, address, peer, looks = PEERS[case]
    name = "keepalived.conf"
    place = render(case.split()[0], tmp_path, frozenset({name}), cluster_api_virtual_address=address, **given)
    text = (place / name).read_text(encoding="utf-8")
    peers = text.partition("unicast_peer {")[2].partition("}")[0].split()
    assert peers[0] == peer
    assert ("check_unicast_src" in text) == looks
    assert ("::1" in peers) is False


def test_what_leaves_counts_no_more(tmp_path: Path) -> None:
    only = frozenset({"haproxy.cfg", "kubeadm.yml", "chosen.json"})
    place = render("cp2-etcd3-w1", tmp_path, only, cluster_remove_nodes=["cp-1"], cluster_lost_nodes=["etcd-2"])
    assert re.findall(r"^  server (\S+)", (place / "haproxy.cfg").read_text(), re.M) == ["cp"]
    external = documents(place / "kubeadm.yml")["ClusterConfiguration"]["etcd"]["external"]
    assert external["endpoints"] == ["https://10.0.0.6:2379", "https://10.0.0.7:2379"]
    assert "10.0.0.8" not in (place / "chosen.json").read_text()


def test_flags_are_strings_and_the_callers_win(tmp_path: Path) -> None:
    given = {"audit-log-maxage": 7, "shutdown-send-retry-after": "false"}
    place = render("cp1-w1", tmp_path, frozenset({"kubeadm.yml"}), cluster_apiserver_extra_args=given)
    flags = documents(place / "kubeadm.yml")["ClusterConfiguration"]["apiServer"]["extraArgs"]
    assert {"name": "audit-log-maxage", "value": "7"} in flags
    assert {"name": "shutdown-send-retry-after", "value": "false"} in flags


def test_machines_join_by_the_discovery_file(rendered: Path) -> None:
    join = documents(rendered / "kubeadm-join.yml")["JoinConfiguration"]
    assert join["discovery"] == {"file": {"kubeConfigPath": "/run/kubeadm-discovery.conf"}}
    assert join["nodeRegistration"]["ignorePreflightErrors"] == ["SystemVerification", "NumCPU", "Mem"]


def test_containerd_2_is_configured_as_the_machine_needs(rendered: Path) -> None:
    config = tomllib.loads((rendered / "config-v3.toml").read_text())
    images, runtime = (config["plugins"][f"io.containerd.cri.v1.{name}"] for name in ("images", "runtime"))
    assert config["version"] == 3
    assert images["pinned_images"] == {"sandbox": "10.0.0.1:5000/pause:3.10.2"}
    assert runtime["restrict_oom_score_adj"] is True
    assert runtime["containerd"]["runtimes"]["runc"]["options"]["SystemdCgroup"] is False


def test_containerd_1_is_configured_the_same_in_its_own_words(rendered: Path) -> None:
    config = tomllib.loads((rendered / "config-v2.toml").read_text())
    cri = config["plugins"]["io.containerd.grpc.v1.cri"]
    assert config["version"] == 2
    assert cri["sandbox_image"] == "10.0.0.1:5000/pause:3.10.2"
    assert cri["restrict_oom_score_adj"] is True
    assert cri["registry"] == {"config_path": "/etc/containerd/certs.d"}
    assert cri["containerd"]["runtimes"]["runc"]["options"]["SystemdCgroup"] is False


def test_crio_is_configured_as_the_machine_needs(rendered: Path) -> None:
    config = tomllib.loads((rendered / "crio.conf").read_text())["crio"]
    assert config["image"]["pause_image"] == "10.0.0.1:5000/pause:3.10.2"
    assert config["runtime"]["cgroup_manager"] == "cgroupfs"
    assert config["runtime"]["hooks_dir"] == ["/etc/crio/hooks.d"]  # in the folder that a reset removes
    assert config["runtime"]["runtimes"]["runc"]["runtime_path"] == "/usr/local/lib/runc-within-limits"
    registries = tomllib.loads((rendered / "registries.conf").read_text())
    own = {"prefix": "10.0.0.1:5000", "location": "10.0.0.1:5000", "insecure": True}
    assert registries == {"registry": [own]}


def test_crios_settings_go_into_their_tables(tmp_path: Path) -> None:
    given = {"pids_limit": 2048, "pull_progress_timeout": "30s"}
    chosen: dict[str, Any] = {"cluster_container_runtime": "crio", "cluster_crio_config": given}
    chosen |= {"cluster_crio_within_limits": False, "cluster_crio_systemd_cgroup": True}
    names = frozenset({"crio.conf", "kubeadm.yml", "kubeadm-join.yml"})
    directory = render("cp1-w1", tmp_path, names, **chosen)
    config = tomllib.loads((directory / "crio.conf").read_text())["crio"]
    assert config["runtime"]["pids_limit"] == 2048
    assert config["runtime"]["cgroup_manager"] == "systemd"
    assert config["runtime"]["runtimes"]["runc"]["runtime_path"] == "/usr/local/bin/runc"
    assert config["image"]["pull_progress_timeout"] == "30s"
    socket = "unix:///run/crio/crio.sock"
    assert documents(directory / "kubeadm.yml")["InitConfiguration"]["nodeRegistration"]["criSocket"] == socket
    assert documents(directory / "kubeadm-join.yml")["JoinConfiguration"]["nodeRegistration"]["criSocket"] == socket


def test_images_are_pulled_in_plain_http(rendered: Path) -> None:
    hosts = tomllib.loads((rendered / "hosts.toml").read_text())
    assert hosts == {"server": "http://10.0.0.1:5000", "host": {}}


OTHERS = [
    {"name": "registry.example:5050", "ca": "-----BEGIN CERTIFICATE-----"},
    {"name": "10.0.0.1:5001", "server": "http://10.0.0.1:5002"},
]
SERVERS = {
    "10.0.0.1:5000": "http://10.0.0.1:5000",
    "registry.example:5050": "https://registry.example:5050",
    "10.0.0.1:5001": "http://10.0.0.1:5002",
}


def test_crio_asks_further_registries_where_they_are(tmp_path: Path) -> None:
    names = frozenset({"registries.conf"})
    directory = render("cp1-w1", tmp_path, names, cluster_container_runtime="crio", cluster_registries=OTHERS)
    _, *others = tomllib.loads((directory / "registries.conf").read_text())["registry"]
    assert others == [
        {"prefix": "registry.example:5050", "location": "registry.example:5050", "insecure": False},
        {"prefix": "10.0.0.1:5001", "location": "10.0.0.1:5002", "insecure": True},
    ]


@pytest.mark.parametrize("name", SERVERS)
def test_containerd_asks_further_registries_where_they_are(tmp_path: Path, name: str) -> None:
    names, endpoint = frozenset({"hosts.toml", "servers.json"}), {"key": name, "value": SERVERS[name]}
    directory = render("cp1-w1", tmp_path, names, cluster_registries=OTHERS, container_runtime_endpoint=endpoint)
    assert json.loads((directory / "servers.json").read_text()) == SERVERS
    hosts = tomllib.loads((directory / "hosts.toml").read_text())
    ca = {"ca": f"/etc/containerd/certs.d/{name}/ca.crt"} if name == OTHERS[0]["name"] else {}
    assert hosts == {"server": SERVERS[name], **ca, "host": {}}


def test_flannel_writes_the_kind_of_rules_that_kube_proxy_does(rendered: Path, all_in_one: Path) -> None:
    def network(directory: Path) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(documents(directory / "flannel.yml")["ConfigMap"]["data"]["net-conf.json"])
        return found

    backend = {"Type": "vxlan", "Port": 8472}
    assert network(rendered) == {"Network": "10.243.0.0/16", "EnableNFTables": True, "Backend": backend}
    assert network(all_in_one)["EnableNFTables"] is False
    assert network(all_in_one)["Backend"] == {"Type": "vxlan", "Port": 8473, "MTU": 1350}


def test_flannel_does_not_wait_for_kube_proxy(rendered: Path) -> None:
    (container,) = documents(rendered / "flannel.yml")["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert (environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]) == ("127.0.0.1", "6445")


def flannel_cni(directory: Path, place: Path) -> str:
    """Run flannel-cni as its unit does, with a machine's files in a folder; return what it says."""
    unit = (directory / "flannel-cni.service").read_text(encoding="utf-8")
    (arguments,) = re.findall(r"^ExecStart=/usr/local/lib/flannel-cni (.+)$", unit, re.M)
    program = (PLAYBOOKS / "roles/network_plugin/files/flannel-cni").read_text(encoding="utf-8")
    program = program.replace("/run/flannel/", f"{place}/").replace("/etc/cni/net.d", str(place / "net.d"))
    program = program.replace("/sys/class/net/", f"{place}/")
    return proc.run(["sh", "-s", *arguments.split()], timeout=10, stdin=program).stdout


def tunnel_of_ipv6(place: Path, mtu: int, vni: int = 1) -> None:
    """Have flanneld's interface for IPv6, by the name that it gives it."""
    (place / f"flannel-v6.{vni}").mkdir()
    (place / f"flannel-v6.{vni}/mtu").write_text(f"{mtu}\n", encoding="utf-8")


def test_a_subnet_becomes_a_cni_configuration_once(rendered: Path, tmp_path: Path) -> None:
    (tmp_path / "subnet.env").write_text(SUBNET)
    first, second = (flannel_cni(rendered, tmp_path) for _ in range(2))
    bridge, portmap = json.loads((tmp_path / "net.d/10-flannel.conflist").read_text())["plugins"]
    assert first == f"wrote {tmp_path}/net.d/10-flannel.conflist\n"
    assert second == ""
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.243.7.0/24"}]]
    assert bridge["mtu"] == 1450
    assert portmap["backend"] == "nftables"
    assert [path.name for path in (tmp_path / "net.d").iterdir()] == ["10-flannel.conflist"]


IPV6: dict[str, Any] = {"cluster_ipv6_pod_cidr": "fd10:243::/56", "cluster_ipv6_service_cidr": "fd10:95::/112"}


@pytest.fixture(scope="module")
def dual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the rendered templates of a control plane of both IP families."""
    hosts = [{"name": "cp", "address": "10.0.0.2", "ipv6_address": "fd00::2"}]
    hosts += [{"name": "w", "address": "10.0.0.3", "ipv6_address": "fd00::3"}]
    return render("cp1-w1", tmp_path_factory.mktemp("dual"), cluster_hosts=hosts, **IPV6)


def test_kubeadm_and_flannel_get_networks_of_both_families(dual: Path) -> None:
    found = documents(dual / "kubeadm.yml")
    networking = found["ClusterConfiguration"]["networking"]
    assert networking["podSubnet"] == "10.243.0.0/16,fd10:243::/56"
    assert networking["serviceSubnet"] == "10.95.0.0/16,fd10:95::/112"
    assert "fd00::2" in found["ClusterConfiguration"]["apiServer"]["certSANs"]
    assert found["KubeProxyConfiguration"]["clusterCIDR"] == networking["podSubnet"]
    arguments = found["InitConfiguration"]["nodeRegistration"]["kubeletExtraArgs"]
    assert arguments == [{"name": "node-ip", "value": "10.0.0.2,fd00::2"}]
    flannel = json.loads(documents(dual / "flannel.yml")["ConfigMap"]["data"]["net-conf.json"])
    assert (flannel["EnableIPv6"], flannel["IPv6Network"]) == (True, "fd10:243::/56")
    assert "net.ipv6.conf.all.forwarding = 1" in (dual / "sysctl.conf").read_text()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the rendered templates of a control plane of IPv6 alone."""
    hosts = [{"name": "cp", "address": "fd00::2"}, {"name": "w", "address": "fd00::3"}]
    networks: dict[str, Any] = {"cluster_pod_cidr": "fd10:243::/56", "cluster_service_cidr": "fd10:95::/112"}
    sources: dict[str, Any] = {
        "cluster_mirror_url": "http://[fd00::9]:8080",
        "cluster_image_registry": "[fd00::9]:5000",
    }
    return render("cp1-w1", tmp_path_factory.mktemp("alone"), cluster_hosts=hosts, **networks, **sources)


def test_addresses_of_ipv6_are_in_brackets_in_front_of_a_port(alone: Path) -> None:
    found = documents(alone / "kubeadm.yml")
    assert found["ClusterConfiguration"]["imageRepository"] == "[fd00::9]:5000"
    assert found["ClusterConfiguration"]["networking"]["podSubnet"] == "fd10:243::/56"
    assert found["InitConfiguration"]["localAPIEndpoint"]["advertiseAddress"] == "fd00::2"
    assert "server cp [fd00::2]:6443" in (alone / "haproxy.cfg").read_text()
    image = documents(alone / "flannel.yml")["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image.startswith("[fd00::9]:5000/flannel:")


def test_flannel_of_ipv6_alone_has_no_network_of_ipv4(alone: Path, tmp_path: Path) -> None:
    flannel = json.loads(documents(alone / "flannel.yml")["ConfigMap"]["data"]["net-conf.json"])
    assert (flannel["EnableIPv4"], flannel["EnableIPv6"], flannel["IPv6Network"]) == (False, True, "fd10:243::/56")
    assert "Network" not in flannel
    assert "net.ipv6.conf.all.forwarding = 1" in (alone / "sysctl.conf").read_text()
    (tmp_path / "subnet.env").write_text(
        "FLANNEL_IPV6_NETWORK=fd10:243::/56\nFLANNEL_IPV6_SUBNET=fd10:243:0:7::1/64\nFLANNEL_MTU=1450\n"
    )
    tunnel_of_ipv6(tmp_path, 1430)
    flannel_cni(alone, tmp_path)
    bridge, _ = json.loads((tmp_path / "net.d/10-flannel.conflist").read_text())["plugins"]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "fd10:243:0:7::/64"}]]
    assert bridge["ipam"]["routes"] == [{"dst": "fd10:243::/56"}]
    assert bridge["mtu"] == 1430


def test_machines_without_ipv6_networks_are_left_as_they_are(rendered: Path) -> None:
    assert "net.ipv6.conf.all.forwarding = 1" not in (rendered / "sysctl.conf").read_text()
    assert "IPv6" not in (rendered / "flannel.yml").read_text()


@pytest.mark.parametrize(
    ("address", "subnet"),
    [("fd10:243:0:7::1/64", "fd10:243:0:7::/64"), ("fd10:243::1:0:0:1/80", "fd10:243::1:0:0:0/80")],
)
def test_subnets_of_both_families_become_a_cni_configuration(
    dual: Path, tmp_path: Path, address: str, subnet: str
) -> None:
    (tmp_path / "subnet.env").write_text(f"{SUBNET}FLANNEL_IPV6_NETWORK=fd10:243::/56\nFLANNEL_IPV6_SUBNET={address}\n")
    tunnel_of_ipv6(tmp_path, 1430)
    flannel_cni(dual, tmp_path)
    bridge, _ = json.loads((tmp_path / "net.d/10-flannel.conflist").read_text())["plugins"]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.243.7.0/24"}], [{"subnet": subnet}]]
    assert bridge["mtu"] == 1430  # what VXLAN over IPv6 leaves of 1500


def test_the_tunnel_of_another_network_is_asked_by_its_name(tmp_path: Path) -> None:
    hosts = [{"name": "cp", "address": "10.0.0.2", "ipv6_address": "fd00::2"}]
    hosts += [{"name": "w", "address": "10.0.0.3", "ipv6_address": "fd00::3"}]
    only = frozenset({"flannel-cni.service", "flannel.yml"})
    render("cp1-w1", tmp_path, only, cluster_hosts=hosts, **IPV6, cluster_vxlan_vni=7)
    flannel = json.loads(documents(tmp_path / "flannel.yml")["ConfigMap"]["data"]["net-conf.json"])
    (tmp_path / "subnet.env").write_text(f"{SUBNET}FLANNEL_IPV6_SUBNET=fd10:243:0:7::1/64\n")
    tunnel_of_ipv6(tmp_path, 1430, flannel["Backend"]["VNI"])
    flannel_cni(tmp_path, tmp_path)
    written = (tmp_path / "net.d/10-flannel.conflist").read_text(encoding="utf-8")
    assert json.loads(written)["plugins"][0]["mtu"] == 1430
    # An earlier unit, which systemd may have until it reads units again, names no interface.
    unit = tmp_path / "flannel-cni.service"
    unit.write_text(unit.read_text("utf-8").replace(" flannel-v6.7", ""), encoding="utf-8")
    tunnel_of_ipv6(tmp_path, 1430)
    assert flannel_cni(tmp_path, tmp_path) == ""


def test_a_subnet_of_one_family_is_waited_with(dual: Path, tmp_path: Path) -> None:
    (tmp_path / "subnet.env").write_text(SUBNET)
    assert "no IPv6 subnet yet" in flannel_cni(dual, tmp_path)
    assert not (tmp_path / "net.d").exists()


def test_without_a_subnet_there_is_no_cni_configuration(rendered: Path, tmp_path: Path) -> None:
    assert flannel_cni(rendered, tmp_path) == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kubelet", "flag"),
    [({}, "--kubelet-insecure-tls"), ({"serverTLSBootstrap": True}, "--kubelet-certificate-authority=")],
)
def test_metrics_server_verifies_kubelets_whose_certificates_the_cluster_signs(
    tmp_path: Path, kubelet: dict[str, Any], flag: str
) -> None:
    only = frozenset({"metrics-server.yml"})
    place = render("cp1-w1", tmp_path, only, cluster_metrics_server_version="0.9.0", cluster_kubelet_config=kubelet)
    objects = {o["kind"]: o for o in yaml.safe_load_all((place / "metrics-server.yml").read_text(encoding="utf-8"))}
    (container,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith("metrics-server:v0.9.0")
    (trust,) = [arg for arg in container["args"] if "insecure" in arg or "authority" in arg]
    assert trust.startswith(flag)


def test_the_provisioner_makes_folders_as_an_account_that_there_is(rendered: Path) -> None:
    objects = list(yaml.safe_load_all((rendered / "local-path-provisioner.yml").read_text(encoding="utf-8")))
    accounts = {o["metadata"]["name"] for o in objects if o["kind"] == "ServiceAccount"}
    (pod,) = [o["spec"]["template"]["spec"] for o in objects if o["kind"] == "Deployment"]
    (account,) = [env["valueFrom"] for env in pod["containers"][0]["env"] if env["name"] == "SERVICE_ACCOUNT_NAME"]
    assert account == {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}
    assert pod["serviceAccountName"] in accounts
    (settings,) = [o["data"] for o in objects if o["kind"] == "ConfigMap"]
    assert yaml.safe_load(settings["helperPod.yaml"])["spec"]["automountServiceAccountToken"] is False
    assert json.loads(settings["config.json"])["nodePathMap"][0]["paths"] == ["/var/lib/local-path-provisioner"]


@pytest.mark.parametrize("topology", ["cp1-w1", "all-in-one", "cp2-etcd3-w1"])
def test_playbooks_are_valid_for_a_topology(topology: str, tmp_path: Path) -> None:
    inventory = HERE / f"inventories/{topology}.yml"
    done = ansible_programs.run(
        [ANSIBLE, "--syntax-check", "-i", inventory, PLAYBOOKS / "cluster.yml"],
        timeout=120,
        env={"ANSIBLE_HOME": str(tmp_path)},
    )
    assert "cluster.yml" in done.stdout
