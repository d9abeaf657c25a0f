"""Runs in a guest, as root, with nothing but Python: tries every address and port by every way to the host.

Input is JSON on stdin: `addresses` (IPv4 and IPv6), `ports`, `gateway` (the host's address in the guest's network),
`udp` (a port to send datagrams to), `routes` (whether to lead the addresses to the host first),
`seconds` (how long a connection may take). Output: a JSON list of
[address, port, how], where how is "connected" or "refused" (an answer all the same), of what was reached.
"""

import errno
import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

DEVICE = "eth0"
AT_ONCE = 100
ANSWERED = {0: "connected", errno.ECONNREFUSED: "refused"}


def ip(*words: str) -> str:
    """Run `ip`."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)  # noqa: S607 - the guest's own
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def lead(addresses: list[str], gateway: str) -> None:
    """Lead addresses to the host's end, whatever routes and neighbours the guest has been given."""
    hardware = json.loads(ip("-json", "neigh", "show", gateway, "dev", DEVICE))[0]["lladdr"]
    own = hardware.replace(":", "")[-4:]
    ip("-6", "address", "replace", f"fd99::{own}:66/64", "dev", DEVICE, "nodad")
    for address in addresses:
        if ":" in address:
            ip("-6", "neigh", "replace", address, "lladdr", hardware, "dev", DEVICE)
            ip("-6", "route", "replace", f"{address}/128", "dev", DEVICE)
        else:
            ip("route", "replace", f"{address}/32", "via", gateway, "dev", DEVICE, "onlink")


def target(address: str, port: int) -> tuple[str, int] | tuple[str, int, int, int]:
    """Return what a socket connects to; link-local addresses have an interface."""
    scope = socket.if_nametoindex(DEVICE) if address.startswith("fe80") else 0
    return (address, port, 0, scope) if ":" in address else (address, port)


def tried(pair: tuple[str, int], seconds: float) -> tuple[str, int, str]:
    """Try one port; return what came back."""
    address, port = pair
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(seconds)
        try:
            code = probe.connect_ex(target(address, port))
        except OSError as error:
            code = error.errno or -1
    return address, port, ANSWERED.get(code, errno.errorcode.get(code, str(code)))


def send(address: str, port: int) -> None:
    """Send a datagram; whether it arrives is seen at the other end."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sender:
        try:
            sender.sendto(b"from a guest", target(address, port))
        except OSError:
            return


def main() -> None:
    """Try everything at once."""
    asked = json.load(sys.stdin)
    if asked["routes"]:
        lead(asked["addresses"], asked["gateway"])
    for address in asked["addresses"]:
        send(address, asked["udp"])
    pairs = [(address, port) for address in asked["addresses"] for port in asked["ports"]]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        json.dump(
            [
                found
                for found in pool.map(lambda pair: tried(pair, asked["seconds"]), pairs)
                if found[2] in ANSWERED.values()
            ],
            sys.stdout,
        )


if __name__ == "__main__":
    main()
