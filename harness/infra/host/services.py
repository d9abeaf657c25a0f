"""Services that every instance has on this host, by its configuration: the mirror and the embedded KubeVirt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness import interpreter, urls
from harness.embedded import STRETCH
from harness.embedded.machines.names import MIRROR_PORT, REGISTRY_PORT
from harness.infra.host.layout import Layout
from harness.infra.host.network import SUBRESOURCES_PORT, WEBHOOK_PORT, address6_of, address_of
from harness.infra.host.program import HostCommand, HostProgram, PlainCommand, accepts, answers, exists

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
    up_seconds: float = UP_SECONDS
    api_flags: Mapping[str, object] = field(default_factory=dict)


KUBEVIRT = "kubevirt"
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


def kubevirt(
    config: HostConfig, index: int, *, after: tuple[str, ...] = (), namespaces: Path | None = None
) -> HostProgram:
    """Return the embedded KubeVirt.

    Args:
        after: programs of the instance that must be ready before it starts.
        namespaces: kubeconfig of whom it ends deleted namespaces as; None where a controller manager does.
    """
    layout, address = config.layout, address_of(index)
    ready = layout.run / "kubevirt.ready"
    argv = (
        *interpreter.call(KUBEVIRT_MODULE),
        f"--kubeconfig={layout.kubeconfig_of(KUBEVIRT)}",
        f"--state={layout.root}",
        f"--index={index}",
        f"--node-name={layout.node}",
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
