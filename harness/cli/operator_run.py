"""`vmatrix operator run`: the manager."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import takes
from harness.errors import BadInput
from harness.operator.context import GIT_PORT, OperatorOptions
from harness.operator.manager import HEALTH_PORT, ManagerSettings
from harness.operator.manager import run as run_manager
from harness.operator.registry import ALL, NAMES, WEBHOOKS
from harness.urls import is_image

HINT = f"default: {ALL} ({', '.join(NAMES)}); with {WEBHOOKS}, it serves the webhooks"
WAYS = ("Auto", "Direct", "PortForward")
SHORTEST_LEASE = 1.0  # second: an API server writes it as whole seconds
LONGEST_LEASE = 3600.0  # seconds, after which nobody waits for a manager that is gone


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(takes()(run))


@dataclass(frozen=True)
class DeliveryOptions:
    """How Deliveries are built, and how git servers are heard."""

    builds: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="How many revisions of Deliveries are built at a time.")
    ] = OperatorOptions.builds
    buildkit_image: Annotated[
        str, typer.Option(metavar="IMAGE", help="Image of BuildKit for builds; default: the one beside the executor's.")
    ] = ""
    base_registry: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST[:PORT]",
            help="Registry that base images may come from, can be repeated; default: the executor's.",
        ),
    ] = None
    insecure_registry: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST[:PORT]", help="One of these registries without TLS; can be repeated."),
    ] = None
    builder_seccomp_profile: Annotated[
        str, typer.Option(metavar="FILE", help="Seccomp profile of builders, a file of the nodes; default: as others.")
    ] = ""
    git_port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="Port on which git servers tell of commits; 0: any.")
    ] = GIT_PORT


@dataclass(frozen=True)
class ProcessOptions:
    """How a manager shows its health, shares its work with others, and waits."""

    health_port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="Port of /healthz, /readyz and /metrics; 0: any.")
    ] = HEALTH_PORT
    lease_seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="After so long without a sign of life another manager takes over.")
    ] = ManagerSettings.lease_seconds
    timeout_scale: Annotated[float, typer.Option(metavar="FACTOR", help="Factor for all waits.")] = 1.0


def run(
    process: ProcessOptions,
    deliveries: DeliveryOptions,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Kubeconfig of the cluster; default: $KUBECONFIG, else the pod's service account."
        ),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(metavar="NAMESPACE", help="The only namespace to look at; default: all of them.")
    ] = None,
    executor_image: Annotated[
        str,
        typer.Option(
            metavar="IMAGE",
            envvar="VMATRIX_EXECUTOR_IMAGE",
            help="Image of executors whose object names none.",
        ),
    ] = "",
    access: Annotated[
        str,
        typer.Option(metavar="WAY", help="Way to machines of objects that say Auto: Auto, Direct or PortForward."),
    ] = OperatorOptions.access,
    controllers: Annotated[
        str, typer.Option(metavar="NAMES", help=f"Controllers to run, with commas between; {HINT}.")
    ] = "",
) -> None:
    """Run the operator until SIGTERM: make, change and reset clusters as their ClusterDeployments say.

    Of several managers one works and the others wait. Operations are run by Jobs, which go on without the manager.
    """
    _refuse_wrong(process, access, {"--executor-image": executor_image, "--buildkit-image": deliveries.buildkit_image})
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(threadName)s %(message)s"
    )
    options = OperatorOptions(
        executor_image=executor_image,
        access=access,
        stretch=process.timeout_scale,
        builds=deliveries.builds,
        buildkit_image=deliveries.buildkit_image,
        registries=tuple(deliveries.base_registry or ()),
        insecure_registries=tuple(deliveries.insecure_registry or ()),
        seccomp_profile=deliveries.builder_seccomp_profile,
        git_port=deliveries.git_port,
    )
    names = [name.strip() for name in controllers.split(",") if name.strip()]
    settings = ManagerSettings(kubeconfig, namespace, tuple(names), options, process.health_port, process.lease_seconds)
    run_manager(settings)


def _refuse_wrong(process: ProcessOptions, access: str, images: Mapping[str, str]) -> None:
    if access not in WAYS:
        raise BadInput(f"--access {access} is not a way to machines", hint=f"use {', '.join(WAYS)}")
    lease_seconds, timeout_scale = process.lease_seconds, process.timeout_scale
    if not SHORTEST_LEASE <= lease_seconds <= LONGEST_LEASE:
        message = f"--lease-seconds {lease_seconds:g} is not a time that a lease can have"
        raise BadInput(message, hint=f"use {SHORTEST_LEASE:g} to {LONGEST_LEASE:g} seconds")
    if not 0 < timeout_scale < math.inf:
        raise BadInput(f"--timeout-scale {timeout_scale:g} is not a factor", hint="use a number above 0, such as 2")
    for option, image in images.items():
        if image and not is_image(image):
            raise BadInput(f"{option} {image!r} is not an image", hint="REGISTRY/PATH/NAME:TAG")
