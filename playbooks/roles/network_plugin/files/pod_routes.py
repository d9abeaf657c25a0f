#!/usr/bin/python3
"""Routes between the pods of nodes that share a network segment, and this node's CNI configuration.

Every node has a subnet for its pods (spec.podCIDR). This keeps a route to each other node's subnet through that node's
address, and, once all of them are in place, writes the CNI configuration of this node's own: so a node becomes Ready
when its pods can reach the others'. Looks at all nodes, then watches them; each time everything is compared afresh, so
it does not matter what was missed. Needs nothing but Python, ip and nft; speaks to the API server as the kubelet does.
Covers IPv4. Does not cover nodes behind a router.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import ssl
import subprocess
import tempfile
import time
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

LOG = logging.getLogger("pod-routes")
CA = "/etc/kubernetes/pki/ca.crt"
CREDENTIALS = "/var/lib/kubelet/pki/kubelet-client-current.pem"
CONFIGURATION = Path("/etc/cni/net.d/10-routes.conflist")
PROTOCOL = "250"  # marks the routes that are ours; none of /etc/iproute2/rt_protos
WATCH_SECONDS = 50
PAUSE_SECONDS = 2.0  # after a failure

Subnets = dict[str, tuple[str, str]]  # node -> its pods' subnet, its address


def subnets(items: list[dict[str, Any]]) -> Subnets:
    """Return subnet and address of every node that has both."""
    found = {}
    for item in items:
        addresses = [
            entry["address"] for entry in item.get("status", {}).get("addresses", []) if entry["type"] == "InternalIP"
        ]
        subnet = item.get("spec", {}).get("podCIDR")
        if subnet and addresses:
            found[item["metadata"]["name"]] = (subnet, addresses[0])
    return found


def route_changes(wanted: dict[str, str], present: list[dict[str, Any]]) -> list[list[str]]:
    """Return the arguments of `ip` that turn the routes that are ours, as `ip -json` shows them, into the wanted."""
    there = {route["dst"]: route.get("gateway", "") for route in present}
    commands = [["route", "del", subnet, "proto", PROTOCOL] for subnet in there if subnet not in wanted]
    for subnet, gateway in wanted.items():
        if there.get(subnet) != gateway:
            commands.append(["route", "replace", subnet, "via", gateway, "proto", PROTOCOL])
    return commands


def masquerade(own: str, pods: str) -> str:
    """Return nft's commands by which what pods send out of the pod network leaves with the node's address."""
    return "\n".join(
        (
            "table ip pod-routes",
            "delete table ip pod-routes",
            "table ip pod-routes {",
            "  chain postrouting {",
            "    type nat hook postrouting priority srcnat; policy accept;",
            f"    ip saddr {own} ip daddr != {pods} ip daddr != 224.0.0.0/4 masquerade",
            "  }",
            "}",
            "",
        )
    )


def cni_configuration(own: str, pods: str, mtu: int, backend: str) -> str:
    """Return the configuration of a bridge whose pods get addresses of the node's subnet."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "mtu": mtu,
        "isDefaultGateway": True,
        "forceAddress": True,
        "hairpinMode": True,
        "ipMasq": False,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": own}]], "routes": [{"dst": pods}]},
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}, "backend": backend}
    return json.dumps({"cniVersion": "1.0.0", "name": "routes", "plugins": [bridge, portmap]}, indent=2) + "\n"


def run(*argv: str, stdin: str = "") -> str:
    """Run a command, return what it printed; its complaint is the error's text."""
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def mtu_of(address: str) -> int:
    """Return the MTU of the interface that has an address of this machine."""
    for link in json.loads(run("ip", "-json", "-4", "address")):
        if any(entry.get("local") == address for entry in link.get("addr_info", [])):
            return int(link["mtu"])
    raise RuntimeError(f"no interface has the address {address}")


def write(path: Path, text: str) -> None:
    """Replace a file in one step unless it is so already."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as sink:
        sink.write(text)
    os.chmod(draft, 0o644)
    os.replace(draft, path)
    LOG.info("wrote %s", path)


def bring_in_line(found: Subnets, chosen: argparse.Namespace) -> None:
    """Set routes, rules and configuration of this node; a node without a subnet yet has none."""
    if chosen.node not in found:
        return
    own, address = found[chosen.node]
    wanted = {subnet: gateway for name, (subnet, gateway) in found.items() if name != chosen.node}
    present = json.loads(run("ip", "-json", "-4", "route", "show", "proto", PROTOCOL) or "[]")
    for command in route_changes(wanted, present):
        run("ip", *command)
        LOG.info("ip %s", " ".join(command))
    run("nft", "-f", "-", stdin=masquerade(own, chosen.pods))
    write(CONFIGURATION, cni_configuration(own, chosen.pods, mtu_of(address), chosen.portmap))


def ask(server: str, query: str, context: ssl.SSLContext) -> Any:
    """Open a request for nodes."""
    address = f"{server}/api/v1/nodes{query}"
    return urllib.request.urlopen(address, timeout=WATCH_SECONDS + 15, context=context)  # noqa: S310 - a https address


def look_and_wait(chosen: argparse.Namespace) -> None:
    """Bring this node in line with all nodes, then wait until something of them that matters changes, or a while."""
    context = ssl.create_default_context(cafile=chosen.ca)
    context.load_cert_chain(CREDENTIALS)
    with ask(chosen.server, "", context) as answer:
        listed = json.load(answer)
    found = subnets(listed["items"])
    bring_in_line(found, chosen)
    version = listed["metadata"]["resourceVersion"]
    query = f"?watch=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
    with ask(chosen.server, query, context) as answer:
        for line in answer:
            event = json.loads(line)
            name = event["object"].get("metadata", {}).get("name")
            if (
                event["type"] == "ERROR"
                or event["type"] == "DELETED"
                or subnets([event["object"]]).get(name) != found.get(name)
            ):
                return


def main() -> None:
    """Run for ever."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node", required=True, help="this node's name")
    parser.add_argument("--server", required=True, help="address of the API server")
    parser.add_argument("--pods", required=True, help="network of all pods")
    parser.add_argument(
        "--portmap", required=True, choices=["nftables", "iptables"], help="kind of rules for hostPorts"
    )
    parser.add_argument("--ca", default=CA, help="the cluster's CA")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    said = ""
    while True:
        try:
            look_and_wait(chosen)
            said = ""
        except (
            OSError,
            HTTPException,
            RuntimeError,
            ValueError,
            LookupError,
        ) as error:
            # Whatever it was, the next look may find it mended.
            if str(error) != said:
                said = str(error)
                LOG.warning("trying again: %s", said)
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main()
