"""The infra cluster as a cell sees it: its API, where things come from, how long to wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.cell.product.kinds import kind_of
from harness.cell.product.protocol import OuterCluster, ProductKind
from harness.kube.client import Cluster, Infra
from harness.machines.kubevirt.manifests import BRIDGE, GOLDEN_NAMESPACE, GoldenImage
from harness.model import Access, Cell, Mirror
from harness.spec.models import Product, Spec, Timeouts
from harness.spec.project import TEMPLATES
from harness.spec.settings import Blow


@dataclass(frozen=True)
class Site:
    """What a cell needs of the world.

    image: gives a disk image's source for this infra cluster, by its name in matrix/images.yml.
    guest_vars: the variables that the infra's machines need of the playbooks.
    spare: tells ranges of a machine's network that no machine gets, by the machine's address.
    product_vars: tells a phase, by its variables, where the artifacts are that the product asks for.
    project: the checkout with vm-templates/ and the product.
    access: how machines are reached.  infra: where the infra cluster is, for ways through its API.
    namespace: the one that all cells share; without it each cell has one of its own.
    binding: of machines to the pod network.
    isolated: whether each cell gets a NetworkPolicy; it allows egress_networks and ingress_networks (CIDRs), too.
    controller_images: those that declared products have asked for, by name, as pods of the infra cluster pull them.
    deliveries: the registry that pods of the infra cluster push to; "" where there is none.
    pulls: where machines pull from that registry.
    held: what the run uses of this host's cache, which nobody removes meanwhile.
    blows: which programs of declared products are ended while they work, and when.
    options: those that name the infra cluster to another vmatrix command.
    timeout_scale: the factor that `timeouts` are stretched by already; the product gets it too.
    """

    cluster: Cluster
    spec: Spec
    timeouts: Timeouts
    mirror: Mirror
    guest_vars: Mapping[str, Any]
    image: Callable[[str], GoldenImage]
    storage_class: str | None
    project: Path
    expiry_hours: float
    namespace: str | None = None
    options: tuple[str, ...] = ()
    access: Access = "direct"
    infra: Infra | None = None
    binding: str = BRIDGE
    isolated: bool = True
    egress_networks: tuple[str, ...] = ()
    ingress_networks: tuple[str, ...] = ()
    timeout_scale: float = 1.0
    product_vars: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: {}
    spare: Callable[[str], tuple[str, ...]] = lambda _: ()
    controller_images: Mapping[str, str] = field(default_factory=dict)
    deliveries: str = ""
    pulls: str = ""
    held: ExitStack = field(default_factory=ExitStack)
    blows: Sequence[Blow] = ()

    @property
    def images_namespace(self) -> str:
        """Return the namespace of the golden images: the shared one, where only that may be touched."""
        return self.namespace if self.namespace is not None else GOLDEN_NAMESPACE

    @property
    def infra_id(self) -> str:
        """Return what folders on this host know the infra cluster by: its kubeconfig, links followed; else ""."""
        return str(self.infra.kubeconfig.resolve()) if self.infra is not None else ""

    def product_of(self, cell: Cell) -> Product:
        """Return what is tested in a cell."""
        return self.spec.product_of(cell.values)

    def kind_of(self, cell: Cell) -> ProductKind:
        """Return how the phases of a cell's product are run."""
        return kind_of(self.product_of(cell), self.project)

    @property
    def outer(self) -> OuterCluster:
        """Return the infra cluster as products see it whose phases are edits of objects in it."""
        return OuterCluster(
            self.cluster, self.mirror, self.timeouts, self.controller_images, self.blows, self.deliveries
        )

    @property
    def templates(self) -> Path:
        """Return the folder of manifest templates."""
        return self.project / TEMPLATES
