"""Kind cluster: how it is configured, created, found and removed. State is the engine's, found by label.

KubeVirt's DHCP gives a guest its pod's address with the pod's prefix (a /24 on kind), so the guest asks by ARP for
every other pod of the node. The plugin ptp, which kindnet and our own node images use, gives each pod a link of its
own, on which nobody answers: machines reach no pod of their node, and no pod reaches them. With proxy ARP the node
answers for the addresses that it has a route to. docs/decisions/pod-network.md has what was tried.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from harness import proc
from harness.errors import BadInput, InfraError
from harness.files import write_atomically
from harness.infra.guest_facts import HostKernel
from harness.infra.host.layout import Layout
from harness.infra.kind.engine import Engine
from harness.infra.kind.kvm import Kvm
from harness.kube.client import Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import NODE, POD
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, until

KubeVirt = Literal["release", "embedded"]
Say = Callable[[str], None]


@dataclass(frozen=True)
class OwnNode:
    """A node image of our making: its name, the archive it is loaded from, the repository of the images in it."""

    image: str
    archive: Path
    repository: str


@dataclass(frozen=True)
class KindLimits:
    """Seconds for the steps of a start, as in timeouts.yml without `kind_`; the defaults where nothing is started."""

    create: float = 1200.0
    ready: float = 300.0
    kubevirt: float = 900.0
    pull: float = 600.0
    load: float = 900.0

    @staticmethod
    def of(timeouts: Timeouts) -> KindLimits:
        """Return the limits that a site's timeouts.yml sets."""
        return KindLimits(
            create=timeouts.kind_create,
            ready=timeouts.kind_ready,
            kubevirt=timeouts.kind_kubevirt,
            pull=timeouts.kind_pull,
            load=timeouts.kind_load,
        )


@dataclass(frozen=True)
class KindConfig:
    """One instance's settings.

    Attributes:
        kubevirt: `release` installs KubeVirt and CDI, `embedded` attaches our own part; None: what the instance has,
            or else `release`.
        version: of Kubernetes.
        node_image: one that the engine has or can pull; None: a published one of that version, or else our own.
        releases: the file that names KubeVirt's and CDI's releases; None: what the instance has, or else the default.
        kvm: whether this host's KVM is used; None: what the instance has, or else `auto`.
        kind: returns the program `kind`, obtained first if need be.
        own_node: returns our own node, made first if need be; may take minutes.
        own_node_made: tells whether `own_node` has nothing to do.
        say: is told each step in one line.
        limits: how long the steps may take.
        guest_vars: the user's file of variables for machines of releases.
        workers: nodes beside the control plane; None: what the instance has, or else none.
    """

    kubevirt: KubeVirt | None
    version: str
    node_image: str | None
    releases: Path | None
    kind: Callable[[], Path]
    own_node: Callable[[], OwnNode]
    own_node_made: Callable[[], bool]
    say: Say
    limits: KindLimits = KindLimits()
    kvm: Kvm | None = None
    guest_vars: Path | None = None
    workers: int | None = None


@dataclass(frozen=True)
class Installed:
    """What an installation of releases came to: the versions, and the operators' Deployments as NAMESPACE/NAME."""

    kubevirt: str
    cdi: str
    operators: tuple[str, ...]


@dataclass(frozen=True)
class Made:
    """Which KubeVirt an instance has, of which Kubernetes version it is, and what was chosen of it.

    kvm: whether this host's is used.  releases: the file of KubeVirt's and CDI's releases; None for the default.
    installed: None as long as the installation of releases has not come to its end.
    workers: nodes beside the control plane.
    """

    kubevirt: KubeVirt
    version: str
    kvm: Kvm = "auto"
    releases: Path | None = None
    installed: Installed | None = None
    workers: int = 0


def load_record(layout: Layout) -> Made | None:
    """Read it; None when there is none or it is unreadable."""
    try:
        raw = json.loads((layout.root / "kind.json").read_text(encoding="utf-8"))
        return Made(
            "embedded" if raw["kubevirt"] == "embedded" else "release",
            str(raw["version"]),
            kvm=next((known for known in get_args(Kvm) if known == raw.get("kvm")), "auto"),
            releases=Path(raw["releases"]) if raw.get("releases") else None,
            installed=_installed(raw.get("installed")),
            workers=int(raw.get("workers", 0)),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _installed(raw: Mapping[str, Any] | None) -> Installed | None:
    return Installed(str(raw["kubevirt"]), str(raw["cdi"]), tuple(map(str, raw["operators"]))) if raw else None


def save_record(layout: Layout, made: Made) -> None:
    """Write it."""
    write_atomically(layout.root / "kind.json", json.dumps(asdict(made), default=str) + "\n")


def wanted(layout: Layout, config: KindConfig) -> Made:
    """Return what an instance is, or is to be.

    Raises:
        BadInput: it exists with another KubeVirt, Kubernetes version or number of workers than is asked for.
    """
    record = load_record(layout)
    if record is None:
        kubevirt, kvm = config.kubevirt or "release", config.kvm or "auto"
        return Made(kubevirt, config.version, kvm, config.releases, workers=config.workers or 0)
    asked: tuple[tuple[str, object, object], ...] = (
        ("--kubevirt", record.kubevirt, config.kubevirt),
        ("Kubernetes", record.version, config.version),
        ("--workers", record.workers, config.workers),
    )
    for what, made, other in asked:
        if other not in (None, made):
            raise BadInput(
                f"instance {layout.name} was made with {what} {made}, not {other}",
                hint=f"vmatrix infra down --provider kind --infra-name {layout.name}, then up again",
            )
    return replace(record, kvm=config.kvm or record.kvm, releases=config.releases or record.releases)


CERTS_FOLDER = "/etc/containerd/certs.d"  # containerd reads it at each pull


def trust_registry(engine: Engine, node: str, registry: str) -> None:
    """Have a node's containerd pull images of a registry (HOST:PORT) without TLS.

    Raises:
        InfraError: the node did not take it.
    """
    folder = f"{CERTS_FOLDER}/{registry}"
    text = f'server = "http://{registry}"\n\n[host."http://{registry}"]\n  capabilities = ["pull", "resolve"]\n'
    words = ("sh", "-c", 'mkdir -p "$1" && printf %s "$2" >"$1/hosts.toml"', "sh", folder, text)
    done = engine.inside(node, *words, check=False)
    if done.returncode != 0:
        raise InfraError(
            f"the node {node} cannot be told of the registry {registry}: {(done.stderr or done.stdout).strip()}",
            hint=f"pods would not pull images from it; look at {engine.client} exec {node} ls -l {CERTS_FOLDER}",
        )


PUBLISHED = "kindest/node"
# How often `kind_ready` kubeadm waits for each: with its own times a host whose cores are all busy is too slow.
# https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/#kubeadm-k8s-io-v1beta4-Timeouts
PATIENCE = {
    "controlPlaneComponentHealthCheck": 2,
    **dict.fromkeys(("kubeletHealthCheck", "kubernetesAPICall", "etcdAPICall", "tlsBootstrap", "discovery"), 1),
}
GONE_SECONDS = 60.0  # removal is repeated until then; what remains is reported


@dataclass(frozen=True)
class Node:
    """The image of a cluster's node.

    own: it was built from our artifacts: its images' repository is `repository`, and it brings its own pod network.
    """

    image: str
    own: bool
    repository: str = ""


def node_image(config: KindConfig, engine: Engine) -> Node:
    """Return the image asked for, a published one, or our own: the engine has it then, or can pull it."""
    if config.node_image is not None:
        return Node(config.node_image, own=False)
    published = f"{PUBLISHED}:v{config.version}"
    if not config.own_node_made():
        if engine.has_image(published) or not engine.pull(published, config.limits.pull):
            return Node(published, own=False)
        config.say(f"{published} cannot be pulled; a node image is built from our own artifacts")
    own = config.own_node()
    if not engine.has_image(own.image):
        config.say(f"loading the node image into {engine.client} (about 20 s)")
        engine.load(own.archive, config.limits.load)
    return Node(own.image, own=True, repository=own.repository)


def configuration(name: str, node: Node, host: HostKernel, ready: float = KindLimits.ready, *, workers: int = 0) -> str:
    """Render kind's configuration file of a cluster; `ready`: seconds until its nodes may be ready."""
    networking: dict[str, Any] = {"kubeProxyMode": "nftables"}
    if node.own:
        networking["disableDefaultCNI"] = True  # the network is a file in the image
    document = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": name,
        "networking": networking,
        "nodes": [{"role": role, "image": node.image} for role in ("control-plane", *("worker",) * workers)],
        "kubeadmConfigPatches": [yaml.safe_dump(patch, sort_keys=False) for patch in _kubeadm(node, host, ready)],
        "containerdConfigPatches": _containerd(host),
    }
    return yaml.safe_dump(document, sort_keys=False)


def _kubeadm(node: Node, host: HostKernel, ready: float) -> list[Mapping[str, Any]]:
    kubelet: dict[str, Any] = {"kind": "KubeletConfiguration"}
    if not host.unified_cgroups:
        # kubelet refuses cgroup v1 by default since 1.35; systemd in the node has none of its slices there.
        kubelet |= {"failCgroupV1": False, "cgroupDriver": "cgroupfs", "cgroupRoot": "/kubelet"}
    # The size of the connection tracking table is the host's to set.
    proxy = {"kind": "KubeProxyConfiguration", "conntrack": {"maxPerCore": 0, "min": 0}}
    patches: list[Mapping[str, Any]] = [kubelet, proxy] if len(kubelet) > 1 else [proxy]
    times = {name: f"{ready * share:.0f}s" for name, share in PATIENCE.items()}
    joining = ("InitConfiguration", "JoinConfiguration")  # kind leaves out what a node does not do
    patches += [{"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": kind, "timeouts": times} for kind in joining]
    if node.own:
        patches.append({"kind": "ClusterConfiguration", "imageRepository": node.repository})
    return patches


def _containerd(host: HostKernel) -> list[str]:
    plugin = 'plugins."io.containerd.grpc.v1.cri"'
    patches = [f'[{plugin}.registry]\n  config_path = "{CERTS_FOLDER}"\n']
    if not host.may_raise_limits:
        patches.append(f"[{plugin}]\n  restrict_oom_score_adj = true\n")
    if not host.unified_cgroups:
        runtimes = (f"{plugin}.containerd.runtimes.{name}.options" for name in ("runc", "test-handler"))
        patches += [f"[{table}]\n  SystemdCgroup = false\n" for table in runtimes]
    return patches


@dataclass(frozen=True)
class KindCluster:
    """A cluster by its name, in an engine, made by a `kind` program; `workers`: nodes beside its control plane."""

    name: str
    engine: Engine
    workers: int = 0

    @property
    def node(self) -> str:
        """Return the name of the control plane's node: the container's, and the Node object's."""
        return f"{self.name}-control-plane"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the names of all nodes, as kind gives them."""
        numbers = ("", *map(str, range(2, self.workers + 1)))[: self.workers]
        return (self.node, *(f"{self.name}-worker{number}" for number in numbers))

    def running(self) -> bool:
        """Tell whether the containers of all nodes run."""
        return None not in self.pids().values()

    def pids(self) -> dict[str, int | None]:
        """Return the process id of each node's init by the node's name, None for one that does not run."""
        states = {str(c.get("Name", "")).lstrip("/"): c.get("State") or {} for c in self.engine.containers(self.name)}
        running = {name: int(state["Pid"]) for name, state in states.items() if state.get("Running")}
        return {name: running.get(name) for name in self.nodes}

    def create(self, kind: Path, config: str, kubeconfig: Path, log: Path, limits: KindLimits) -> None:
        """Create the cluster and wait until its nodes are ready.

        Raises:
            InfraError: kind failed; what it said is in the log, with the nodes' own logs.
        """
        file = log.with_name("kind.yml")
        file.write_text(config, encoding="utf-8")
        words: list[str | Path] = ["create", "cluster", "--config", file, "--kubeconfig", kubeconfig]
        env = {**self.engine.environment, self.engine.network_variable(): self.name}
        with proc.failing_as_infra(f"kind failed to create cluster {self.name}", hint="the log names the step"):
            argv = [*proc.ending_with_us(), kind, *words, "--wait", f"{limits.ready:.0f}s", "--retain"]
            proc.run(argv, timeout=limits.create, env=env, log=log)
        kubeconfig.chmod(0o600)

    def ready(self, kubeconfig: Path) -> bool:
        """Tell whether `create` came to its end for the cluster that is there: only then its kubeconfig was written."""
        return kubeconfig.is_file() and self.running()

    def remove(self) -> None:
        """Remove the cluster's containers, their volumes and their network, whatever state they are in.

        Raises:
            InfraError: something of it is still there.
        """

        def none_left() -> bool | NotYet:
            self.engine.remove_containers(self.name)
            left = [str(c.get("Name", c["Id"])).lstrip("/") for c in self.engine.containers(self.name)]
            if left:
                return NotYet(f"containers {', '.join(left)} remain")
            self.engine.remove_network(self.name)
            return NotYet(f"network {self.name} remains") if self.name in self.engine.networks() else True

        until(none_left, deadline=Deadline.after(GONE_SECONDS), what=f"kind cluster {self.name} to be gone")

    def require_way_to(self, url: str) -> None:
        """Look whether the nodes reach a service of this host.

        Raises:
            InfraError: one does not: admission by webhooks, and machines' images, would fail later.
        """
        words = ("curl", "--silent", "--output", "/dev/null", "--max-time", "10", url)
        for node in self.nodes:
            done = self.engine.inside(node, *words, check=False)
            if done.returncode != 0:
                raise InfraError(
                    f"the node {node} cannot reach {url} on this host (curl exited with {done.returncode})",
                    hint="check whether a firewall drops traffic from containers to this host: nft list ruleset",
                )


PROXY_ARP = "net.ipv4.conf.all.proxy_arp"
SYSCTL_FILE = "/etc/sysctl.d/90-vmatrix-machines.conf"  # systemd in the node reads it whenever the container is started
CNI_FOLDER = "/etc/cni/net.d"
POINT_TO_POINT = frozenset({"ptp", "cni-kindnet"})  # kind's kindnet uses ptp, kindnet by itself a plugin of its own


def answer_for_pods(engine: Engine, node: str) -> bool:
    """Have a node answer ARP for its pods, now and after each restart; False when its network needs nothing.

    Raises:
        InfraError: the node did not take it.
    """
    plugins = plugin_types(_cni_configuration(engine, node))
    if plugins and not POINT_TO_POINT & set(plugins):
        return False
    done = engine.inside(
        node, "sh", "-c", f"echo '{PROXY_ARP} = 1' >{SYSCTL_FILE} && sysctl --quiet --load={SYSCTL_FILE}", check=False
    )
    if done.returncode != 0:
        raise InfraError(
            f"the node {node} does not answer ARP for its pods: {(done.stderr or done.stdout).strip()}",
            hint=f"machines would not reach each other; try: {engine.client} exec {node} sysctl -w {PROXY_ARP}=1",
        )
    return True


def _cni_configuration(engine: Engine, node: str) -> str:
    """Return the configuration that containerd uses, the first by name; "" while there is none."""
    endings = " ".join(f"{CNI_FOLDER}/*.{ending}" for ending in ("conf", "conflist", "json"))
    script = f"for file in $(ls {endings} 2>/dev/null | sort | head -n 1); do cat $file; done"
    return engine.inside(node, "sh", "-c", script).stdout


def plugin_types(text: str) -> list[str]:
    """Return the types of the plugins of a CNI configuration, in order; none of what is not a configuration."""
    try:
        content = json.loads(text)
        plugins = content.get("plugins") or [content]
        return [str(plugin["type"]) for plugin in plugins if "type" in plugin]
    except (ValueError, AttributeError, TypeError):
        return []


ROUTES_UNIT = "vmatrix-pod-routes.service"
ROUTED = f"""
printf %s "$1" >{CNI_FOLDER}/10-vmatrix.conflist
printf %s "$2" >/etc/systemd/system/{ROUTES_UNIT}
systemctl daemon-reload && systemctl enable --quiet {ROUTES_UNIT} && systemctl restart {ROUTES_UNIT}
"""


@dataclass(frozen=True)
class NodePlace:
    """Where a node is, and which addresses its pods have (CIDR)."""

    address: str
    pods: str


def node_places(cluster: Cluster, names: Collection[str], seconds: float) -> dict[str, NodePlace]:
    """Return the places of nodes by name, once all have one. Raises TimedOut."""

    def probe() -> dict[str, NodePlace] | NotYet:
        nodes = {node["metadata"]["name"]: node for node in cluster.list(NODE).items}
        known = {name: _place(nodes[name]) for name in names if name in nodes}
        lacking = [name for name in names if known.get(name) is None]
        return NotYet(f"{', '.join(lacking)} have none") if lacking else {n: p for n, p in known.items() if p}

    made: dict[str, NodePlace] = until(probe, deadline=Deadline.after(seconds), what="nodes to have pod networks")
    return made


def _place(node: Json) -> NodePlace | None:
    addresses = dig(node, "status", "addresses") or ()
    address = next((entry["address"] for entry in addresses if entry["type"] == "InternalIP"), None)
    pods = dig(node, "spec", "podCIDR")
    return NodePlace(str(address), str(pods)) if address and pods else None


def route_pods(engine: Engine, places: Mapping[str, NodePlace], network: Callable[[str], Mapping[str, Any]]) -> None:
    """Give each node of our own image a pod network of its own, with routes to the others', also after a restart.

    kindnet does that by itself. `network`: returns the CNI configuration for addresses of pods.

    Raises:
        InfraError: a node did not take it.
    """
    for name, own in places.items():
        others = [place for other, place in places.items() if other != name]
        starts = "".join(f"ExecStart=/usr/sbin/ip route replace {one.pods} via {one.address}\n" for one in others)
        unit = f"[Service]\nType=oneshot\nRemainAfterExit=yes\n{starts}\n[Install]\nWantedBy=multi-user.target\n"
        done = engine.inside(name, "sh", "-c", ROUTED, "sh", json.dumps(network(own.pods)), unit, check=False)
        if done.returncode != 0:
            raise InfraError(
                f"the node {name} has no routes to pods of other nodes: {(done.stderr or done.stdout).strip()}",
                hint=f"try: {engine.client} exec {name} systemctl status {ROUTES_UNIT}",
            )


def replace_pods(cluster: Cluster, places: Mapping[str, NodePlace]) -> None:
    """Delete the pods that got an address before their node had its own network; they are made anew."""
    for pod in cluster.list(POD).items:
        place, address = places.get(dig(pod, "spec", "nodeName") or ""), dig(pod, "status", "podIP")
        if place is None or not address or dig(pod, "spec", "hostNetwork"):
            continue
        if ip_address(address) not in ip_network(place.pods):
            cluster.delete(POD, pod["metadata"]["name"], pod["metadata"]["namespace"])
