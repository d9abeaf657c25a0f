"""Prints what a machine itself gets from pods and Services: by TCP, by UDP with DF, and from DNS in both ways.

topics/connectivity.py reads the output.
"""

from __future__ import annotations

import json
import secrets
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from harness.validate.machine.library import DNS_SECONDS, HTTP_SECONDS, fetch, in_url

A, AAAA, INTERNET, RECURSE = 1, 28, 1, 0x0100
# linux/in.h: set DF, and send what is larger than the known path MTU all the same
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3
# linux/in6.h: the same for IPv6; the size of a packet's headers is that of IP and UDP
FAMILIES = {
    socket.AF_INET: (socket.IPPROTO_IP, IP_MTU_DISCOVER, 28),
    socket.AF_INET6: (socket.IPPROTO_IPV6, 23, 48),
}
OK = 200
NO_ANSWER, SERVFAIL, NXDOMAIN = -1, 2, 3
TRIES = 3  # a busy host loses a datagram now and then


def family_of(address: str) -> socket.AddressFamily:
    """Return the family of an address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def connected(host: str, port: int) -> str:
    """Connect by TCP; return why it failed, "" when it did not."""
    try:
        socket.create_connection((host, port), timeout=HTTP_SECONDS).close()
    except OSError as error:
        return str(error)
    return ""


def echoed(host: str, port: int, size: int) -> str:
    """Send one datagram that makes a packet of `size` bytes and may not be cut up; return why no answer came."""
    family = family_of(host)
    level, option, headers = FAMILIES[family]
    text = b"echo " + b"x" * (size - headers - 5)
    with socket.socket(family, socket.SOCK_DGRAM) as link:
        link.setsockopt(level, option, IP_PMTUDISC_PROBE)
        link.settimeout(DNS_SECONDS)
        link.connect((host, port))
        link.send(text)
        answer = link.recv(size)
    return "" if answer.strip() == text[5:] else f"another answer, of {len(answer)} bytes"


def resolved(server: str, name: str, way: str) -> str:
    """Ask a DNS server for a name; return the code of its answer's failure, "" when it has an address of any family."""
    code = NO_ANSWER
    for kind in (A, AAAA):
        code, answers = queried(server, name, way, kind)
        if answers:
            return ""
    return f"no address in the answer (code {code})"


def queried(server: str, name: str, way: str, kind: int = A) -> tuple[int, int]:
    """Return the code of a DNS server's answer (RFC 1035, 4.1.1) and how many records of a kind it has."""
    number = secrets.randbelow(65536)
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.strip(".").split("."))
    question = struct.pack(">HHHHHH", number, RECURSE, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, INTERNET)
    if way == "tcp":
        with socket.create_connection((server, 53), timeout=HTTP_SECONDS) as stream:
            stream.sendall(struct.pack(">H", len(question)) + question)
            handle = stream.makefile("rb")
            answer = handle.read(struct.unpack(">H", handle.read(2))[0])
    else:
        with socket.socket(family_of(server), socket.SOCK_DGRAM) as link:
            link.settimeout(DNS_SECONDS)
            link.connect((server, 53))
            link.send(question)
            answer = link.recv(4096)
    identity, flags, _, answers = struct.unpack(">HHHH", answer[:8])
    if identity != number:
        raise OSError("an answer to another question")
    return flags & 15, answers


def records(server: str, name: str) -> str:
    """Return how many records of type A and of type AAAA a DNS server has of a name, as "A AAAA"; "" without answer."""
    counts = []
    for kind in (A, AAAA):
        for _ in range(TRIES):
            try:
                code, answers = queried(server, name, "udp", kind)
            except (OSError, struct.error):
                continue
            if code in (0, NXDOMAIN):
                counts.append(answers)
                break
    return " ".join(map(str, counts)) if len(counts) == 2 else ""


def code_of(server: str, name: str) -> int:
    """Return the code that a DNS server answers with in the end, -1 without an answer.

    SERVFAIL is asked about again: a server that has just started to ask others may need a moment.
    """
    code = NO_ANSWER
    for _ in range(TRIES):
        try:
            code = queried(server, name, "udp")[0]
        except (OSError, struct.error):
            continue
        if code != SERVFAIL:
            return code
    return code


def seen_as(host: str, port: int, path: str) -> str:
    """Return what an HTTP server answers that tells whom it sees; "" when it does not."""
    answer = fetch(f"http://{in_url(host)}:{port}/{path}")
    return answer["body"].strip() if answer["status"] == OK else ""


def tried(attempt: Callable[..., str], *arguments: Any) -> str:
    """Try some times; return why the last one failed, "" when one did not."""
    why = ""
    for _ in range(TRIES):
        try:
            why = attempt(*arguments)
        except (OSError, struct.error) as error:
            why = str(error) or type(error).__name__
        if not why:
            return ""
    return why


def main(argv: Sequence[str]) -> None:
    """Dial everything and print why each failed, "" for what did not.

    Args:
        argv: one JSON object: `tcp` ([host, port]...), `echo` ([host, port, size]...), `dns` ([server, name, way]...),
            `seen` ([host, port, path]...), `code` and `records` ([DNS server, name]...), which give the answer instead.
    """
    options = json.loads(argv[0])
    work = [
        *(("tcp", connected, *dial) for dial in options["tcp"]),
        *(("echo", echoed, *dial) for dial in options["echo"]),
        *(("dns", resolved, *dial) for dial in options["dns"]),
    ]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda dial: tried(*dial[1:]), work))
    sources = [["seen", *dial, seen_as(*dial)] for dial in options["seen"]]
    codes = [["code", *dial, code_of(*dial)] for dial in options["code"]]
    told = [["records", *dial, records(*dial)] for dial in options["records"]]
    # a list of [kind, what was given..., why it failed]
    failures = [[dial[0], *dial[2:], why] for dial, why in zip(work, answers)]  # noqa: B905 - Python 3.9
    print(json.dumps([*failures, *sources, *codes, *told]))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
