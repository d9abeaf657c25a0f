"""Programs of an instance: how each is started, what it waits for, and the probe that tells that it is ready."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

import harness
from harness import interpreter, urls
from harness.embedded import STRETCH
from harness.embedded.machines.names import MIRROR_PORT, REGISTRY_PORT
from harness.errors import VmatrixError
from harness.http_client import WebRequest, ask, reason
from harness.infra.host.layout import Layout
from harness.infra.host.network import SUBRESOURCES_PORT, WEBHOOK_PORT, address6_of, address_of, deliveries_of, pulls_of
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
        try:
            context = _trust(authority, client) if url.startswith("https:") else None
            reply = ask(WebRequest(url, context=context, direct=True), PROBE_SECONDS)
        except OSError as error:
            return NotYet(f"{url}: {reason(error)}")
        return None if reply.ok else NotYet(f"{url} answers {reply.status}")

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
            None if answer.code == HTTPStatus.OK else NotYet(f"/readyz answers {answer.code}: {_failing(answer.body)}")
        )

    return probe


def accepts(address: str, port: int) -> Probe:
    """Return a probe that a TCP connection is accepted."""

    def probe() -> NotYet | None:
        try:
            socket.create_connection((address, port), timeout=PROBE_SECONDS).close()
        except OSError as error:
            return NotYet(f"{address}:{port}: {reason(error)}")
        return None

    return probe


def exists(path: Path) -> Probe:
    """Return a probe that a file exists."""
    return lambda: None if path.exists() else NotYet(f"{path.name} does not exist")


def _trust(authority: Path | None, client: Issued | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority) if authority is not None else None)
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    return context


def _failing(body: Any) -> str:
    """Return the checks that fail from a /readyz answer."""
    lines = body.splitlines() if isinstance(body, str) else []
    failing = [line.split()[0].removeprefix("[-]") for line in lines if line.startswith("[-]")]
    return ", ".join(failing) or str(body)[:200]


UP_SECONDS = 240.0  # unless instance_up of timeouts.yml is given, for what only looks or takes down


@dataclass(frozen=True)
class HostConfig:
    """One instance's settings.

    Attributes:
        layout: the instance's name and folder.
        binaries: returns the path of a host binary ("etcd", "kube-apiserver", ...).
        mirror: returns how to serve binaries and disk images at host:port.
        registry: returns how to serve images at host:port.
        publish: puts the images into the registry at host:port; called when that answers.
        prepare: obtains everything the above need; may take long, so it is called before anything is started.
        prepared: tells whether `prepare` has nothing to do.
        deliveries: returns how to run a registry at host:port that pods push to, with its storage in a folder.
        pulls: returns how to run one on the same storage that only reads, for who logs in.
        up_seconds: how long the programs may take together to become ready.
        api_flags: flags of kube-apiserver by name, besides its usual ones: an audit log, another way to log in.
    """

    layout: Layout
    binaries: Callable[[str], Path]
    mirror: Callable[[str], HostCommand]
    registry: Callable[[str], HostCommand]
    publish: Callable[[str], object]
    prepare: Callable[[], object]
    prepared: Callable[[], bool]
    deliveries: Callable[[str, Path], HostCommand]
    pulls: Callable[[str, Path], HostCommand]
    up_seconds: float = UP_SECONDS
    api_flags: Mapping[str, object] = field(default_factory=dict)


KUBEVIRT = "kubevirt"
DELIVERIES, PULLS = "deliveries", "pulls"
KUBEVIRT_MODULE = "harness.embedded"
KUBEVIRT_GRACE = 3.0  # seconds to finish what it is doing to a machine


def mirror(config: HostConfig, index: int) -> tuple[HostProgram, ...]:
    """Return what serves binaries and disk images, and what serves container images."""
    return _mirror(config, address_of(index), "")


def mirror_over_ipv6(config: HostConfig, index: int) -> tuple[HostProgram, ...]:
    """Return what serves the same to clusters of IPv6 alone."""
    return _mirror(config, address6_of(index), "-ipv6")


def _mirror(config: HostConfig, address: str, suffix: str) -> tuple[HostProgram, ...]:
    mirror, registry = (urls.joined(address, port) for port in (MIRROR_PORT, REGISTRY_PORT))
    return (
        HostProgram(f"mirror{suffix}", lambda: config.mirror(mirror), accepts(address, MIRROR_PORT)),
        HostProgram(f"registry{suffix}", lambda: config.registry(registry), answers(f"http://{registry}/v2/")),
    )


def deliveries(config: HostConfig, index: int) -> tuple[HostProgram, ...]:
    """Return the registry that the infra cluster's pods push to, and where guests pull from it.

    Its images go with the instance.
    """
    push, folder = deliveries_of(index), config.layout.root / DELIVERIES
    pull = pulls_of(index)
    host, _, port = pull.rpartition(":")
    return (
        HostProgram(DELIVERIES, lambda: config.deliveries(push, folder), answers(f"http://{push}/v2/")),
        HostProgram(PULLS, lambda: config.pulls(pull, folder), accepts(host, int(port))),
    )


def kubevirt(
    config: HostConfig, index: int, *, after: tuple[str, ...] = (), namespaces: Path | None = None, workers: int = 0
) -> HostProgram:
    """Return the embedded KubeVirt.

    Args:
        after: programs of the instance that must be ready before it starts.
        namespaces: kubeconfig of whom it ends deleted namespaces as; None where a controller manager does.
        workers: Nodes that stand for this host beside the first.
    """
    layout, address = config.layout, address_of(index)
    ready = layout.run / "kubevirt.ready"
    argv = (
        *interpreter.call(KUBEVIRT_MODULE),
        f"--kubeconfig={layout.kubeconfig_of(KUBEVIRT)}",
        f"--state={layout.root}",
        f"--index={index}",
        *(f"--node-name={name}" for name in layout.nodes(workers)),
        f"--webhook-address={address}:{WEBHOOK_PORT}",
        f"--subresources-address={address}:{SUBRESOURCES_PORT}",
        f"--pki={layout.pki}",
        *([f"--namespaces={namespaces}"] if namespaces else []),
    )
    # not an option: a running one is not started anew because another run is more patient
    environment = {
        "PYTHONPATH": str(Path(harness.__file__).resolve().parents[1]),
        STRETCH: str(config.up_seconds / UP_SECONDS),
    }
    return HostProgram(
        KUBEVIRT,
        lambda: PlainCommand(argv, environment),
        exists(ready),
        after=after,
        stale=(ready,),
        restarts=2,  # it gives up when a busy host lets the API answer too slowly
        grace=KUBEVIRT_GRACE,
    )
