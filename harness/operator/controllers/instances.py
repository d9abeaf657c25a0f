"""Virtual machines and their instances, watched only once a Machine asks for them: many clusters have no KubeVirt."""

from __future__ import annotations

import threading
from collections.abc import Callable

from harness.kube.client import Json
from harness.kube.informer import Informer, Key, key_of
from harness.kube.resources import VM, VMI
from harness.operator.context import OperatorContext

SILENT_SECONDS = 10.0  # an API server that is replaced is back by then; longer silence is news


class Instances:
    """Local copies of VirtualMachines and VirtualMachineInstances, which are empty until somebody asks."""

    def __init__(self, context: OperatorContext, changed: Callable[[Key], None]) -> None:
        """Have `changed` called with the namespace and name of each that changes."""
        self._informers = {kind: Informer(context.cluster, kind, namespace=context.namespace) for kind in (VM, VMI)}
        self._begun = False
        self._beginning = threading.Lock()
        for informer in self._informers.values():
            informer.subscribe(lambda _, found: changed(key_of(found)))
            context.on_stop(informer.stop)

    def ready(self) -> bool:
        """Tell whether both kinds are known; the first call begins to watch them."""
        with self._beginning:
            if not self._begun:
                self._begun = True
                for informer in self._informers.values():
                    informer.start()
        return all(informer.synced.is_set() for informer in self._informers.values())

    def trouble(self) -> str:
        """Return why nothing is known of them, "" where something is or soon will be."""
        said = (informer.trouble(SILENT_SECONDS) for informer in self._informers.values())
        return next(filter(None, said), "")

    def vm(self, key: Key) -> Json | None:
        """Return a VirtualMachine."""
        return self._informers[VM].get(*key)

    def vmi(self, key: Key) -> Json | None:
        """Return a VirtualMachineInstance."""
        return self._informers[VMI].get(*key)
