"""The way to a machine: at its own address, or through the API of the cluster that its instance runs in."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from harness.kube.client import Json
from harness.kube.objects import dig
from harness.kube.portforward import OPEN_SECONDS
from harness.kube.tunnels import Tunnels
from harness.machines.access import CONNECT_SECONDS, TUNNEL_START_SECONDS
from harness.model import Machine, PlannedMachine
from harness.operator.context import OperatorContext

DEFAULT_PORT = 22


@dataclass(frozen=True)
class InfraApi:
    """The API through which machines are reached, as a kubeconfig that can be opened at any time."""

    kubeconfig: Path
    context: str | None = None

    def tunnels(self, namespace: str, instances: dict[str, str], stretch: float) -> Tunnels:
        """Return how machines are reached, by address; losses are not written down, conditions tell of them."""
        log = Path(os.devnull)
        return Tunnels(self.kubeconfig, self.context, namespace, instances, log, OPEN_SECONDS * stretch)


@dataclass(frozen=True)
class LoginWay:
    """How to log in to a Machine.

    instance: its VirtualMachineInstance when it is reached by port forwarding through `api`, else "".
    key_source: where its key is from, in words.
    """

    namespace: str
    name: str
    address: str
    port: int
    user: str
    key_source: str
    instance: str = ""
    api: InfraApi | None = None

    @property
    def target(self) -> str:
        """Return the login in words."""
        return f"{self.user}@{self.address}:{self.port}"

    @property
    def how(self) -> str:
        """Return the way in words."""
        return f"through VirtualMachineInstance {self.instance}" if self.instance else "directly"

    @property
    def remedy(self) -> str:
        """Return what to look at when there is no way."""
        if self.instance:
            return f"see `kubectl get vmi -n {self.namespace} {self.instance}`, and whether its sshd runs"
        return "see that the machine runs, its sshd listens, and spec.address and spec.port are right"

    def seconds(self, stretch: float) -> float:
        """Return how long the connection may take."""
        opening = TUNNEL_START_SECONDS + OPEN_SECONDS if self.instance else CONNECT_SECONDS
        return opening * stretch

    def machine(self, folder: Path, stretch: float) -> Machine:
        """Return the machine as the rest of the harness knows it; what has to be a file for it goes into a folder."""
        planned = PlannedMachine(self.name, (), 0, 0, 0, "")
        if not self.instance or self.api is None:
            return Machine(planned, self.address, self.port, self.user, None, CONNECT_SECONDS * stretch)
        path = folder / "tunnels.json"
        self.api.tunnels(self.namespace, {self.address: self.instance}, stretch).save(path)
        return Machine(planned, self.address, self.port, self.user, path)


def infra_api(context: OperatorContext) -> InfraApi | None:
    """Return the API that Machines are reached through where they say so; None for a manager that goes directly."""
    return None if context.options.access == "Direct" else InfraApi(context.kubeconfig)


def way_to(machine: Json, api: InfraApi | None) -> LoginWay:
    """Return the way to a Machine as its object says; without an API to go through, at its own address."""
    spec, meta = machine["spec"], machine["metadata"]
    reference = spec.get("keyRef") or {}
    return LoginWay(
        namespace=meta["namespace"],
        name=spec.get("hostname") or meta["name"],
        address=spec["address"],
        port=spec.get("port") or DEFAULT_PORT,
        user=spec["user"],
        key_source=f"Secret {reference.get('name')}",
        instance=(dig(spec, "through", "virtualMachineInstance") or "") if api is not None else "",
        api=api,
    )
