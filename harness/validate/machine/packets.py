"""Prints what a machine does with packets: rules that drop or lead them, tables, queues, how long it knows connections.

topics/kube_proxy.py reads the output.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence

from harness.validate.machine.library import processes, read, said

# Chains of the kernel's own in iptables; all others are jumped to from these.
BUILT_IN = "INPUT|FORWARD|OUTPUT|PREROUTING|POSTROUTING"
RULE = re.compile(rf"^-A ({BUILT_IN}) ")
POLICY = re.compile(rf"^:({BUILT_IN}) (\S+) ")
HOOKED = re.compile(r"type \S+ hook ")
# In kube-proxy's table of nftables: a rule for each endpoint, or a map of all endpoints of a Service.
DNAT = re.compile(
    r"(?:dnat(?: ip6?)? to (?=[0-9a-f.\[])|\d+ : )"
    r"(?:\[([0-9a-f:]+)\]|(\d+\.\d+\.\d+\.\d+)|([0-9a-f:]+:[0-9a-f:]*))(?::| \. )(\d+)"
)
ENDPOINT = re.compile(
    r"^-A KUBE-SEP-\S+ .*--to-destination (?:\[([0-9a-f:]+)\]|(\d+\.\d+\.\d+\.\d+)):(\d+)", re.MULTILINE
)
TIMEOUTS = ("nf_conntrack_tcp_timeout_established", "nf_conntrack_tcp_timeout_close_wait")


def inside() -> list[str] | None:
    """Return how to run kube-proxy's own tools, which wrote its rules; None where it does not run."""
    for process in processes("kube-proxy"):
        return ["chroot", f"/proc/{process['pid']}/root"]
    return None


def iptables_rules(tools: Sequence[str]) -> list[list[str]]:
    """Return [table, rule] of the chains that packets come through first, and their policies unless they accept.

    Args:
        tools: how to run kube-proxy's; [] for the machine's alone.
    """
    rules = set()
    for program in ("iptables-save", "ip6tables-save"):
        for words in ([program], *([[*tools, program]] if tools else [])):
            table = ""
            for line in (said(words) or "").splitlines():
                if line.startswith("*"):
                    table = f"{'ip6' if program.startswith('ip6') else 'ip'} {line[1:].strip()}"
                policy = POLICY.match(line)
                if RULE.match(line):
                    rules.add((table, line.strip()))
                elif policy and policy.group(2) not in ("ACCEPT", "-"):
                    rules.add((table, f"-P {policy.group(1)} {policy.group(2)}"))
    return sorted(map(list, rules))


def nft_chains(tools: Sequence[str]) -> list[list[str]]:
    """Return [table, chain, ...]: every table of nftables, and its chains that packets come through first.

    By `list chains`, as Debian 12's nft crashes on `list tables` where a newer one has written.
    """
    chains_by_table: dict[str, set[str]] = {}
    for words in (["nft", "list", "chains"], *([[*tools, "nft", "list", "chains"]] if tools else [])):
        table = chain = ""
        for line in map(str.strip, (said(words) or "").splitlines()):
            if line.startswith("table "):
                table = line.removesuffix("{").removeprefix("table ").strip()
                chains_by_table.setdefault(table, set())
            elif line.startswith("chain "):
                chain = line.removeprefix("chain ").partition(" ")[0]
            elif HOOKED.match(line) and table:
                chains_by_table[table].add(chain)
    return [[table, *sorted(chains)] for table, chains in sorted(chains_by_table.items())]


def destinations(tools: Sequence[str]) -> list[list[str]]:
    """Return [address, port] of everything that kube-proxy's rules lead to."""
    addresses = set()
    for words, pattern in (
        (["nft", "list", "table", "ip", "kube-proxy"], DNAT),
        (["nft", "list", "table", "ip6", "kube-proxy"], DNAT),
        (["iptables-save", "-t", "nat"], ENDPOINT),
        (["ip6tables-save", "-t", "nat"], ENDPOINT),
    ):
        for text in (said([*tools, *words]), said(words)):  # older tools do not understand all that newer ones write
            for *forms, port in pattern.findall(text or ""):  # an address in one of the forms that it may have
                addresses.add(("".join(forms), port))
    return sorted(map(list, addresses))


def queues() -> dict[str, str]:
    """Return how each interface queues packets, without those of pods."""
    try:
        links = json.loads(said(["ip", "-json", "link", "show"]) or "[]")
    except ValueError:
        return {}
    own = (link for link in links if "master" not in link and not link["ifname"].startswith(("veth", "cali", "lxc")))
    return {link["ifname"]: link.get("qdisc", "") for link in own}


def main(_argv: Sequence[str]) -> None:
    """Print everything."""
    tools = inside()
    report = {
        "iptables": iptables_rules(tools or []),
        "nftables": nft_chains(tools or []),
        "destinations": None if tools is None else destinations(tools),
        "queues": queues(),
        "timeouts": {name: (read(f"/proc/sys/net/netfilter/{name}") or "").strip() for name in TIMEOUTS},
    }
    print(json.dumps(report))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
