"""Provider `kind`: a kind cluster on this host, with the embedded KubeVirt and CDI attached, or with releases of them.

What it has on the host besides the engine's containers (address, mirror, and with the embedded KubeVirt its process and
machines) is an instance as the embedded infrastructure's, and goes the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import which
from typing import Any

from harness.artifacts import node_images, refs
from harness.artifacts.node_images import NodeImages
from harness.artifacts.recipe import Progress
from harness.artifacts.serving import Supply
from harness.artifacts.store import Store
from harness.errors import BadInput, InfraError, Leaked, VmatrixError
from harness.infra import guest_facts, pods
from harness.infra.cluster import guest_vars
from harness.infra.cluster.checks import Use, check_pod_network
from harness.infra.findings import Finding, raise_if_any
from harness.infra.host import firewall, program
from harness.infra.host.instance import Occupant, infra_command
from harness.infra.host.layout import layout_of
from harness.infra.host.network import PORTS, address_of, deliveries_of, mirror_of, pulls_of
from harness.infra.host.program import HostConfig, HostProgram
from harness.infra.host.status import InstanceStatus, ProgramStatus, State, seen_process, with_problems
from harness.infra.kind import cluster as kind_cluster
from harness.infra.kind import engine, kubevirt, kvm
from harness.infra.kind.cluster import (
    KindCluster,
    KindConfig,
    KindLimits,
    Made,
    OwnNode,
    answer_for_pods,
    configuration,
    node_image,
    node_places,
    replace_pods,
    route_pods,
    trust_registry,
)
from harness.infra.kind.engine import Engine
from harness.infra.kind.kubevirt import fetch, install, planned, problems
from harness.infra.kind.releases import Releases, default_file, pinned
from harness.infra.kind.releases import load as load_releases
from harness.kube import Cluster
from harness.kube.client import Infra
from harness.model import Access
from harness.providers.definition import Opening
from harness.providers.on_host import KUBERNETES, OnHost, supplied
from harness.spec.settings import Settings

NAME = "kind"
NODE = "kind node"


class KindProvider(Occupant):
    """One kind instance, by name."""

    name = NAME

    def __init__(self, config: HostConfig, kind: KindConfig) -> None:
        super().__init__(config)
        self.kind = kind

    @property
    def cluster_name(self) -> str:
        """Return what kind calls the cluster."""
        return f"vmatrix-{self.layout.name}"

    def embedded(self) -> bool:
        """Tell whether the embedded KubeVirt is, or is to be, attached.

        Raises:
            BadInput: the instance was made with the other one.
        """
        return kind_cluster.wanted(self.layout, self.kind).kubevirt == "embedded"

    def findings(self) -> list[Finding]:
        """Return what this host lacks to start what of the instance does not run."""
        record, embedded = self.host.record, self.embedded()
        dead, address = list(engine.PROGRAMS), None
        if record is not None:
            dead = [name for name in self.host.dead(self.programs(record.index)) if name in PORTS]
            address = address_of(record.index)
            if not dead:
                return []
        builds = record is None and self.kind.node_image is None and not self.kind.own_node_made()
        return engine.check(embedded=embedded, builds_node=builds, address=address, programs=dead)

    def up(self) -> None:
        """Bring the instance up; start what is missing of one that is partly up.

        Raises:
            BadInput: this host lacks something; nothing was touched.
            InfraError: a release cannot be downloaded, or is another than was pinned (nothing was touched); or the
                cluster, a program, KubeVirt or CDI did not come up.
        """
        if not self.embedded():
            made = kind_cluster.wanted(self.layout, self.kind)
            fetch(pinned(made.releases, self.kind.say))
            raise_if_any(kvm.kvm_findings(made.kvm))
        with self.host.coming_up(self) as index:
            made = kind_cluster.wanted(self.layout, self.kind)
            cluster = KindCluster(self.cluster_name, self._engine(), made.workers)
            kind_cluster.save_record(self.layout, made)
            self._create(cluster)
            for node in cluster.nodes:
                answer_for_pods(cluster.engine, node)
                for registry in (mirror_of(index).registry, deliveries_of(index)):
                    trust_registry(cluster.engine, node, registry)
            if made.kubevirt == "embedded":
                kubevirt.attach(Cluster.from_kubeconfig(self.layout.kubeconfig), cluster.nodes, self.layout, index)
            self._start(cluster, index)
            if made.kubevirt == "release":
                self._install(cluster, made)

    def _install(self, cluster: KindCluster, made: Made) -> None:
        """Install the releases, or what is missing of them; until that has come to its end, the record says so."""
        chosen = kvm.choose_kvm(made.kvm)
        self.kind.say(chosen.why)
        cluster_api = Cluster.from_kubeconfig(self.layout.kubeconfig)
        change = kvm.show if chosen.used else kvm.hide
        changed = [change(partial(cluster.engine.inside, node)) for node in cluster.nodes]  # each of them
        if any(changed):
            kvm.restart_handlers(cluster_api)
        releases = _releases(made)
        installation = planned(releases, fetch(releases))
        if made.installed != installation:
            kind_cluster.save_record(self.layout, replace(made, installed=None))
        self.kind.say("installing KubeVirt and CDI (minutes: a dozen images are pulled)")
        install(cluster_api, releases, emulation=not chosen.used, seconds=self.kind.limits.kubevirt)
        kind_cluster.save_record(self.layout, replace(made, installed=installation))

    def _create(self, cluster: KindCluster) -> None:
        """Create the cluster, unless it runs and its creation came to an end."""
        if cluster.ready(self.layout.kubeconfig):
            return
        cluster.remove()
        self.layout.kubeconfig.unlink(missing_ok=True)
        node = node_image(self.kind, cluster.engine)
        host = guest_facts.look(unified_cgroups=cluster.engine.unified)
        config = configuration(cluster.name, node, host, self.kind.limits.ready, workers=cluster.workers)
        of = f" of {len(cluster.nodes)} nodes" if cluster.workers else ""
        self.kind.say(f"creating kind cluster {cluster.name}{of} (about 20 s)")
        fresh = self.layout.run / "kind.kubeconfig"
        fresh.unlink(missing_ok=True)
        cluster.create(self.kind.kind(), config, fresh, self.layout.logfile("kind"), self.kind.limits)
        if node.own and cluster.workers:
            api = Cluster.from_kubeconfig(fresh)
            places = node_places(api, cluster.nodes, self.kind.limits.ready)
            route_pods(cluster.engine, places, node_images.network)
            replace_pods(api, places)
        fresh.replace(self.layout.kubeconfig)  # only now: that it exists tells that the cluster is whole

    def _start(self, cluster: KindCluster, index: int) -> None:
        mirror = mirror_of(index).registry
        self.kind.say("starting the mirror")
        self.host.start(self._serving(index))
        cluster.require_way_to(f"http://{mirror}/v2/")
        if self.embedded():
            self.kind.say("attaching KubeVirt and CDI")
            self.host.start(self.programs(index))
            firewall.require_mirror_reachable(index, ipv6=True)
            pods.wait_apart(Cluster.from_kubeconfig(self.layout.kubeconfig), self.layout.node)
        self.host.config.publish(mirror)

    def remove(self) -> None:
        """Remove the cluster first, then what the instance has on this host.

        Raises:
            Leaked: something could not be removed, or no engine tells whether the cluster still exists.
        """
        cluster = self._cluster_if_any()
        existed = self.host.record is not None or self.layout.kubeconfig.is_file()
        self.host.stop_making_machines()
        if cluster is not None:
            cluster.remove()
        self.host.remove()
        if cluster is None and existed:
            raise Leaked(
                f"no container engine is running: cluster {self.cluster_name} may still exist in it",
                hint=f"start the engine, then run again: {infra_command('down', self.layout.name, self.name)}",
            )

    def status(self) -> InstanceStatus:
        """Look at the instance, the node in its container included."""
        of_host, cluster = self.host.status(self), self._cluster_if_any()
        if self.host.record is None:
            return _with_remains(of_host, cluster)
        return with_problems(_with_node(of_host, cluster), self._installation())

    def _installation(self) -> list[str]:
        """Return what is wrong with an installation of releases, besides what the API says of KubeVirt and CDI."""
        made = kind_cluster.load_record(self.layout)
        if made is None:
            return ["its record kind.json is missing or unreadable"]
        if made.kubevirt == "embedded":
            return []
        try:
            return problems(Cluster.from_kubeconfig(self.layout.kubeconfig), made)
        except VmatrixError:
            return []  # that the API cannot be asked is said already

    def access(self) -> Access:
        """Return how machines are reached: the embedded KubeVirt's are this host's, a release's are pods."""
        return "direct" if self.embedded() else "portforward"

    def machines_here(self) -> bool:
        """Tell whether machines run on this host: the embedded KubeVirt's do, a release's are pods of the node."""
        return self.embedded()

    def guest_vars(self) -> Mapping[str, Any]:
        """Return what the playbooks need to know: of this host's kernel, or of the cluster's own networks."""
        if self.embedded():
            return guest_facts.guest_vars()
        of_user = guest_vars.read_vars(self.kind.guest_vars)
        return guest_vars.variables(Cluster.from_kubeconfig(self.layout.kubeconfig), of_user)

    def spare_addresses(self, _: str) -> tuple[str, ...]:
        """Return nothing: who gives out addresses here is not known."""
        return ()

    def deliveries(self) -> str:
        """Return the registry on this host that pods of the cluster push to."""
        return deliveries_of(self.host.index())

    def pulls(self) -> str:
        """Return where machines pull from that registry."""
        return pulls_of(self.host.index())

    def describe(self) -> Mapping[str, Any]:
        """Return addresses, directories, programs, and what the cluster is made of."""
        made, made_whole = kind_cluster.load_record(self.layout), self.layout.kubeconfig.is_file()
        return {
            **self.host.describe(Cluster.from_kubeconfig(self.layout.kubeconfig).server if made_whole else "none yet"),
            "cluster": self.cluster_name,
            "kubernetes": made.version if made is not None else "",
            "kubevirt_from": made.kubevirt if made is not None else "",
        }

    def programs(self, index: int) -> Sequence[HostProgram]:
        """Return the programs of the instance on this host."""
        part = (program.kubevirt(self.host.config, index),) if self.embedded() else ()
        return (*self._serving(index), *part)

    def _serving(self, index: int) -> Sequence[HostProgram]:
        """Return what nodes and machines read from and push to; machines of this host have IPv6 addresses, too."""
        config = self.host.config
        over_ipv6 = program.mirror_over_ipv6(config, index) if self.embedded() else ()
        return (*program.mirror(config, index), *over_ipv6, *program.deliveries(config, index))

    def _engine(self) -> Engine:
        """Return the engine that is running. Raises InfraError when none is."""
        search = engine.find()
        if search.engine is None:
            finding = engine.missing(search.said)
            raise InfraError(finding.what, hint=finding.remedy)
        return search.engine

    def _cluster_if_any(self) -> KindCluster | None:
        running = engine.find().engine
        made = kind_cluster.load_record(self.layout)
        workers = made.workers if made is not None else 0
        return KindCluster(self.cluster_name, running, workers) if running is not None else None


def _releases(made: Made) -> Releases:
    """Return the releases of an instance."""
    return load_releases(made.releases or default_file())


def _with_node(status: InstanceStatus, cluster: KindCluster | None) -> InstanceStatus:
    """Add the nodes of an instance that has a record; None stands for no engine that answers."""
    if cluster is None:
        row = ProgramStatus(NODE, None, 0, 0, "no container engine is running")
        return replace(status, state=State.BROKEN, programs=(row, *status.programs))
    pids = cluster.pids()
    rows = [_node_row(cluster, name, pid) for name, pid in pids.items()]
    if None in pids.values():
        return replace(status, state=State.BROKEN, programs=(*rows, *status.programs))
    return replace(status, pods=", ".join(cluster.nodes), programs=(*rows, *status.programs))


def _node_row(cluster: KindCluster, name: str, pid: int | None) -> ProgramStatus:
    what = NODE if name == cluster.node else f"kind {name.removeprefix(f'{cluster.name}-')}"
    if pid is None:
        return ProgramStatus(what, None, 0, 0, "its container is not running")
    return ProgramStatus(what, pid, *seen_process(pid), "")


def _with_remains(status: InstanceStatus, cluster: KindCluster | None) -> InstanceStatus:
    """Add what the engine still has of an instance without a record."""
    if cluster is None or not cluster.engine.containers(cluster.name):
        return status
    return replace(status, state=State.BROKEN, leftovers=(*status.leftovers, f"kind cluster {cluster.name}"))


class KindDefinition(OnHost):
    """Provider `kind`."""

    name = NAME
    choices = frozenset({"kubevirt", "kubernetes", "node_image", "releases", "kvm", "pods", "workers"})

    def instance(self, opening: Opening) -> KindProvider:
        """Return the kind instance that the settings name."""
        return kind_provider(opening)

    def check(self, settings: Settings, memory_mib: int | None, use: Callable[[], Use]) -> tuple[str, list[Finding]]:
        """Look at this host, and try the pod network of an instance that is up."""
        made = kind_cluster.load_record(layout_of(settings.infra_name, NAME))
        embedded = (settings.kubevirt or (made.kubevirt if made is not None else "release")) == "embedded"
        found = engine.check(embedded=embedded, builds_node=True, memory_mib=memory_mib or 0)
        if embedded:
            return "this host", found
        found += kvm.kvm_findings(settings.kvm or (made.kvm if made is not None else "auto"))
        kubeconfig = layout_of(settings.infra_name, NAME).kubeconfig
        if made is None or not kubeconfig.is_file():
            return "this host", found
        return f"this host, with instance {settings.infra_name}", [*found, *check_pod_network(Infra(kubeconfig), use())]

    def machines_like(self, settings: Settings) -> str:
        """Return the provider whose machines its KubeVirt's are like: as the instance was made, or is asked for."""
        made = kind_cluster.load_record(layout_of(settings.infra_name, NAME))
        kubevirt = made.kubevirt if made is not None else settings.kubevirt
        return "embedded" if kubevirt == "embedded" else "kubeconfig"


def kind_provider(opening: Opening) -> KindProvider:
    """Return the kind instance that the settings name.

    Raises:
        BadInput: the catalogue does not have the Kubernetes version.
    """
    store, settings, chosen = opening.store, opening.settings, opening.choices
    layout = layout_of(settings.infra_name, NAME)
    made = kind_cluster.load_record(layout)
    version = _version(chosen, made.version if made is not None else KUBERNETES, store)
    node_image = chosen.get("node_image")
    nodes = NodeImages(store)

    def own_node() -> OwnNode:
        image = nodes.ensure(version, opening.say, opening.progress)
        return OwnNode(image.reference, image.archive, node_images.REPOSITORY)

    kind = KindConfig(
        kubevirt=settings.kubevirt,
        version=version,
        node_image=node_image,
        releases=settings.releases.resolve() if settings.releases is not None else None,
        kvm=settings.kvm,
        guest_vars=settings.guest_vars,
        workers=chosen.get("workers"),
        kind=lambda: kind_program(store, opening.progress),
        own_node=own_node,
        own_node_made=lambda: node_image is None and nodes.cached(version) is not None,
        say=opening.say,
        limits=KindLimits() if opening.timeouts is None else KindLimits.of(opening.timeouts),
    )
    needed = (*(refs.newest(store.catalogue, program) for program in refs.SERVING), *opening.images)
    supply = Supply(version, opening.images, store, opening.progress, opening.uploads)
    return KindProvider(supplied(layout, supply, needed, opening.timeouts), kind)


def _version(chosen: Mapping[str, Any], usual: str, store: Store) -> str:
    version = str(chosen.get("kubernetes") or usual)
    if version not in store.catalogue.kubernetes and chosen.get("node_image") is None:
        known = ", ".join(store.catalogue.kubernetes)
        raise BadInput(f"Kubernetes {version} is not in the catalogue (it has {known})", hint="--kubernetes VERSION")
    return version


def kind_program(store: Store, progress: Progress) -> Path:
    """Return the program `kind`: the one on PATH, or else the pinned one from the artifacts."""
    on_path = which("kind")
    if on_path is not None:
        return Path(on_path)
    ref = refs.newest(store.catalogue, node_images.KIND)
    return store.obtain(ref.name, ref.version, progress).file("kind")


PROVIDER = KindDefinition()
