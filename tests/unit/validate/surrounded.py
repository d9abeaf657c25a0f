"""What the recorded guest's machines would print of what surrounds their programs, changed as a test wants."""

from __future__ import annotations

import json

from harness.validate.facts.programs import MachineSetup, RunningPrograms, programs_of, setup_of
from tests.unit.validate import guests
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.moments import PAUSE, raw_running

REGISTRY = "10.222.0.1:5000"
CONFIG = f"""
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{PAUSE}'
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = '/etc/containerd/certs.d'
[plugins.'io.containerd.cri.v1.runtime'.cni]
conf_dir = '/etc/cni/net.d'
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = 'runc'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = '/usr/local/bin/runc'
SystemdCgroup = false
"""
DEFAULT = CONFIG.replace("SystemdCgroup = false", "SystemdCgroup = false\nRoot = ''")
for OWN in (PAUSE, "/etc/containerd/certs.d", "/usr/local/bin/runc"):
    DEFAULT = DEFAULT.replace(OWN, "")
CRIO = f"""
[crio]
storage_driver = "overlay"
[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
pinns_path = "/usr/local/bin/pinns"
namespaces_dir = "/run/crio/namespaces"
hooks_dir = ["/etc/crio/hooks.d"]
conmon = ""
[crio.runtime.runtimes.runc]
runtime_path = "/usr/local/bin/runc"
monitor_path = "/usr/bin/conmon"
[crio.image]
pause_image = "{PAUSE}"
signature_policy = "/etc/crio/policy.json"
[crio.network]
network_dir = "/etc/cni/net.d"
plugin_dirs = ["/opt/cni/bin"]
[crio.api]
listen = "/run/crio/crio.sock"
"""
CRIO_REGISTRIES = "/etc/containers/registries.conf.d/10-cluster.conf"
PROXY = {"mode": "nftables", "clusterCIDR": "10.243.0.0/16", "bindAddress": "0.0.0.0", "detectLocalMode": "ClusterCIDR"}  # noqa: S104
DIGEST = "sha256:" + "a" * 64
SUBNETS = {"cp-0": "10.243.0.0/24", "w-0": "10.243.1.0/24"}
VARIABLES = {**guests.VARIABLES, "cluster_pause_version": "3.10.2"}


def network(machine: str) -> Json:
    """Return the file of the pod network."""
    addresses = {"type": "host-local", "ranges": [[{"subnet": SUBNETS[machine]}]]}
    bridge = {"type": "bridge", "bridge": "cni0", "mtu": 1450, "ipam": addresses}
    return {"name": "flannel", "plugins": [bridge, {"type": "portmap"}]}


def raw_setup(machine: str) -> Json:
    """Return what a machine of the recorded guest prints."""
    ok, refused = {"status": 200, "body": "[+]ping ok\nreadyz check passed\n"}, {"status": 403, "body": "forbidden"}
    version = {"status": 200, "body": json.dumps({"gitVersion": "v1.36.3"})}
    api = {"/version": version, "/readyz?verbose": ok, "/api/v1/nodes": refused, "/api/v1/secrets": refused}
    return {
        "api": api if machine == "cp-0" else {},
        "resolvers": ["10.222.1.254"],
        "search": ["search example.net"],
        "resolved": {"cp-0": ["10.222.1.2"], "w-0": ["10.222.1.3"]},
        "kubelets_api": {"server": "https://127.0.0.1:6445", "status": 200, "body": "ok"},
        "limits": [],
        "servers": {f"/etc/containerd/certs.d/{REGISTRY}/hosts.toml": [f"http://{REGISTRY}"]},
        "cni": {"10-flannel.conflist": network(machine)},
        "bridged": {"cni0": 2},
        "rules": [["10.95.0.1", "tcp", "443"], ["10.95.0.10", "udp", "53"]],
        "images": {PAUSE: DIGEST, "docker.io/library/other:1": DIGEST},
        "kubelet": "kind: KubeletConfiguration\nclusterDomain: cluster.local\n",
        "drop_ins": {"kubelet.service": [], "containerd.service": []},
        "registries": [REGISTRY],
        "registries_conf": {},
        **raw_units(),
    }


UNLIMITED = {"LimitNOFILE": "524288", "LimitNOFILESoft": "1024", "LimitNPROC": "96365", "LimitNPROCSoft": "96365"}


def raw_units() -> Json:
    """Return what a machine prints of the cluster's services, with the settings of the product, and their processes."""
    said = guests.OURS.unit_settings or {}
    units: Json = {}
    processes: Json = {"1": limited("20000", "20000")}
    for place, name in enumerate(("kubelet.service", "containerd.service", "api-endpoint.service"), 900):
        limits = {**UNLIMITED, **{key: value for key, value in said[name].items() if key.startswith("Limit")}}
        units[name] = {"settings": dict(said[name]), "limits": limits, "restarts": 0, "reload": False, "pid": place}
        processes[str(place)] = limited("19999", "20000")
    return {"units": units, "processes": {"pids": {name: one["pid"] for name, one in units.items()}, "seen": processes}}


def limited(soft: str, hard: str) -> Json:
    """Return what a machine prints of a process that may open so many files."""
    limits = {"open files": [soft, hard], "processes": ["96365", "96365"]}
    return {"limits": limits, "oom": 0, "nice": 0, "state": "S", "cpus": "0-1"}


def in_place_of_containerd(raw: Json) -> None:
    """Let a machine's programs or surroundings be those of one that runs CRI-O."""
    if "containerd" in raw:
        raw |= {"containerd": None, "crio": {"config": CRIO, "changed": 900.0, "started": 1000.0, "default": CRIO}}
    else:
        text = f"[[registry]]\nlocation = '{REGISTRY}'\ninsecure = true\n"
        raw |= {"registries": [], "servers": {}, "registries_conf": {CRIO_REGISTRIES: text}}


def setups(change: Change = lambda _: None, *, of: str = "w-0") -> dict[str, MachineSetup]:
    """Return all machines' surroundings, those of one machine changed."""
    raw = {name: raw_setup(name) for name in ("cp-0", "w-0")}
    change(raw[of])
    return {name: setup_of(one) for name, one in raw.items()}


def running(change: Change = lambda _: None, *, of: str = "w-0") -> dict[str, RunningPrograms]:
    """Return all machines' running programs, those of one machine changed."""
    raw = {name: raw_running(name) for name in ("cp-0", "w-0")}
    for one in raw.values():
        one["containerd"] |= {"config": CONFIG, "default": DEFAULT}
        one["kube_proxy"]["body"] = json.dumps({"kubeproxy.config.k8s.io": dict(PROXY)})
    change(raw[of])
    return {name: programs_of(one) for name, one in raw.items()}
