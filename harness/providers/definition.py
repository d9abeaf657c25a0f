"""What a provider is: how its infra cluster is opened, and what it gives to cells.

Each provider's module has one Definition, as PROVIDER.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from harness.artifacts.product.images import Upload
from harness.artifacts.recipe import Progress, Ref, silent
from harness.artifacts.store import Store
from harness.errors import BadInput
from harness.infra.cluster.checks import Use
from harness.infra.findings import Finding
from harness.infra.host.status import InstanceStatus
from harness.kube.client import Infra
from harness.model import Access, Cell, Mirror
from harness.spec.base import Feature
from harness.spec.models import Timeouts
from harness.spec.settings import Settings
from harness.until import Ground


class Provider(Protocol):
    """One way to get an infra cluster with KubeVirt and CDI."""

    name: str

    def up(self) -> None:
        """Bring the infra cluster up; nothing to do when it already is.

        Raises:
            BadInput: the host lacks something (all of it at once).  InfraError: it did not come up.
        """

    def down(self) -> None:
        """Remove everything that `up` and its guests left, whatever state it is in. Idempotent."""

    def kubeconfig(self) -> Path:
        """Return the admin kubeconfig of the infra cluster."""

    def access(self) -> Access:
        """Return how this host reaches the infra's machines."""

    def guest_vars(self) -> Mapping[str, Any]:
        """Return the variables that the playbooks need because of how this infra's machines are made."""

    def spare_addresses(self, address: str) -> tuple[str, ...]:
        """Return ranges (FIRST-LAST) of the network of a machine with this address that no machine gets."""

    def mirror(self) -> Mirror:
        """Return where guests find binaries and images."""

    def deliveries(self) -> str:
        """Return the registry that pods push to and pull from, HOST:PORT without TLS; "" where there is none."""

    def pulls(self) -> str:
        """Return where machines pull from that registry, HOST:PORT without TLS, for who logs in; "" without it."""

    def describe(self) -> Mapping[str, Any]:
        """Return facts for a person: addresses, versions, processes, directories."""


MOST_WORKERS = 16  # a worker is a Python process of about 100 MiB


@dataclass(frozen=True)
class Opening:
    """What a provider is opened with.

    Attributes:
        product: the product's directory; without it the guests' networks are not looked at.
        images: what guests may pull from a mirror that the provider runs.
        uploads: what the product has pushed there.
        progress, say: told what is made of artifacts, and each other step in one line.
        choices: options of `vmatrix infra up`, by name, None for those not given.
        needs: what the values of the cells need of the infra cluster.
        timeouts: of what is brought up; None where nothing is.
    """

    settings: Settings
    product: Path = Path()
    store: Store = field(default_factory=Store)
    images: Sequence[Ref] = ()
    uploads: Sequence[Upload] = ()
    progress: Progress = silent
    say: Callable[[str], None] = lambda _: None
    choices: Mapping[str, Any] = field(default_factory=dict)
    needs: frozenset[Feature] = frozenset()
    timeouts: Timeouts | None = None


class InstanceProvider(Provider, Protocol):
    """A provider of infra clusters that vmatrix makes on this host."""

    def status(self) -> InstanceStatus:
        """Look at the instance."""

    def lacking(self) -> list[Finding]:
        """Return what this host lacks to bring it up, or to repair it; none where there is nothing to start."""


class Definition(ABC):
    """One provider: how its infra cluster is opened and found, and how it differs from the others.

    Attributes:
        name: as in the setting `provider`.
        control_plane: the Kubernetes version of the programs that it runs on this host below the guests; "" for none.
        has_mirror: whether it runs the mirror and the registry of its guests, on this host.
        on_host: whether pods of its infra clusters are processes of this host.
        per_job: whether each job of a pipeline can bring up its own.
        choices: the options of `vmatrix infra up` that it takes.
    """

    name: str
    control_plane = ""
    has_mirror = False
    on_host = False
    per_job = False
    choices: frozenset[str] = frozenset()

    @abstractmethod
    def open(self, opening: Opening) -> Provider:
        """Return the provider of the infra cluster that the settings name; nothing is brought up yet.

        Raises:
            BadInput: a setting is missing or wrong.
        """

    @abstractmethod
    def infra(self, settings: Settings) -> Infra:
        """Return where the infra cluster is.

        Raises:
            BadInput: the infra cluster is not up.
        """

    @abstractmethod
    def check(self, settings: Settings, memory_mib: int | None, use: Callable[[], Use]) -> tuple[str, list[Finding]]:
        """Return what was looked at, and what it lacks.

        Args:
            memory_mib: what machines need, if that is given.
            use: returns what a cluster is to be used for.
        """

    def options(self, settings: Settings) -> list[str]:
        """Return the options that name the same infra cluster to another vmatrix command."""
        given = ("infra_name", "namespace")
        changed = {name: getattr(settings, name) for name in given if getattr(settings, name) != _default(name)}
        which = ["--provider", self.name] if self.name != _default("provider") else []
        return [*which, *(word for name, v in changed.items() for word in ("--" + name.replace("_", "-"), str(v)))]

    def pods_mib(self, settings: Settings, needs: frozenset[Feature]) -> int:
        """Return the memory in MiB of a machine that runs pods, if this host has to start one for these needs."""
        return 0

    def most_cells(self, sizes: Sequence[int], pods_mib: int) -> int:
        """Return how many of the cells could run at once at most, before anything is known of the infra cluster.

        Args:
            sizes: the memory (MiB) of each cell's machines.
            pods_mib: what a machine that runs pods takes of this host besides.
        """
        return MOST_WORKERS

    @abstractmethod
    def refuse_unusable(self, settings: Settings) -> None:
        """Refuse settings that cannot lead to an infra cluster; nothing is asked of it yet.

        Raises:
            BadInput: a setting that the provider needs is missing, or a kubeconfig cannot be used.
        """

    def lacking(self, cells: Sequence[Cell], pods_mib: int) -> list[Finding]:
        """Return why the largest of the cells cannot run, where that is known before anything starts.

        Args:
            pods_mib: what a machine that runs pods takes of this host besides.
        """
        return []

    def coming(self, settings: Settings) -> list[str]:
        """Return what a run is about to bring up, in lines; nothing where its infra cluster is there."""
        return []

    def ground(self, settings: Settings) -> Ground | None:
        """Return what all waits for the infra cluster stand on, where that is on this host."""
        return None

    def keeper(self, opening: Opening, tell: Callable[[str], None]) -> AbstractContextManager[object]:
        """Return what keeps the infra cluster whole while its body runs, where that is possible; `tell`: told how."""
        return nullcontext()

    def missing_rights(self, settings: Settings) -> list[Finding]:
        """Return what the user of this process may not do and has to, on this host."""
        return []

    def first_look(self, opening: Opening) -> list[Finding]:
        """Return what keeps its infra cluster from being used, or brought up; make nothing."""
        return []

    def machines_like(self, settings: Settings) -> str:
        """Return the provider that rows of matrix/infras.yml with such machines name."""
        return self.name

    def has_instance(self, name: str) -> bool:
        """Tell whether this host has an instance of that name."""
        return False

    def stale_instances(self, prefix: str, seconds: float) -> list[str]:
        """Return the names with a prefix of the instances that were not changed for so long."""
        return []

    def instance(self, opening: Opening) -> InstanceProvider:
        """Return an instance on this host. Raises BadInput when the provider has none, or an option is not its own."""
        raise BadInput(
            f"an infra cluster of provider {self.name} is not brought up or taken down by vmatrix",
            hint="check an existing cluster: vmatrix doctor --kubeconfig PATH",
        )


def _default(name: str) -> Any:
    return Settings.model_fields[name].default
