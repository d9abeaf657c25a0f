"""Context of all controllers: the cluster's client, informers and events, this host, and when to stop.

`start(context)` of a part asks `context.informers.of(RESOURCE)` for the kinds it reads, subscribes its listeners and
hands its controllers to `context.run`; they begin to work once all informers have their first list, so that no
reconcile ever sees half a world.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.embedded.faults import Faults
from harness.embedded.machines.names import Names
from harness.kube.client import Cluster, Json
from harness.kube.events import Events
from harness.kube.informer import Informers
from harness.kube.reconcile import Controller


@dataclass(frozen=True)
class Context:
    """The shared world of all controllers of one process.

    Attributes: state (the instance's state directory; disks are `state/disks/<pv>.raw`), index (of the instance: it
    owns 10.(213+index).0.0/16), nodes (names of the Nodes that stand for this host, each for an equal share of it),
    stopping (set once on SIGTERM), faults (those that objects ask for).
    """

    cluster: Cluster
    informers: Informers
    events: Events
    state: Path
    index: int
    nodes: tuple[str, ...]
    stopping: threading.Event = field(default_factory=threading.Event)
    faults: Faults = field(default_factory=Faults)
    controllers: list[Controller] = field(default_factory=list)
    stoppers: list[Callable[[], None]] = field(default_factory=list)

    @property
    def host_address(self) -> str:
        """Return the instance's address, on which all host services listen."""
        return str(Names(self.index).instance_address)

    def here(self, pod: Json) -> bool:
        """Tell whether a pod is bound to a Node that stands for this host."""
        return pod["spec"].get("nodeName") in self.nodes

    @property
    def disks(self) -> Path:
        """Return the folder of the claims' disk files."""
        return self.state / "disks"

    def run(self, controller: Controller) -> None:
        """Have a controller started once all informers to sync, and stopped at the end."""
        self.controllers.append(controller)

    def on_stop(self, stopper: Callable[[], None]) -> None:
        """Have something called once at the end of the process."""
        self.stoppers.append(stopper)
