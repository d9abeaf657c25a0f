"""The controllers of the operator as data: where each lies, what it watches, what it writes.

`--controllers` chooses from these names. A name whose module is not there is a mistake in this list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from harness.errors import BadInput
from harness.kube.resources import CONFIG_MAP, EVENT, JOB, POD, ROLE, ROLE_BINDING, SECRET, SERVICE_ACCOUNT, Resource
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE, MACHINE_SET
from harness.operator.context import OperatorContext


class ControllerModule(Protocol):
    """What a controller's module has."""

    def start(self, context: OperatorContext) -> None:
        """Ask for informers, subscribe to them, and hand controllers to `context.run`."""


@dataclass(frozen=True)
class Part:
    """One controller: kinds that it watches through informers, kinds that it writes (their status included)."""

    name: str
    module: str
    watches: tuple[Resource, ...]
    writes: tuple[Resource, ...]

    def load(self) -> ControllerModule:
        """Return the controller's module."""
        return cast(ControllerModule, import_module(self.module))


ROOM = "harness.operator.controllers"
EXECUTION = (SERVICE_ACCOUNT, ROLE, ROLE_BINDING, SECRET, CONFIG_MAP, JOB)
PARTS = (
    Part(
        "clusterdeployment",
        f"{ROOM}.clusterdeployment",
        (CLUSTER_DEPLOYMENT, CLUSTER, MACHINE_SET, MACHINE, JOB, POD),
        (CLUSTER_DEPLOYMENT, CLUSTER, MACHINE_SET),
    ),
    Part(
        "machineset",
        f"{ROOM}.machineset",
        (CLUSTER_DEPLOYMENT, CLUSTER, MACHINE_SET, MACHINE),
        (MACHINE_SET, MACHINE, EVENT),
    ),
    Part("claims", f"{ROOM}.claims", (CLUSTER_DEPLOYMENT, CLUSTER, MACHINE), (MACHINE, EVENT)),
    Part("machine", f"{ROOM}.machine", (CLUSTER_DEPLOYMENT, CLUSTER, MACHINE_SET, MACHINE), (MACHINE, EVENT)),
    Part("nodehealth", f"{ROOM}.nodehealth", (CLUSTER, MACHINE), (MACHINE,)),
    Part(
        "clusterinstall",
        f"{ROOM}.clusterinstall",
        (CLUSTER_DEPLOYMENT, CLUSTER, MACHINE_SET, MACHINE, JOB, POD),
        (CLUSTER, *EXECUTION, EVENT),
    ),
    Part(
        "executions",
        f"{ROOM}.executions",
        (CLUSTER_DEPLOYMENT, CLUSTER, MACHINE_SET, MACHINE, JOB, POD),
        (CLUSTER, JOB, CONFIG_MAP, SECRET, EVENT),
    ),
)
NAMES = tuple(part.name for part in PARTS)


def chosen(names: Iterable[str] = ()) -> tuple[Part, ...]:
    """Return the controllers of these names in the list's own order; all of them for no names.

    Raises:
        BadInput: there is no controller of a name.
    """
    wanted = tuple(names) or NAMES
    unknown = [name for name in wanted if name not in NAMES]
    if unknown:
        raise BadInput(f"no controller is named {', '.join(unknown)}", hint=f"there are: {', '.join(NAMES)}")
    return tuple(part for part in PARTS if part.name in wanted)
