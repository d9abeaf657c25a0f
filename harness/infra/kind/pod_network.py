"""What a kind node's pod network must answer for machines that KubeVirt bridges to it.

KubeVirt's DHCP gives a guest its pod's address with the pod's prefix (a /24 on kind), so the guest asks by ARP for
every other pod of the node. The plugin ptp, which kindnet and our own node images use, gives each pod a link of its
own, on which nobody answers: machines reach no pod of their node, and no pod reaches them. With proxy ARP the node
answers for the addresses that it has a route to. docs/decisions/pod-network.md has what was tried.
"""

from __future__ import annotations

import json

from harness.errors import InfraError
from harness.infra.kind.engine import Engine

PROXY_ARP = "net.ipv4.conf.all.proxy_arp"
FILE = "/etc/sysctl.d/90-vmatrix-machines.conf"  # systemd in the node reads it whenever the container is started
CONFIGURATIONS = "/etc/cni/net.d"
POINT_TO_POINT = frozenset({"ptp", "cni-kindnet"})  # kind's kindnet uses ptp, kindnet by itself a plugin of its own


def answer_for_pods(engine: Engine, node: str) -> bool:
    """Have a node answer ARP for its pods, now and after each restart; False when its network needs nothing.

    Raises:
        InfraError: the node did not take it.
    """
    plugins = plugin_types(_configuration(engine, node))
    if plugins and not POINT_TO_POINT & set(plugins):
        return False
    done = engine.inside(
        node, "sh", "-c", f"echo '{PROXY_ARP} = 1' >{FILE} && sysctl --quiet --load={FILE}", check=False
    )
    if done.returncode != 0:
        raise InfraError(
            f"the node {node} does not answer ARP for its pods: {(done.stderr or done.stdout).strip()}",
            hint=f"machines would not reach each other; try: {engine.client} exec {node} sysctl -w {PROXY_ARP}=1",
        )
    return True


def _configuration(engine: Engine, node: str) -> str:
    """Return the configuration that containerd uses, the first by name; "" while there is none."""
    endings = " ".join(f"{CONFIGURATIONS}/*.{ending}" for ending in ("conf", "conflist", "json"))
    script = f"for file in $(ls {endings} 2>/dev/null | sort | head -n 1); do cat $file; done"
    return engine.inside(node, "sh", "-c", script).stdout


def plugin_types(text: str) -> list[str]:
    """Return the types of the plugins of a CNI configuration, in order; none of what is no configuration."""
    try:
        content = json.loads(text)
        plugins = content.get("plugins") or [content]
        return [str(plugin["type"]) for plugin in plugins if "type" in plugin]
    except (ValueError, AttributeError, TypeError):
        return []
