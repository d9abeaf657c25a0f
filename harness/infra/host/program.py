"""Programs of an instance: how each is started, what it waits for, and the probe that tells that it is ready."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from harness.errors import VmatrixError
from harness.infra.host.pki import Issued
from harness.kube import Cluster
from harness.until import NotYet

MARKER = "VMATRIX_INSTANCE"  # in the environment of every process of an instance: its folder. Never in a guest's.

Probe = Callable[[], NotYet | None]


class HostCommand(Protocol):
    """How a process is started: its argument list and the variables to add to its environment."""

    @property
    def argv(self) -> tuple[str, ...]: ...

    @property
    def env(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class PlainCommand:
    """A HostCommand that is known beforehand."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HostProgram:
    """One process of an instance.

    Attributes:
        command: asked only when the program is to be started.
        after: the programs that must be ready before this one is started.
        stale: files of an earlier process of this program, deleted before it starts.
        restarts: how often it is started again when it ends while it is coming up.
        grace: seconds it may take to end before it is killed.
    """

    name: str
    command: Callable[[], HostCommand]
    ready: Probe
    after: tuple[str, ...] = ()
    stale: tuple[Path, ...] = ()
    restarts: int = 0
    grace: float = 1.0


PROBE_SECONDS = 2.0  # one look at a program of this host, repeated until instance_up


def answers(url: str, *, authority: Path | None = None, client: Issued | None = None) -> Probe:
    """Return a probe that a GET of the URL is answered with 200.

    Args:
        authority: the certificate that an https server must be issued by.
        client: the certificate to show to the server.
    """

    def probe() -> NotYet | None:
        parts = urlsplit(url)
        try:
            connection = _connection(parts.scheme, parts.netloc, authority, client)
            try:
                connection.request("GET", parts.path or "/")
                status = connection.getresponse().status
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            return NotYet(f"{url}: {error}")
        return None if status == http.client.OK else NotYet(f"{url} answers {status}")

    return probe


def serves(kubeconfig: Path) -> Probe:
    """Return a probe that the Kubernetes API of a kubeconfig says it is ready."""
    opened: list[Cluster] = []

    def probe() -> NotYet | None:
        if not opened:
            opened.append(Cluster.from_kubeconfig(kubeconfig))
        try:
            answer = opened[0].send("GET", "/readyz", read_seconds=PROBE_SECONDS)
        except VmatrixError as error:
            return NotYet(error.summary)
        return (
            None if answer.code == http.client.OK else NotYet(f"/readyz answers {answer.code}: {_failing(answer.body)}")
        )

    return probe


def accepts(address: str, port: int) -> Probe:
    """Return a probe that a TCP connection is accepted."""

    def probe() -> NotYet | None:
        try:
            socket.create_connection((address, port), timeout=PROBE_SECONDS).close()
        except OSError as error:
            return NotYet(f"{address}:{port}: {error}")
        return None

    return probe


def exists(path: Path) -> Probe:
    """Return a probe that a file exists."""
    return lambda: None if path.exists() else NotYet(f"{path.name} does not exist")


def _connection(
    scheme: str, netloc: str, authority: Path | None, client: Issued | None
) -> http.client.HTTPConnection | http.client.HTTPSConnection:
    if scheme == "http":
        return http.client.HTTPConnection(netloc, timeout=PROBE_SECONDS)
    context = ssl.create_default_context(cafile=str(authority) if authority is not None else None)
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    return http.client.HTTPSConnection(netloc, timeout=PROBE_SECONDS, context=context)


def _failing(body: Any) -> str:
    """Return the checks that fail from a /readyz answer."""
    lines = body.splitlines() if isinstance(body, str) else []
    failing = [line.split()[0].removeprefix("[-]") for line in lines if line.startswith("[-]")]
    return ", ".join(failing) or str(body)[:200]
