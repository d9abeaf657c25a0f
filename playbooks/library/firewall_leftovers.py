#!/usr/bin/python
"""Ansible module: take whole tables and address sets of cluster components out of a machine's firewall.

Tables go through the kernel's own interface: nft of Debian 12 crashes on a table that a newer nft made, such as that of
a container image, whatever it is asked. Sets do too, because machines need not have `ipset`.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: firewall_leftovers
short_description: Take tables and address sets of cluster components out of a machine's firewall
description: [Deletes what has such a name, and nothing else; `removed` lists it, in check mode what would go.]
options:
  tables: {description: Names of nftables tables that go whole., type: list, elements: str, default: []}
  sets: {description: Beginnings of names of ipsets., type: list, elements: str, default: []}
author: [vmatrix]
"""
FAMILIES = {1: "inet", 2: "ip", 10: "ip6"}
# of the kernel's headers: netlink.h, nfnetlink.h, nf_tables.h, ip_set.h
NETFILTER, NFTABLES, SETS = 12, 10, 6 << 8  # netlink's number of the firewall, and the firewall's of its parts
TABLE, LIST_TABLES, DELETE_TABLE = (NFTABLES << 8 | number for number in (0, 1, 2))
DESTROY_SET, LIST_SETS, SET_NAME = SETS | 3, SETS | 7, 2
BEGIN, END, NAME = 0x10, 0x11, 1  # of a transaction; the attribute of a table
ERROR, DONE = 2, 3  # kinds of answers; an error of number 0 says that it is done
REQUEST, ACKNOWLEDGE, ALL = 1, 4, 0x300
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


def main() -> None:
    """Run as an Ansible module."""
    names = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(argument_spec={"tables": names, "sets": names}, supports_check_mode=True)
    try:
        removed = sweep_tables(module.params["tables"], dry=module.check_mode) if module.params["tables"] else []
        removed += sweep_sets(tuple(module.params["sets"]), dry=module.check_mode)
    except OSError as error:
        module.fail_json(msg=f"cannot remove leftovers in the firewall: {error}")
    module.exit_json(changed=bool(removed), removed=removed)


if __name__ == "__main__":
    main()
