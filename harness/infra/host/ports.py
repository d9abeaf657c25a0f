"""Whether a TCP port of this host can be listened on, and who keeps it otherwise."""

from __future__ import annotations

import os
import socket
from pathlib import Path

IP_FREEBIND = 15  # linux/in.h: bind to an address that the host does not have (yet)
LISTEN = "0A"  # include/net/tcp_states.h
NOWHERE = "10.254.254.254"  # an address that nobody has: only a listener on all addresses conflicts


def free(address: str, port: int) -> bool:
    """Tell whether a program could listen there, by trying."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_IP, IP_FREEBIND, 1)
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # closed connections do not count
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def owner(port: int) -> str:
    """Return "name (pid N)" of a process that listens on the port, "" when it cannot be found."""
    inodes = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listening(Path("/proc/net") / table, port)}
    if not inodes:
        return ""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(handle) in inodes for handle in (folder / "fd").iterdir()):
                return f"{(folder / 'comm').read_text(encoding='utf-8').strip()} (pid {folder.name})"
        except OSError:  # it ended while we looked, or it is not ours to look at
            continue
    return ""


def _listening(table: Path, port: int) -> list[str]:
    """Return the inodes of the sockets that listen on a port, from a table of /proc/net."""
    try:
        rows = [line.split() for line in table.read_text(encoding="utf-8").splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if row[3] == LISTEN and int(row[1].rpartition(":")[2], 16) == port]
