"""Which machine is behind which address, for whoever reaches machines through the Kubernetes API; as a file.

`python -m harness.kube.tunnels FILE ADDRESS PORT` is an SSH ProxyCommand: it carries its input to that machine's port
and what comes from there to its output, and ends with whoever started it.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import websocket

from harness.errors import BadInput, VmatrixError
from harness.files import write_atomically
from harness.kube.bridge import Cut, bridge
from harness.kube.client import ApiFailure, Cluster
from harness.kube.kubeconfig import Files, files_in
from harness.kube.portforward import OPEN_SECONDS, open_tunnel

FAILED = 1
NOBODY_LISTENS = "dialing VM"  # how KubeVirt says that the machine, and not the way to it, refused


@dataclass(frozen=True)
class Lost:
    """One connection that was lost, or could not be had because of the way: when (seconds since the epoch), to what."""

    at: float
    address: str
    port: int
    why: str


@dataclass(frozen=True)
class Tunnels:
    """How a cell's machines are reached through the API.

    kubeconfig, context: of the infra cluster.  namespace: of the machines.
    instances: the VirtualMachineInstances' names, by address.  log: gets a line for every connection that is lost.
    open_seconds: how long a connection may take to open.
    """

    kubeconfig: Files
    context: str | None
    namespace: str
    instances: Mapping[str, str]
    log: Path
    open_seconds: float = OPEN_SECONDS

    def save(self, path: Path) -> None:
        """Write the file; it holds no secret."""
        files = [str(file.absolute()) for file in files_in(self.kubeconfig)]
        content = {**vars(self), "kubeconfig": files, "instances": dict(self.instances)}
        write_atomically(path, json.dumps(content, indent=2, default=str) + "\n")

    @staticmethod
    def load(path: Path) -> Tunnels:
        """Read the file.

        Raises:
            BadInput: it is not there, or is no such file.
        """
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            files = tuple(Path(file) for file in content["kubeconfig"])
            return Tunnels(
                files[0] if len(files) == 1 else files,
                content["context"],
                content["namespace"],
                content["instances"],
                Path(content["log"]),
                float(content.get("open_seconds", OPEN_SECONDS)),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{path} does not say how machines are reached: {error}") from error

    def cluster(self) -> Cluster:
        """Open the infra cluster."""
        return Cluster.from_kubeconfig(self.kubeconfig, context=self.context)

    def open(self, cluster: Cluster, address: str, port: int) -> websocket.WebSocket:
        """Open a connection to the machine at an address; what goes wrong on the way is written down.

        Raises:
            BadInput: no machine has the address.  ApiFailure, Unreachable: see open_tunnel.
        """
        instance = self.instances.get(address)
        if instance is None:
            raise BadInput(f"no machine has the address {address}", hint=f"known: {', '.join(self.instances)}")
        try:
            return open_tunnel(cluster, self.namespace, instance, port, self.open_seconds)
        except VmatrixError as error:
            if not refused_inside(error):
                note(self.log, address, port, str(error))
            raise

    def lost_since(self, moment: float) -> list[Lost]:
        """Return the connections that were lost since a moment (seconds since the epoch), oldest first."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.is_file() else []
        return [lost for lost in (Lost(**json.loads(line)) for line in lines) if lost.at >= moment]


def lost_since(tunnels: Path | None, moment: float) -> list[Lost]:
    """Return the same of a cell, given its file; none where no connection goes through the API."""
    return Tunnels.load(tunnels).lost_since(moment) if tunnels is not None else []


def note(log: Path, address: str, port: int, why: str) -> None:
    """Write down, for whoever looks for the cause of a failure, that a connection was lost or could not be had."""
    line = json.dumps({"at": time.time(), "address": address, "port": port, "why": why})
    with log.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def refused_inside(error: VmatrixError) -> bool:
    """Tell whether it was the machine that refused a connection: the way to it is fine."""
    return isinstance(error, ApiFailure) and NOBODY_LISTENS in error.message


def leave(number: int, _: object) -> None:
    """End on a signal, as ssh sends one at its own end: what was made for this process goes with it."""
    sys.exit(128 + number)


def main(arguments: Sequence[str]) -> int:
    """Be an SSH ProxyCommand; return the exit status."""
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    path, address, port = arguments
    try:
        tunnels = Tunnels.load(Path(path))
        tunnel = tunnels.open(tunnels.cluster(), address, int(port))
        try:
            bridge(tunnel, sys.stdin.fileno(), sys.stdout.fileno())
        except Cut as cut:
            note(tunnels.log, address, int(port), str(cut))
            raise
    except VmatrixError as error:
        sys.stderr.write(f"{address}:{port}: {error.summary}\n")
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
