#!/usr/bin/python
"""Ansible module: take interfaces, routes and firewall rules of cluster components away.

Of the firewall it covers whole tables of nftables, chains by the beginning of their name with every rule that leads to
them (also where iptables-nft made them), rules that accept packets with certain marks, tables of iptables that are
empty afterwards, and the same chains and rules in the older tables of the kernel (iptables-legacy), and sets of
addresses (ipset). Everybody else's rules and sets stay.

Whole tables are found and deleted without nft: an older one (Debian 12's 1.0.6) crashes on the sets of a newer one,
such as the one in a container image, whatever it is asked; without those tables it can list the rest.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: network_leftovers
short_description: Take what cluster components made of a machine's network away
description:
  - Finds things by name and deletes those, firewall rules in one transaction per kind of firewall, and nothing else.
  - Changed when there was one. Check mode lists what would go.
options:
  interfaces: {description: Interfaces; ports of bridges among them go as well., type: list, elements: str, default: []}
  route_protocols:
    description: Numbers by which network plugins mark their routes, in both families.
    type: list
    elements: int
    default: []
  tables: {description: Names of nftables tables that go whole., type: list, elements: str, default: []}
  chains: {description: What the names of chains begin with that go., type: list, elements: str, default: []}
  marks:
    description: Marks and their masks, as 0x1/0x1; rules of iptables go that accept packets for having one.
    type: list
    elements: str
    default: []
  sets: {description: What the names of ipsets begin with that go., type: list, elements: str, default: []}
author: [vmatrix]
"""

EXAMPLES = r"""
- name: Forget kube-proxy's rules
  network_leftovers:
    interfaces: [cni0]
    tables: [kube-proxy]
    chains: [KUBE-]
"""

RETURN = r"""
removed: {description: What went., returned: always, type: list, elements: str}
"""

OF_IPTABLES = {"filter", "nat", "mangle", "raw", "security"}
COMMENTS = (("xt", {"type": "match", "name": "comment"}), ("xt", None))  # as newer and older nft print iptables' own
LEGACY_NAMES = "/proc/net/{family}_tables_names"

# of the kernel's headers: netlink.h, nfnetlink.h, nf_tables.h
NETFILTER = 12  # netlink's number of the firewall
NFTABLES = 10  # the firewall's number of nftables
LIST_TABLES, DELETE_TABLE, TABLE = NFTABLES << 8 | 1, NFTABLES << 8 | 2, NFTABLES << 8
BEGIN, END = 0x10, 0x11  # of a transaction
ERROR, DONE = 2, 3  # kinds of answers; an error of number 0 says that it is done
REQUEST, ACKNOWLEDGE, ALL = 1, 4, 0x300
NAME = 1  # the attribute
SETS, SETS_PROTOCOL = 6, 6  # the firewall's number of ipsets; the oldest protocol that kernels speak
DESTROY_SET, LIST_SETS = SETS << 8 | 3, SETS << 8 | 7  # ip_set.h
SETS_VERSION, SET_NAME = 1, 2  # attributes
FAMILIES = {1: "inet", 2: "ip", 3: "arp", 5: "netdev", 7: "bridge", 10: "ip6"}
SECONDS = 30  # for one answer of the kernel


def interfaces(names: list[str]) -> list[str]:
    """Return the interfaces of those names and the ports of those that are bridges, ports first."""
    links = json.loads(output("ip", "-json", "link") or "[]")
    ports = [link["ifname"] for link in links if link.get("master") in names]
    return [*ports, *(link["ifname"] for link in links if link["ifname"] in names)]


def routes(protocols: list[int]) -> list[str]:
    """Return the routes that were made by those protocols, as arguments of `ip` that delete them."""
    found = []
    for number in protocols:
        for family in ("-4", "-6"):
            lines = output("ip", family, "route", "show", "proto", str(number)).splitlines()
            found += [f"{family} route delete {line.strip()}" for line in lines]
    return found


def target(rule: dict[str, Any]) -> str:
    """Return the chain that a rule jumps or goes to, "" when it does neither."""
    for word in rule.get("expr", []):
        for verb in ("jump", "goto"):
            if isinstance(word.get(verb), dict):
                return str(word[verb]["target"])
    return ""


def accepted(rule: dict[str, Any]) -> str:
    """Return the mark and the mask of packets that a rule accepts for that alone (0x1/0x1), else ""."""
    words = [each for word in rule.get("expr", []) for each in word.items() if each not in COMMENTS]
    said = [(verb, content) for verb, content in words if verb != "counter"]
    if [verb for verb, _ in said] != ["match", "accept"] or rule["table"] not in OF_IPTABLES:
        return ""
    asked = said[0][1]
    among = asked["left"].get("&") if isinstance(asked["left"], dict) else None
    if asked["op"] != "==" or not among or among[0] != {"meta": {"key": "mark"}}:
        return ""
    return f"{asked['right']:#x}/{among[1]:#x}"


def message(kind: int, flags: int, family: int, resource: int = 0, attributes: bytes = b"") -> bytes:
    """Return a message to the kernel's firewall."""
    body = struct.pack("!BBH", family, 0, resource) + attributes
    return struct.pack("=IHHII", 16 + len(body), kind, REQUEST | flags, 0, 0) + body


def ask(request: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the kernel's answers, each its kind and content, until the last. Raises OSError when it refuses."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETFILTER) as link:
        link.settimeout(SECONDS)
        link.bind((0, 0))
        link.send(request)
        while True:
            received = link.recv(1 << 18)
            while received:
                length, kind = struct.unpack_from("=IH", received)
                content, received = received[16:length], received[(length + 3) & ~3 :]
                number = -struct.unpack_from("=i", content)[0] if kind == ERROR else 0
                if number:
                    raise OSError(number, os.strerror(number))
                if kind in {ERROR, DONE}:
                    return
                yield kind, content


def attribute(wanted: int, attributes: bytes) -> bytes:
    """Return the content of one attribute, without it b""."""
    while attributes:
        length, kind = struct.unpack_from("=HH", attributes)
        if kind == wanted:
            return attributes[4:length]
        attributes = attributes[(length + 3) & ~3 :]
    return b""


def present(names: list[str]) -> list[tuple[int, str]]:
    """Return the tables of nftables that have such a name, each its family's number and its name, sorted."""
    answers = ask(message(LIST_TABLES, ALL, 0))
    found = [
        (content[0], attribute(NAME, content[4:]).rstrip(b"\0").decode()) for kind, content in answers if kind == TABLE
    ]
    return sorted(table for table in found if table[1] in names)


def written(kind: int, content: bytes) -> bytes:
    """Return an attribute."""
    return struct.pack("=HH", 4 + len(content), kind) + content + b"\0" * (-len(content) % 4)


def delete(tables: list[tuple[int, str]]) -> None:
    """Delete tables of nftables with all that is in them, in one transaction."""
    transaction = message(BEGIN, 0, 0, NFTABLES)
    for number, (family, name) in enumerate(tables, start=1):
        named = written(NAME, name.encode() + b"\0")
        last = ACKNOWLEDGE if number == len(tables) else 0
        transaction += message(DELETE_TABLE, last, family, attributes=named)
    for _ in ask(transaction + message(END, 0, 0, NFTABLES)):
        pass


def commands(
    ruleset: list[dict[str, Any]], prefixes: tuple[str, ...], marks: tuple[str, ...] = ()
) -> tuple[list[str], list[str]]:
    """Return the chains that go and nft's commands for it and for rules that go, from `nft --json list ruleset`.

    From `list chains` the former are the same.
    """
    chains = [entry["chain"] for entry in ruleset if "chain" in entry]
    rules = [entry["rule"] for entry in ruleset if "rule" in entry]
    table_of = {id(thing): f"{thing['family']} {thing['table']}" for thing in (*chains, *rules)}
    places = {(table_of[id(chain)], chain["name"]) for chain in chains if chain["name"].startswith(prefixes)}
    others = [rule for rule in rules if (table_of[id(rule)], rule["chain"]) not in places]
    leading = [rule for rule in others if (table_of[id(rule)], target(rule)) in places or accepted(rule) in marks]
    script = [f"delete rule {table_of[id(rule)]} {rule['chain']} handle {rule['handle']}" for rule in leading]
    script += [f"flush chain {table} {name}" for table, name in sorted(places)]
    script += [f"delete chain {table} {name}" for table, name in sorted(places)]
    for table in sorted({table for table, _ in places} | {table_of[id(rule)] for rule in leading}):
        rest = [chain for chain in chains if table_of[id(chain)] == table and (table, chain["name"]) not in places]
        busy = [rule for rule in others if table_of[id(rule)] == table and rule not in leading]
        bare = all(chain.get("hook") and chain.get("policy") == "accept" for chain in rest)
        if table.split()[1] in OF_IPTABLES and bare and not busy:
            script.append(f"delete table {table}")
    return [f"chain {table} {name}" for table, name in sorted(places)], script


def without(saved: str, prefixes: tuple[str, ...], marks: tuple[str, ...] = ()) -> str:
    """Return iptables-save's output without chains of those prefixes, rules in or to them, and rules of those marks."""

    ends = [f"-m mark --mark {mark} -j ACCEPT" for mark in marks]

    def ours(line: str) -> bool:
        words = line.split()
        named = [words[0][1:]] if line.startswith(":") else []
        named += [after for word, after in pairwise(words) if word in {"-A", "-j", "-g"}]
        return any(name.startswith(prefixes) for name in named) or any(line.rstrip().endswith(end) for end in ends)

    return "".join(line for line in saved.splitlines(keepends=True) if not (line.strip() and ours(line)))


def output(*argv: str) -> str:
    """Return what a command prints."""
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def feed(text: str, *argv: str) -> None:
    """Give a command its input."""
    subprocess.run(argv, input=text, capture_output=True, text=True, check=True)


def ip(*words: str) -> None:
    """Ask for a deletion of something that may be gone already."""
    subprocess.run(["/usr/sbin/ip", *words], capture_output=True, check=False)


def sweep_links(names: list[str], protocols: list[int], *, dry: bool) -> list[str]:
    """Remove interfaces, then the routes that did not go with those."""
    links = interfaces(names)
    removed = [f"interface {name}" for name in links]
    if not dry:
        for name in links:
            ip("link", "delete", name)
    left = routes(protocols)
    removed += [f"route {arguments}" for arguments in left]
    if not dry:
        for arguments in left:
            ip(*arguments.split())
    return removed


def sweep_nftables(names: list[str], prefixes: tuple[str, ...], marks: tuple[str, ...], *, dry: bool) -> list[str]:
    """Remove from nftables."""
    if shutil.which("nft") is None:
        return []
    whole = present(names)
    if whole and not dry:
        delete(whole)
    listed = json.loads(output("nft", "--json", "list", "chains" if dry else "ruleset") or "{}").get("nftables", [])
    removed, script = commands(
        [entry for entry in listed if next(iter(entry.values())).get("table") not in names], prefixes, marks
    )
    if script and not dry:
        feed("\n".join(script) + "\n", "nft", "--file", "-")
    return [f"table {FAMILIES.get(family, family)} {name}" for family, name in whole] + removed


def sweep_legacy(prefixes: tuple[str, ...], marks: tuple[str, ...], *, dry: bool) -> list[str]:
    """Remove from the kernel's older tables, where it has any."""
    removed = []
    for family, command in (("ip", "iptables-legacy"), ("ip6", "ip6tables-legacy")):
        names = Path(LEGACY_NAMES.format(family=family))
        if not names.exists() or shutil.which(f"{command}-save") is None:
            continue
        for table in names.read_text(encoding="utf-8").split():
            saved = output(f"{command}-save", "--table", table)
            rest = without(saved, prefixes, marks)
            if rest != saved:
                removed.append(f"chains of {command} {table}")
                if not dry:
                    feed(rest, f"{command}-restore", "--table", table)
    return removed


def sweep_sets(prefixes: tuple[str, ...], *, dry: bool) -> list[str]:
    """Remove ipsets, which only rules that are gone have used. The kernel is asked: machines need not have `ipset`."""
    version = written(SETS_VERSION, bytes([SETS_PROTOCOL]))
    try:
        answers = list(ask(message(LIST_SETS, ALL, socket.AF_INET, attributes=version))) if prefixes else []
    except OSError as error:
        if error.errno == errno.EINVAL:  # a kernel without ipsets
            return []
        raise
    every = {attribute(SET_NAME, content[4:]).rstrip(b"\0").decode() for kind, content in answers if kind == LIST_SETS}
    found = sorted(name for name in every if name.startswith(prefixes))
    for name in () if dry else found:
        named = version + written(SET_NAME, name.encode() + b"\0")
        for _ in ask(message(DESTROY_SET, ACKNOWLEDGE, socket.AF_INET, attributes=named)):
            pass
    return [f"set {name}" for name in found]


def complaint(error: subprocess.CalledProcessError) -> str:
    """Say how a command ended, and what to do about a crash of nft."""
    command = " ".join(error.cmd)
    if error.cmd[0] == "nft" and error.returncode == -signal.SIGSEGV:
        return (
            f"`{command}` crashed: a newer nft than this machine's has written a table that it cannot read, and it is "
            "none of the cluster's; install a newer nftables, or remove that table (`nft list chains` names "
            "them), then repeat"
        )
    return f"`{command}` ended with status {error.returncode}: {error.stderr.strip()}"


def main() -> None:
    """Run as an Ansible module."""
    texts = ("interfaces", "tables", "chains", "marks", "sets")
    kinds = {"route_protocols": "int", **dict.fromkeys(texts, "str")}
    lists = {name: {"type": "list", "elements": kind, "default": []} for name, kind in kinds.items()}
    module = AnsibleModule(argument_spec=lists, supports_check_mode=True)
    given, dry = module.params, module.check_mode
    prefixes, marks = tuple(given["chains"]), tuple(given["marks"])
    try:
        removed = sweep_links(given["interfaces"], given["route_protocols"], dry=dry)
        removed += sweep_nftables(given["tables"], prefixes, marks, dry=dry)
        removed += sweep_legacy(prefixes, marks, dry=dry)
        removed += sweep_sets(tuple(given["sets"]), dry=dry)
    except subprocess.CalledProcessError as error:
        module.fail_json(msg=complaint(error))
    except OSError as error:
        module.fail_json(msg=f"the kernel did not list or delete nftables tables or ipsets: {error}")
    module.exit_json(changed=bool(removed), removed=removed)


if __name__ == "__main__":
    main()
