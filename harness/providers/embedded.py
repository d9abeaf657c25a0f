"""Provider `embedded`: a real control plane and the embedded KubeVirt on this host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address
from typing import Any

from harness.artifacts import refs
from harness.artifacts.catalogue import IMAGE_PREFIX
from harness.artifacts.disk import catalogue
from harness.artifacts.disk.build import Say
from harness.artifacts.disk.cache import ImageCache
from harness.artifacts.product.images import Upload
from harness.artifacts.recipe import Progress, Ref
from harness.artifacts.serving import Supply
from harness.artifacts.store import Store
from harness.embedded.machines.names import Names
from harness.errors import BadInput, VmatrixError
from harness.infra import guest_facts, pods
from harness.infra.cluster.checks import Use
from harness.infra.findings import Finding
from harness.infra.host import control_plane, firewall, preflight, processes, program
from harness.infra.host.instance import Occupant, infra_command
from harness.infra.host.layout import InstanceRecord, Layout, layout_of, load_record
from harness.infra.host.network import PORTS, address_of, deliveries_of, mirror_of, pulls_of
from harness.infra.host.program import HostConfig, HostProgram
from harness.infra.host.status import InstanceStatus, with_problems
from harness.infra.pods import MEMORY_MIB, BootDisk, PodsMachine
from harness.kube.client import Cluster
from harness.model import Access
from harness.paths import MATRIX, packaged_dir
from harness.providers.definition import Opening
from harness.providers.on_host import KUBERNETES, OnHost, supplied
from harness.spec.base import Feature
from harness.spec.models import Timeouts
from harness.spec.project import TEMPLATES
from harness.spec.settings import Settings

NAME = "embedded"


class EmbeddedProvider(Occupant):
    """One embedded instance, by name.

    pods_disk: obtains the boot disk of the machine that runs pods; None where no such machine is asked for.
    pods_versions: of what that machine runs.  pods_mib: its memory.
    workers: Nodes that stand for this host beside the first.
    """

    name = NAME

    def __init__(
        self,
        config: HostConfig,
        *,
        pods_disk: Callable[[], BootDisk] | None = None,
        pods_versions: Mapping[str, str] | None = None,
        pods_mib: int = MEMORY_MIB,
        workers: int = 0,
    ) -> None:
        super().__init__(config)
        self._workers = workers
        self._pods_mib = pods_mib
        self._pods_disk = pods_disk
        self._pods_versions = pods_versions or {}

    @property
    def runs_pods(self) -> bool:
        """Tell whether the instance has, or is to have, a machine that runs pods."""
        return self._pods_disk is not None

    def altered(
        self, *, api_flags: Mapping[str, object] | None = None, pods_mib: int | None = None, workers: int | None = None
    ) -> EmbeddedProvider:
        """Return the instance with other flags of its API server, memory for the machine of its pods, or Nodes."""
        config = self.host.config
        return EmbeddedProvider(
            config if api_flags is None else replace(config, api_flags=api_flags),
            pods_disk=self._pods_disk,
            pods_versions=self._pods_versions,
            pods_mib=self._pods_mib if pods_mib is None else pods_mib,
            workers=self._workers if workers is None else workers,
        )

    def up(self) -> None:
        """Bring the instance up; start what is missing of one that is partly up.

        Raises:
            BadInput: this host lacks something (all of it at once); nothing was touched.
            InfraError: a program did not come up, or a firewall of this host keeps machines from the mirror.
        """
        with self.host.coming_up(self, workers=self._workers) as index:
            control_plane.ensure_credentials(self.layout, index)
            self.host.start(self.programs(index))
            firewall.require_mirror_reachable(index, ipv6=True)
            self.host.config.publish(mirror_of(index).registry)
            if self._pods_disk is not None:
                self._run_pods(index, self._pods_disk())

    def _run_pods(self, index: int, disk: BootDisk) -> None:
        """Have the infra cluster run pods of its own."""
        self.host.has_pods()
        layout, server, seconds = self.layout, control_plane.server_of(index), self.host.config.up_seconds
        machine = PodsMachine(
            layout.pods_node,
            server,
            mirror_of(index),
            disk,
            self._pods_versions,
            layout.pki,
            deliveries_of(index),
            hosts=layout.nodes(self._workers),
            memory_mib=self._pods_mib,
        )
        pods.ensure(Cluster.from_kubeconfig(layout.kubeconfig), machine, seconds=seconds)

    def findings(self) -> list[Finding]:
        """Return what this host lacks to start those programs of the instance that do not run."""
        found = self.host.record
        if found is None:
            pods_mib = self._pods_mib if self.runs_pods else 0
            return preflight.check_host(needs_build=not self.host.config.prepared(), pods_mib=pods_mib)
        dead = [name for name in self.host.dead(self.programs(found.index)) if name in PORTS]
        return preflight.check_host(address=address_of(found.index), programs=dead, needs_build=False)

    def remove(self) -> None:
        """Remove the instance from this host."""
        self.host.remove()

    def status(self) -> InstanceStatus:
        """Look at the instance, the Node that runs pods included where it has one."""
        seen, found = self.host.status(self), self.host.record
        if found is None or not found.pods:
            return seen
        return _with_pods(seen, self.layout)

    def access(self) -> Access:
        """Return that machines are reached at their addresses: they live on this host."""
        return "direct"

    def guest_vars(self) -> Mapping[str, Any]:
        """Return what the playbooks need to know about machines that share this host's kernel."""
        return guest_facts.guest_vars()

    def spare_addresses(self, address: str) -> tuple[str, ...]:
        """Return what embedded KubeVirt gives no machine of a VM namespace."""
        first, last = Names(self.host.index()).spare_addresses(IPv4Address(address).packed[2])
        return (f"{first}-{last}",)

    def deliveries(self) -> str:
        """Return the registry beside the machine that runs pods; "" without that machine."""
        return deliveries_of(self.host.index()) if self.runs_pods else ""

    def pulls(self) -> str:
        """Return where machines pull from that registry; "" without it."""
        return pulls_of(self.host.index()) if self.runs_pods else ""

    def describe(self) -> Mapping[str, Any]:
        """Return addresses, directories and programs."""
        return self.host.describe(control_plane.server_of(self.host.index()))

    def programs(self, index: int) -> Sequence[HostProgram]:
        """Return all programs of the instance, in the order in which they can start."""
        config = self.host.config
        return (
            *program.mirror(config, index),
            *program.mirror_over_ipv6(config, index),
            *(program.deliveries(config, index) if self.runs_pods else ()),
            *control_plane.programs(self.layout, index, config.binaries, config.api_flags),
            program.kubevirt(
                config,
                index,
                after=("etcd",),
                namespaces=self.layout.kubeconfig_of(control_plane.NAMESPACES),
                workers=self._workers,
            ),
        )


def _with_pods(seen: InstanceStatus, layout: Layout) -> InstanceStatus:
    try:
        problem = pods.placement_problem(Cluster.from_kubeconfig(layout.kubeconfig), layout.pods_node)
    except VmatrixError:
        return seen  # that the API cannot be asked is said already
    return with_problems(replace(seen, pods=layout.pods_node), [problem] if problem else [])


PODS_IMAGE = "debian-13"
PODS: Feature = "pods"


class EmbeddedDefinition(OnHost):
    """Provider `embedded`."""

    name = NAME
    control_plane = KUBERNETES
    per_job = True
    choices = frozenset({PODS, "workers"})

    def instance(self, opening: Opening) -> EmbeddedProvider:
        """Return the embedded infrastructure that the settings name.

        Raises:
            BadInput: it exists with another number of Nodes than is asked for.
        """
        made = load_record(layout_of(opening.settings.infra_name, NAME))
        wanted = PODS in opening.needs or bool(opening.choices.get(PODS))
        return embedded_provider(
            opening.settings.infra_name,
            opening.store,
            progress=opening.progress,
            images=opening.images,
            uploads=opening.uploads,
            timeouts=opening.timeouts,
            pods=wanted or (made is not None and made.pods),
            say=opening.say,
        ).altered(workers=_workers(opening.settings.infra_name, opening.choices.get("workers"), made))

    def check(self, settings: Settings, memory_mib: int | None, use: Callable[[], Use]) -> tuple[str, list[Finding]]:
        """Look at this host."""
        memory, pods_mib = preflight.CONTROL_PLANE_MIB + (memory_mib or 0), self.pods_mib(settings, frozenset())
        found = preflight.check_host(memory_mib=memory, pods_mib=pods_mib)
        more = 0 if pods_mib else self.pods_mib(settings, frozenset({PODS}))
        return "this host", [*found, *preflight.advise_pods(memory, more)]

    def pods_mib(self, settings: Settings, needs: frozenset[Feature]) -> int:
        """Return the memory of the machine that runs pods: all that its pods may come to use, unless it runs already.

        What it uses then is not available any more, and the infra cluster counts what it may use.
        """
        layout = layout_of(settings.infra_name, NAME)
        made = load_record(layout)
        has = made is not None and made.pods
        if has and made is not None and made.usable and processes.runs(layout, program.KUBEVIRT):
            return 0
        return MEMORY_MIB if has or PODS in needs else 0


def _workers(name: str, asked: int | None, made: InstanceRecord | None) -> int:
    """Return how many Nodes stand for this host beside the first: as it was made, or is to be.

    Raises:
        BadInput: it was made with another number than is asked for.
    """
    if asked is None:
        return made.workers if made is not None else 0
    if made is not None and made.usable and made.workers != asked:
        raise BadInput(
            f"instance {name} was made with --workers {made.workers}, not {asked}",
            hint=f"{infra_command('down', name, NAME)}, then up again",
        )
    return asked


def embedded_provider(
    name: str,
    store: Store,
    *,
    progress: Progress,
    images: Sequence[Ref] = (),
    uploads: Sequence[Upload] = (),
    timeouts: Timeouts | None = None,
    pods: bool = False,
    say: Say = lambda _: None,
) -> EmbeddedProvider:
    """Return the embedded infrastructure of that name.

    Args:
        images, uploads: what guests may pull from its mirror.
        pods: whether it runs pods of its own.
        say: told how the boot disk of the machine for these is made.
    """
    needed = (*refs.host(store.catalogue, KUBERNETES), *images)
    if not pods:
        supply = Supply(KUBERNETES, images, store, progress, uploads)
        return EmbeddedProvider(supplied(layout_of(name, NAME), supply, needed, timeouts))
    of_pods = refs.pods(store.catalogue, KUBERNETES)
    own = tuple(ref for ref in of_pods if ref.name.startswith(IMAGE_PREFIX))
    supply = Supply(KUBERNETES, tuple(dict.fromkeys((*images, *own))), store, progress, uploads)
    config = supplied(layout_of(name, NAME), supply, (*needed, *of_pods), timeouts)
    versions = {ref.name.removeprefix(IMAGE_PREFIX): ref.version for ref in of_pods}
    disk = partial(_boot_disk, say)

    def prepare() -> None:
        config.prepare()
        disk()  # a build takes minutes

    return EmbeddedProvider(replace(config, prepare=prepare), pods_disk=disk, pods_versions=versions)


def _boot_disk(say: Say) -> BootDisk:
    """Return the disk image of the machine that runs pods, made first when it is not cached."""
    image = catalogue.load(packaged_dir() / MATRIX / "images.yml").find(PODS_IMAGE)
    built = ImageCache(recipes=packaged_dir() / TEMPLATES / "images").ensure(image, say)
    return BootDisk(built.file, built.sha256)


PROVIDER = EmbeddedDefinition()
