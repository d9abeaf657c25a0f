"""What the controllers of the operator share: one cluster, one set of informers, the manager's options.

`start(context)` of a controller's module asks `context.informers.of(RESOURCE)` for the kinds that it reads, subscribes
its listeners and hands its controllers to `context.run`. They begin to work once all informers have their first list.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.kube.client import Cluster
from harness.kube.events import Events
from harness.kube.informer import Informers
from harness.kube.kubeconfig import Files
from harness.kube.reconcile import Controller
from harness.operator.metrics import Metrics

GIT_PORT = 8082  # beside the port for health: one that a manager as a host process may have, too


@dataclass(frozen=True)
class OperatorOptions:
    """What a manager was told.

    Attributes: executor_image (of Jobs whose object names none), access (Auto, Direct or PortForward, for objects that
    say Auto), stretch (factor for all waits, as of --timeout-scale), builds (of Deliveries, at a time), buildkit_image
    (of their Jobs; "" for the one beside the executor's), registries (that base images may come from; none: that of the
    executor's image), insecure_registries (those of them without TLS), seccomp_profile (of builders, a file of the
    nodes; "" for the runtime's own), git_port (on which git servers tell of commits; 0: any free one).
    """

    executor_image: str = ""
    access: str = "Auto"
    stretch: float = 1.0
    builds: int = 4
    buildkit_image: str = ""
    registries: tuple[str, ...] = ()
    insecure_registries: tuple[str, ...] = ()
    seccomp_profile: str = ""
    git_port: int = 0


@dataclass(frozen=True)
class OperatorContext:
    """The shared world of all controllers of one manager.

    Attributes: kubeconfig (file that `cluster` was opened from, for programs that reach machines through it), namespace
    (the only one that is looked at; None for all), stopping (set once, at the end).
    """

    cluster: Cluster
    informers: Informers
    events: Events
    kubeconfig: Files
    namespace: str | None = None
    options: OperatorOptions = field(default_factory=OperatorOptions)
    metrics: Metrics = field(default_factory=Metrics)
    stopping: threading.Event = field(default_factory=threading.Event)
    controllers: list[Controller] = field(default_factory=list)
    stoppers: list[Callable[[], None]] = field(default_factory=list)

    @staticmethod
    def of(
        cluster: Cluster, kubeconfig: Files, *, namespace: str | None = None, options: OperatorOptions | None = None
    ) -> OperatorContext:
        """Return a context for a cluster, with informers of its own."""
        informers, events = Informers(cluster, namespace), Events(cluster)
        return OperatorContext(cluster, informers, events, kubeconfig, namespace, options or OperatorOptions())

    def run(self, controller: Controller) -> None:
        """Have a controller started once all informers have their first list, and stopped at the end."""
        self.controllers.append(controller)

    def on_stop(self, stopper: Callable[[], None]) -> None:
        """Have something called once at the end."""
        self.stoppers.append(stopper)
