"""The programs that every instance has on this host: the mirror of binaries and images, and the embedded KubeVirt."""

from __future__ import annotations

from pathlib import Path

import harness
from harness import interpreter, urls
from harness.embedded.machines.names import MIRROR_PORT, REGISTRY_PORT
from harness.embedded.stretch import STRETCH
from harness.infra.host.addresses import SUBRESOURCES_PORT, WEBHOOK_PORT, address6_of, address_of
from harness.infra.host.config import UP_SECONDS, HostConfig
from harness.infra.host.probes import accepts, answers, exists
from harness.infra.host.program import HostProgram, PlainCommand

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
