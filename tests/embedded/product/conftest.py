"""A product of a kind that nobody else knows, on a real API server: its objects, and a controller in a thread."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness.cell.existing import CellSelector
from harness.cell.product.declared import DeclaredProduct
from harness.cell.product.protocol import OuterCluster, PhaseOutcome, PhaseRun
from harness.cell.teardown import reap
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.resources import NAMESPACE, Resource
from harness.model import (
    LABEL_CELL,
    LABEL_MANAGED,
    LABEL_RUN,
    MANAGED_BY,
    Cell,
    Environment,
    Machine,
    Mirror,
    Phase,
    PlannedMachine,
)
from harness.spec.models import Product
from tests.unit.shipped_timeouts import TIMEOUTS

SECONDS = 60.0  # of a phase that is to succeed, against hanging
GUEST = Resource("made-up.example", "v1", "guests", "Guest")
Answer = Callable[[Json], Json | None]
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: guests.made-up.example}
spec:
  group: made-up.example
  scope: Namespaced
  names: {plural: guests, singular: guest, kind: Guest, listKind: GuestList}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
TEMPLATE = """\
apiVersion: v1
kind: Secret
metadata: {name: it-keys}
stringData: {key: {{ keys.private | tojson }}}
---
apiVersion: made-up.example/v1
kind: Guest
metadata: {name: it}
spec:
  version: {{ variables.cluster_kubernetes_version | tojson }}
  phase: {{ phase }}
  machines: [{% for machine in machines %}{name: {{ machine.name }}, at: {{ machine.address }}},{% endfor %}]
  registry: {{ mirror.registry }}
"""
PRODUCT: dict[str, Any] = {
    "name": "made up",
    "kind": "declared",
    "directory": "templates",
    "declared": {
        "install": {"cluster": ["guests.yml"]},
        "object": {"apiVersion": "made-up.example/v1", "kind": "Guest", "name": "it"},
        "done": {"condition": "Ready", "gone": ["Changing"]},
        "failed": {"condition": "Broken", "record": {"path": "{.status.failures[-1]}"}},
        "progress": {"path": "{.status.doing}"},
        "kubeconfig": {"secret": "it-admin"},
        "expected": {"cluster_kubernetes_version": {"path": "{.status.version}"}},
    },
    "phases": {"deploy": {"apply": "guest.yml.j2"}, "reset": {"delete": True}},
}


@dataclass
class Controller(threading.Thread):
    """Looks at every Guest of a namespace until it is stopped, and writes the status that a function answers."""

    cluster: Cluster
    namespace: str
    answer: Answer
    stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        while not self.stopping.wait(0.05):  # between looks; nothing depends on it
            with suppress(ApiFailure):  # changed or gone meanwhile: the next look sees how it is then
                self._look()

    def _look(self) -> None:
        for guest in self.cluster.list(GUEST, self.namespace).items:
            status = self.answer(guest)
            if status is not None and status != guest.get("status"):
                self.cluster.replace(GUEST, {**guest, "status": status}, subresource="status")


@dataclass
class Declarations:
    """A cell of the made-up product in a namespace of its own, and what its phases said."""

    folder: Path
    cluster: Cluster
    namespace: str
    product: dict[str, Any] = field(default_factory=lambda: {**PRODUCT})
    told: list[str] = field(default_factory=list)
    version: str = "1.36.3"
    controllers: list[Controller] = field(default_factory=list)
    impatient: bool = False
    variables: dict[str, Any] = field(default_factory=dict)

    def write(self, name: str, text: str) -> None:
        """Write a file of the product's."""
        (self.folder / "templates").mkdir(exist_ok=True)
        (self.folder / "templates" / name).write_text(text, encoding="utf-8")

    def say(self, **keys: Any) -> None:
        """Change what product.yml says of the objects."""
        self.product = {**self.product, "declared": {**self.product["declared"], **keys}}

    def control(self, answer: Answer) -> None:
        """Start a controller."""
        controller = Controller(self.cluster, self.namespace, answer)
        self.controllers.append(controller)
        controller.start()

    def stop(self) -> None:
        """End all controllers."""
        for controller in self.controllers:
            controller.stopping.set()
            controller.join()
        self.controllers.clear()

    @property
    def environment(self) -> Environment:
        """Return the cell's machines."""
        planned = PlannedMachine("cp-0", ("control_plane", "etcd", "node"), 2, 2048, 10, "debian-13")
        cell = Cell("made-up", {}, "fresh", (), (planned,), {})
        machine = Machine(planned, "10.1.2.3", 22, "debian")
        key = self.folder / "key"
        key.write_text("PRIVATE\nKEY\n", encoding="utf-8")
        return Environment("run123", cell, 1, self.namespace, (machine,), self.folder / "attempt", key)

    def run(self, phase: str = "deploy", *, seconds: float = SECONDS) -> PhaseOutcome:
        """Run a phase."""
        timeouts = TIMEOUTS.model_copy(update={"unschedulable": 0.01, "controllers": SECONDS})
        wanted = PhaseRun(
            phase=Phase(phase, machines=("cp-0",), cluster=phase != "reset"),
            stage=phase,
            environment=self.environment,
            variables={"cluster_kubernetes_version": self.version, **self.variables},
            timeout=seconds,
            log=self.log,
            on_task=self.told.append,
            outer=OuterCluster(
                self.cluster, Mirror("http://mirror:1", "mirror:2"), timeouts if self.impatient else TIMEOUTS, {}
            ),
        )
        product = Product.model_validate(self.product)
        return DeclaredProduct(product, self.folder).run(replace(wanted))

    @property
    def log(self) -> Path:
        """Return the phase's log."""
        return self.folder / "attempt" / "logs" / "deploy.log"

    def reap(self, seconds: float) -> None:
        """Take the cell away as any process would."""
        reap(self.cluster, CellSelector(run=self.namespace), seconds=seconds)


@pytest.fixture
def made_up(cluster: Cluster, tmp_path: Path) -> Iterator[Declarations]:
    """Return a cell of the made-up product; it is taken away after the test."""
    name = f"made-up-{secrets.token_hex(3)}"
    labels = {LABEL_MANAGED: MANAGED_BY, LABEL_RUN: name, LABEL_CELL: "made-up"}
    cluster.create(NAMESPACE, NAMESPACE.manifest(name, "", labels=labels))
    cell = Declarations(tmp_path, cluster, name)
    cell.write("guests.yml", DEFINITION)
    cell.write("guest.yml.j2", TEMPLATE)
    try:
        yield cell
    finally:
        cell.stop()
        cell.reap(SECONDS)
