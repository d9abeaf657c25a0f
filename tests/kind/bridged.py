"""Pods on a kind node, one of which becomes what a machine is that KubeVirt bridges to the pod network.

As KubeVirt does it: the pod's interface loses its address and its MAC to the guest and becomes a port of a bridge in
the pod's network namespace, and the guest hangs on another port. The guest is a network namespace on the node, with the
pod's prefix on the link.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.artifacts import node_images
from harness.artifacts.catalogue import load as load_catalogue
from harness.infra.kind.engine import Engine
from harness.kube import Cluster
from harness.kube.resources import POD, SERVICE
from harness.providers.on_host import KUBERNETES
from harness.until import Deadline, NotYet, until

RUNNING_SECONDS = 120.0
ANSWER_SECONDS = 5
NAMESPACE = "default"
PORT = 8080
GUEST = "bridged-guest"
FIND = """
for found in $(ls /run/netns); do
  if ip -n $found -4 -o address show dev eth0 2>/dev/null | grep -q "inet $1/"; then echo $found; exit 0; fi
done
exit 1
"""
BRIDGE = """
set -e
pod=$1 address=$2 guest=$3
prefix=$(ip -n $pod -json -4 address show dev eth0 | jq -r '.[0].addr_info[0].prefixlen')
gateway=$(ip -n $pod -json route show default | jq -r '.[0].gateway')
mac=$(ip -n $pod -json link show dev eth0 | jq -r '.[0].address')
ip netns add $guest
ip -n $pod address flush dev eth0
ip -n $pod link set eth0 down
ip -n $pod link set eth0 address 02:00:00:00:77:01
ip -n $pod link add k6t-eth0 type bridge
ip -n $pod link set eth0 master k6t-eth0
ip -n $pod link add tap0 type veth peer name eth0 netns $guest
ip -n $pod link set tap0 master k6t-eth0
for link in eth0 k6t-eth0 tap0; do ip -n $pod link set $link up; done
ip -n $guest link set lo up
ip -n $guest link set eth0 address $mac up
ip -n $guest address add $address/$prefix dev eth0
ip -n $guest route add default via $gateway
"""
SERVE = "setsid ip netns exec $1 socat TCP-LISTEN:$2,fork,reuseaddr SYSTEM:'echo the guest' >/dev/null 2>&1 &"


@dataclass(frozen=True)
class Neighbours:
    """A bridged machine and a pod beside it on one node: addresses, and the network namespaces that they are in."""

    engine: Engine
    node: str
    machine: str
    pod: str
    pod_netns: str
    service: str

    def ask(self, netns: str, url: str) -> str:
        """Return what is answered to a request out of a network namespace of the node, or why nothing is."""
        words = ("curl", "--silent", "--show-error", "--http0.9", "--max-time", str(ANSWER_SECONDS), url)
        done = self.engine.inside(self.node, "ip", "netns", "exec", netns, *words, check=False)
        return (done.stdout or done.stderr).strip()

    def from_machine(self, url: str) -> str:
        """Ask as the machine does, with nothing learned before."""
        self.engine.inside(self.node, "ip", "-n", GUEST, "neigh", "flush", "all")
        return self.ask(GUEST, url)

    def to_machine(self) -> str:
        """Ask the machine, as the pod does."""
        self.engine.inside(self.node, "ip", "-n", GUEST, "neigh", "flush", "all")
        return self.ask(self.pod_netns, f"http://{self.machine}:{PORT}/")


@contextmanager
def neighbours(cluster: Cluster, engine: Engine, node: str) -> Iterator[Neighbours]:
    """Have two pods on a node, and make one of them a bridged machine; all of it is gone at the end."""
    image = node_images.reference(
        next(
            r for r in node_images.node_container_images(load_catalogue(), KUBERNETES) if r.name == node_images.BUSYBOX
        )
    )
    names = ("bridged", "neighbour")
    script = f"mkdir -p /tmp/www && echo the pod >/tmp/www/index.html && exec httpd -f -p {PORT} -h /tmp/www"
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 0}
    spec |= {"containers": [{"name": "c", "image": image, "command": ["sh", "-c", script]}]}
    try:
        for name in names:
            cluster.create(POD, POD.manifest(name, NAMESPACE, labels={"app": name}, spec=spec))
        ports = [{"port": 80, "targetPort": PORT}]
        cluster.create(
            SERVICE,
            SERVICE.manifest(
                "neighbour", NAMESPACE, labels={}, spec={"selector": {"app": "neighbour"}, "ports": ports}
            ),
        )
        machine, pod = (_address(cluster, name) for name in names)
        machine_netns, pod_netns = (_netns(engine, node, address) for address in (machine, pod))
        _inside(engine, node, BRIDGE, machine_netns, machine, GUEST)
        _inside(engine, node, SERVE, GUEST, str(PORT))
        service = (cluster.get(SERVICE, "neighbour", NAMESPACE) or {})["spec"]["clusterIP"]
        yield Neighbours(engine, node, machine, pod, pod_netns, service)
    finally:
        _inside(engine, node, f"ip netns pids {GUEST} | xargs -r kill; ip netns delete {GUEST}; true")
        for name in names:
            cluster.delete(POD, name, NAMESPACE, grace=0)
        cluster.delete(SERVICE, "neighbour", NAMESPACE)


def _inside(engine: Engine, node: str, script: str, *words: str) -> str:
    return engine.inside(node, "sh", "-c", script, "sh", *words).stdout.strip()


def _netns(engine: Engine, node: str, address: str) -> str:
    return _inside(engine, node, FIND, address)


def _address(cluster: Cluster, name: str) -> str:
    def address() -> str | NotYet:
        pod = cluster.get(POD, name, NAMESPACE) or {}
        status = pod.get("status") or {}
        running = status.get("phase") == "Running" and status.get("podIP")
        return str(status["podIP"]) if running else NotYet(f"it is {status.get('phase')}")

    return until(address, deadline=Deadline.after(RUNNING_SECONDS), what=f"pod {name} to run")
