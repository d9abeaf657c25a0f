#!/usr/bin/python3
"""Routes between the pods of nodes that share a network segment, and this node's CNI configuration.

Every node has a subnet of each IP family for its pods (spec.podCIDRs). This keeps a route to each other node's subnet
through that node's address, and, once all are in place, writes this node's CNI configuration, which makes it Ready.
Looks at all nodes, then watches them; compares everything afresh each time. Needs nothing but Python, ip and nft.
"""

from __future__ import annotations

import argparse
import json
import logging
import ssl
import subprocess
import time
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

LOG = logging.getLogger("pod-routes")
CREDENTIALS = "/var/lib/kubelet/pki/kubelet-client-current.pem"
CONFIGURATION = Path("/etc/cni/net.d/10-routes.conflist")
OUTLINE = Path("/usr/local/lib/pod-routes.conflist")  # the same without what is this node's own
PROTOCOL = "250"  # marks the routes that are ours; none of /etc/iproute2/rt_protos
WATCH_SECONDS = 50
PAUSE_SECONDS = 2.0  # after a failure

Subnets = dict[str, tuple[str, str]]  # node -> its pods' subnet, its address, of one family
# Families by what `ip` and `nft` call them, with what is not a destination of a single host.
FAMILIES = {4: ("-4", "ip", "224.0.0.0/4"), 6: ("-6", "ip6", "ff00::/8")}


def family_of(text: str) -> int:
    """Return 4 or 6: the family of an address or a network."""
    return 6 if ":" in text else 4


def subnets(items: list[dict[str, Any]], family: int) -> Subnets:
    """Return subnet and address of one family of every node that has both."""
    found = {}
    for item in items:
        spec, status = item.get("spec", {}), item.get("status", {})
        addresses = [entry["address"] for entry in status.get("addresses", []) if entry["type"] == "InternalIP"]
        own = [[one for one in every if family_of(one) == family] for every in (spec.get("podCIDRs", []), addresses)]
        if all(own):
            found[item["metadata"]["name"]] = (own[0][0], own[1][0])
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
    _, word, several = FAMILIES[family_of(pods)]
    match = f"{word} saddr {own} {word} daddr != {pods} {word} daddr != {several}"
    chain = f"type nat hook postrouting priority srcnat; policy accept; {match} masquerade;"
    table = f"table {word} pod-routes"
    return f"{table}\ndelete {table}\n{table} {{\n  chain postrouting {{\n    {chain}\n  }}\n}}\n"


def cni_configuration(outline: str, own: list[str], mtu: int) -> str:
    """Return the configuration of a bridge whose pods get addresses of the node's subnets."""
    configuration = json.loads(outline)
    bridge = configuration["plugins"][0]
    bridge["mtu"] = mtu
    bridge["ipam"]["ranges"] = [[{"subnet": subnet}] for subnet in own]
    return json.dumps(configuration, indent=2) + "\n"


def run(*argv: str, stdin: str = "") -> str:
    """Run a command, return what it printed; its complaint is the error's text."""
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def mtu_of(address: str) -> int:
    """Return the MTU of the interface that has an address of this machine."""
    for link in json.loads(run("ip", "-json", "address")):
        if any(entry.get("local") == address for entry in link.get("addr_info", [])):
            return int(link["mtu"])
    raise RuntimeError(f"no interface has the address {address}")


def write(path: Path, text: str) -> None:
    """Replace a file in one step unless it is so already."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(text, encoding="utf-8")
    draft.chmod(0o644)
    draft.replace(path)
    LOG.info("wrote %s", path)


def bring_in_line(found: list[Subnets], chosen: argparse.Namespace) -> None:
    """Set routes, rules and configuration of this node; a node without its subnets yet has none."""
    if any(chosen.node not in of_family for of_family in found):
        return
    for pods, of_family in zip(chosen.pods, found):  # noqa: B905 - Python 3.9
        flag = FAMILIES[family_of(pods)][0]
        wanted = {subnet: gateway for name, (subnet, gateway) in of_family.items() if name != chosen.node}
        present = json.loads(run("ip", "-json", flag, "route", "show", "proto", PROTOCOL) or "[]")
        for command in route_changes(wanted, present):
            run("ip", flag, *command)
            LOG.info("ip %s", " ".join(command))
        run("nft", "-f", "-", stdin=masquerade(of_family[chosen.node][0], pods))
    own = [of_family[chosen.node][0] for of_family in found]
    outline = OUTLINE.read_text(encoding="utf-8")
    write(CONFIGURATION, cni_configuration(outline, own, mtu_of(found[0][chosen.node][1])))


def look_and_wait(chosen: argparse.Namespace) -> None:
    """Bring this node in line with all nodes, then wait until something of them that matters changes, or a while."""
    context = ssl.create_default_context(cafile=chosen.ca)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the CA may be an intermediate one
    context.load_cert_chain(CREDENTIALS)

    def ask(query: str) -> Any:
        address = f"{chosen.server}/api/v1/nodes{query}"
        return urllib.request.urlopen(address, timeout=WATCH_SECONDS + 15, context=context)  # noqa: S310

    with ask("") as answer:
        listed = json.load(answer)
    families = [family_of(pods) for pods in chosen.pods]
    found = [subnets(listed["items"], family) for family in families]
    bring_in_line(found, chosen)
    seen = list(zip(families, found))  # noqa: B905 - Python 3.9
    version = listed["metadata"]["resourceVersion"]
    with ask(f"?watch=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}") as answer:
        for line in answer:
            event = json.loads(line)
            name = event["object"].get("metadata", {}).get("name")
            differ = (subnets([event["object"]], family).get(name) != of.get(name) for family, of in seen)
            if event["type"] in {"ERROR", "DELETED"} or any(differ):
                return


def main() -> None:
    """Run for ever."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node", required=True, help="this node's name")
    parser.add_argument("--server", required=True, help="address of the API server")
    parser.add_argument("--pods", required=True, nargs="+", help="network of all pods, of each IP family")
    parser.add_argument("--ca", required=True, help="the cluster's CA")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    said = ""
    while True:
        try:
            look_and_wait(chosen)
            said = ""
        except (OSError, HTTPException, RuntimeError, ValueError, LookupError) as error:
            # Whatever it was, the next look may find it mended.
            if str(error) != said:
                said = str(error)
                LOG.warning("trying again: %s", said)
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main()
