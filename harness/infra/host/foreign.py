"""What others have in this host's packet filter that may drop what guests send, and how guests are let through it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.embedded.machines.names import GUEST_PORTS, Names
from harness.infra.host import firewall

LEGACY = Path("/proc/net/ip_tables_names")  # the tables of iptables-legacy, which nft does not list
REMEDIES = {  # by a name that the rule set has where this program made it
    "ufw-": "ufw allow proto tcp from {network} to {address} port {ports}; "
    "ufw allow proto tcp from {network6} to {address6} port {ports}",
    "firewalld": "firewall-cmd --zone=trusted --add-source={network} --add-source={network6}",
}


def suspects(ruleset: str, index: int) -> list[str]:
    """Return what may drop packets to this host: chains of others, and tables of iptables-legacy.

    Args:
        ruleset: what `nft --json list ruleset` says.
    """
    items = [item for item in json.loads(ruleset or "{}").get("nftables", []) if not _ours(item, index)]
    dropping = {(rule["family"], rule["table"]) for item in items if (rule := item.get("rule")) and _drops(rule)}
    found = [
        f"nftables: table {chain['family']} {chain['table']}, chain {chain['name']}"
        for chain in (item["chain"] for item in items if "chain" in item)
        if chain.get("hook") in {"prerouting", "input"} and chain["family"] in {"ip", "ip6", "inet", "netdev"}
        if chain.get("policy") == "drop" or (chain["family"], chain["table"]) in dropping
    ]
    legacy = LEGACY.read_text(encoding="utf-8").split() if LEGACY.exists() else []
    return found + [f"iptables-legacy: table {table}" for table in legacy]


def remedy(ruleset: str, names: Names) -> str:
    """Return the command that lets guests through a known firewall, else what to allow."""
    ports = ",".join(map(str, GUEST_PORTS))
    own = {"network": names.instance_network, "address": names.instance_address}
    values = {**own, "network6": names.instance_network6, "address6": names.instance_address6, "ports": ports}
    known = next((command for mark, command in REMEDIES.items() if mark in ruleset), None)
    ways = "from {network} to {address} and from {network6} to {address6}"
    allow = f"let TCP {ways}, ports {{ports}}, in: nft list ruleset; iptables-legacy-save"
    return (known or allow).format(**values)


def _ours(item: dict[str, Any], index: int) -> bool:
    own = {"family": firewall.FAMILY, "table": firewall.table_of(index)}
    return any(isinstance(body, dict) and own.items() <= body.items() for body in item.values())


def _drops(rule: dict[str, Any]) -> bool:
    return any(statement.keys() & {"drop", "reject"} for statement in rule.get("expr", ()))
