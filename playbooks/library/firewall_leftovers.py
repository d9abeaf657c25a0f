#!/usr/bin/python
"""Ansible module: take tables, chains, rules and address sets of cluster components out of a machine's firewall.

Whole tables go through the kernel's own interface: nft of Debian 12 crashes on a table that a newer nft made, such as
that of a container image, whatever it is asked. Sets do too, because machines need not have `ipset`. Everybody else's
stay, and iptables-nft's own tables when they hold anything else.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: firewall_leftovers
short_description: Take what cluster components made of a machine's firewall away
description: [Deletes what has such a name, and nothing else; `removed` lists it, in check mode what would go.]
options:
  tables: {description: Names of nftables tables that go whole., type: list, elements: str, default: []}
  chains: {description: Beginnings of chains' names; rules to them go., type: list, elements: str, default: []}
  marks: {description: As 0x1/0x1; rules that accept packets for having one go., type: list, elements: str, default: []}
  sets: {description: Beginnings of names of ipsets., type: list, elements: str, default: []}
author: [vmatrix]
"""
OF_IPTABLES = {"filter", "nat", "mangle", "raw", "security"}
COMMENTS = (("xt", {"type": "match", "name": "comment"}), ("xt", None))  # as newer and older nft print iptables' own
FAMILIES = {1: "inet", 2: "ip", 10: "ip6"}
# of the kernel's headers: netlink.h, nfnetlink.h, nf_tables.h, ip_set.h
NETFILTER, NFTABLES, SETS = 12, 10, 6 << 8  # netlink's number of the firewall, and the firewall's of its parts
TABLE, LIST_TABLES, DELETE_TABLE = (NFTABLES << 8 | number for number in (0, 1, 2))
DESTROY_SET, LIST_SETS, SET_NAME = SETS | 3, SETS | 7, 2
BEGIN, END, NAME = 0x10, 0x11, 1  # of a transaction; the attribute of a table
ERROR, DONE = 2, 3  # kinds of answers; an error of number 0 says that it is done
REQUEST, ACKNOWLEDGE, ALL = 1, 4, 0x300
NAMES = ("tables", "chains", "marks", "sets")
SECONDS = 30  # for one answer of the kernel


def written(kind: int, content: bytes) -> bytes:
    """Return an attribute."""
    return struct.pack("=HH", 4 + len(content), kind) + content + b"\0" * (-len(content) % 4)


VERSION = written(1, b"\x06")  # the oldest protocol of ipsets that kernels speak


def text(wanted: int, attributes: bytes) -> str:
    """Return one attribute as a text, without it ""."""
    while attributes:
        length, kind = struct.unpack_from("=HH", attributes)
        if kind == wanted:
            return attributes[4:length].rstrip(b"\0").decode()
        attributes = attributes[(length + 3) & ~3 :]
    return ""


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


def sweep_tables(names: list[str], *, dry: bool) -> list[str]:
    """Delete tables of nftables with all that is in them, in one transaction."""
    answers = [content for kind, content in ask(message(LIST_TABLES, ALL, 0)) if kind == TABLE]
    tables = sorted(table for table in ((each[0], text(NAME, each[4:])) for each in answers) if table[1] in names)
    if tables and not dry:
        transaction = message(BEGIN, 0, 0, NFTABLES)
        for family, name in tables:
            last = ACKNOWLEDGE if (family, name) == tables[-1] else 0
            transaction += message(DELETE_TABLE, last, family, attributes=written(NAME, name.encode() + b"\0"))
        list(ask(transaction + message(END, 0, 0, NFTABLES)))
    return [f"table {FAMILIES.get(family, family)} {name}" for family, name in tables]


def sweep_sets(prefixes: tuple[str, ...], *, dry: bool) -> list[str]:
    """Remove ipsets, which only rules that are gone have used."""
    try:
        answers = list(ask(message(LIST_SETS, ALL, socket.AF_INET, attributes=VERSION))) if prefixes else []
    except OSError as error:
        if error.errno == errno.EINVAL:  # a kernel without ipsets
            return []
        raise
    every = {text(SET_NAME, content[4:]) for kind, content in answers if kind == LIST_SETS}
    names = sorted(name for name in every if name.startswith(prefixes))
    for name in () if dry else names:
        named = VERSION + written(SET_NAME, name.encode() + b"\0")
        list(ask(message(DESTROY_SET, ACKNOWLEDGE, socket.AF_INET, attributes=named)))
    return [f"set {name}" for name in names]


def target(rule: dict[str, Any]) -> str:
    """Return the chain that a rule jumps or goes to, "" when it does neither."""
    verbs = [word.get("jump") or word.get("goto") for word in rule.get("expr", [])]
    return next((str(verb["target"]) for verb in verbs if isinstance(verb, dict)), "")


def accepts(rule: dict[str, Any], marks: tuple[str, ...]) -> bool:
    """Tell whether a rule accepts packets for one of the marks (0x1/0x1) alone."""
    words = [
        word for word in rule.get("expr", []) if next(iter(word.items())) not in COMMENTS and "counter" not in word
    ]
    for right, mask in ([int(part, 16) for part in mark.split("/")] for mark in marks):
        match = {"op": "==", "left": {"&": [{"meta": {"key": "mark"}}, mask]}, "right": right}
        if rule["table"] in OF_IPTABLES and words == [{"match": match}, {"accept": None}]:
            return True
    return False


def commands(
    ruleset: list[dict[str, Any]], prefixes: tuple[str, ...], marks: tuple[str, ...] = ()
) -> tuple[list[str], list[str]]:
    """Return the chains that go and nft's commands for it and for rules that go, from `nft --json list ruleset`."""
    chains = [(f"{one['family']} {one['table']}", one) for one in (each.get("chain") for each in ruleset) if one]
    rules = [(f"{one['family']} {one['table']}", one) for one in (each.get("rule") for each in ruleset) if one]
    places = sorted((table, chain["name"]) for table, chain in chains if chain["name"].startswith(prefixes))
    others = [(table, rule) for table, rule in rules if (table, rule["chain"]) not in places]
    leading = [(table, rule) for table, rule in others if (table, target(rule)) in places or accepts(rule, marks)]
    script = [f"delete rule {table} {rule['chain']} handle {rule['handle']}" for table, rule in leading]
    script += [f"{verb} chain {table} {name}" for verb in ("flush", "delete") for table, name in places]
    for own in sorted({table for table, _ in (*places, *leading)}):
        rest = [chain for table, chain in chains if table == own and (table, chain["name"]) not in places]
        busy = [rule for table, rule in others if table == own and (table, rule) not in leading]
        bare = all(chain.get("hook") and chain.get("policy") == "accept" for chain in rest)
        if own.split()[1] in OF_IPTABLES and bare and not busy:
            script.append(f"delete table {own}")
    return [f"chain {table} {name}" for table, name in places], script


def nft(*words: str, stdin: str = "") -> str:
    """Return what nft prints. Raises OSError."""
    argv = ["nft", *words]
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        remedy = "remove the table that it cannot read (`nft list chains` shows it), or install a newer nftables"
        raise OSError(f"`nft {' '.join(words)}` ended with status {done.returncode}: {done.stderr.strip() or remedy}")
    return done.stdout


def sweep(given: dict[str, list[str]], *, dry: bool) -> list[str]:
    """Remove everything, rules before the sets that they use; return what went."""
    removed: list[str] = []
    if shutil.which("nft"):
        removed += sweep_tables(given["tables"], dry=dry)
        listed = json.loads(nft("--json", "list", "chains" if dry else "ruleset") or "{}").get("nftables", [])
        rest = [entry for entry in listed if next(iter(entry.values())).get("table") not in given["tables"]]
        chains, script = commands(rest, tuple(given["chains"]), tuple(given["marks"]))
        removed += chains
        if script and not dry:
            nft("--file", "-", stdin="\n".join(script) + "\n")
    return removed + sweep_sets(tuple(given["sets"]), dry=dry)


def main() -> None:
    """Run as an Ansible module."""
    lists = {name: {"type": "list", "elements": "str", "default": []} for name in NAMES}
    module = AnsibleModule(argument_spec=lists, supports_check_mode=True)
    try:
        removed = sweep(module.params, dry=module.check_mode)
    except OSError as error:
        module.fail_json(msg=f"cannot remove leftovers in the firewall: {error}")
    module.exit_json(changed=bool(removed), removed=removed)


if __name__ == "__main__":
    main()
