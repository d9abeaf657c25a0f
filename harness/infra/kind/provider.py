"""A kind cluster as an infra cluster: the node in a container, KubeVirt and CDI in it, the mirror on this host.

What it has on the host besides the engine's containers (address, mirror, and with the embedded part its process and
machines) is an instance as the embedded infrastructure's, and goes the same way.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.errors import InfraError, Leaked
from harness.infra.cluster.nodes import free_for_machines
from harness.infra.embedded import control_plane
from harness.infra.embedded.provider import KUBEVIRT, LocalProvider, mirror_of, node_of
from harness.infra.host import guests, instance, kernel, network, preflight, processes, status
from harness.infra.host.config import LocalConfig
from harness.infra.host.instance import Instance
from harness.infra.host.layout import PORTS, address_of
from harness.infra.host.programs import Program
from harness.infra.host.status import InstanceStatus
from harness.infra.kind import attach, engine, host, kvm, record
from harness.infra.kind.cluster import Host, KindCluster, Node, configuration
from harness.infra.kind.config import KindConfig
from harness.infra.kind.engine import Engine
from harness.infra.kind.install import Wanted, fetch, install
from harness.infra.kind.look import with_node, with_remains
from harness.infra.kind.releases import load as load_releases
from harness.infra.kubeconfig import KubeconfigProvider
from harness.kube import Cluster
from harness.model import Access, Capacity
from harness.until import Deadline

PUBLISHED = "kindest/node"


class KindProvider(LocalProvider):
    """One kind instance, by name."""

    def __init__(self, config: LocalConfig, kind: KindConfig) -> None:
        super().__init__(config)
        self.name = "kind"
        self.kind = kind

    @property
    def cluster_name(self) -> str:
        """Return what kind calls the cluster."""
        return f"vmatrix-{self.layout.name}"

    def embedded(self) -> bool:
        """Tell whether our own KubeVirt and CDI part is, or is to be, attached.

        Raises:
            BadInput: the instance was made with the other one.
        """
        return record.wanted(self.layout, self.kind).kubevirt == "embedded"

    def findings(self) -> list[preflight.Finding]:
        """Return what this host lacks to start what of the instance does not run."""
        found = instance.load(self.layout)
        embedded = self.embedded()
        dead = [name for name in self._dead(found) if name in PORTS] if found is not None else list(host.PROGRAMS)
        if found is not None and not dead:
            return []
        builds = found is None and self.kind.node_image is None and not self.kind.own_node_made()
        address = address_of(found.index) if found is not None else None
        return host.check(embedded=embedded, builds_node=builds, address=address, programs=dead)

    def up(self) -> None:
        """Bring the instance up; mend what is missing of one that is partly there.

        Raises:
            BadInput: this host lacks something, or a release is not pinned; nothing was touched.
            InfraError: a release cannot be had, or is another than was pinned (nothing was touched); or the cluster, a
                program, KubeVirt or CDI did not come up.
        """
        if not self.embedded():
            fetch(load_releases(self.kind.releases))
        super().up()

    def status(self) -> InstanceStatus:
        """Look at the instance, the node in its container included."""
        found = instance.load(self.layout)
        programs = self.programs(found.index) if found is not None else ()
        seen = status.look(self.layout, programs)
        cluster = self._cluster_if_any()
        return with_node(seen, cluster) if found is not None else with_remains(seen, cluster)

    def capacity(self) -> Capacity:
        """Return what the nodes that take machines have free, and the free disk space below the instance."""
        disk = shutil.disk_usage(self.layout.root).free // 2**30
        return free_for_machines(Cluster.from_kubeconfig(self.layout.kubeconfig), disk_gib=disk)

    def guest_vars(self) -> Mapping[str, Any]:
        """Return what the playbooks need to know: of this host's kernel, or of the cluster's own networks."""
        if self.embedded():
            return guests.guest_vars()
        return KubeconfigProvider(self.layout.kubeconfig, None, self.mirror()).guest_vars()

    def access(self) -> Access:
        """Return how machines are reached: ours are this host's; a release's are known to the cluster alone."""
        return "direct" if self.embedded() else "portforward"

    def describe(self) -> Mapping[str, Any]:
        """Return addresses, directories, programs, and what the cluster is made of."""
        made = record.load(self.layout)
        return {
            **super().describe(),
            "provider": self.name,
            "server": Cluster.from_kubeconfig(self.layout.kubeconfig).server,
            "cluster": self.cluster_name,
            "kubernetes": made.version if made is not None else "",
            "kubevirt_from": made.kubevirt if made is not None else "",
        }

    def programs(self, index: int) -> Sequence[Program]:
        """Return the programs of the instance on this host."""
        part = [replace(program, after=()) for program in self._kubevirt(index)] if self.embedded() else []
        return (*self._mirror(index), *part)

    def _make(self, found: Instance) -> None:
        layout, made = self.layout, record.wanted(self.layout, self.kind)
        cluster = KindCluster(self.cluster_name, self._engine())
        kernel.raise_inotify_limit()
        network.ensure_bridge(found.index, layout)
        for folder in (layout.pki, layout.run, layout.logs, layout.disks, layout.machines):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        record.save(layout, made)
        self._create(cluster)
        if made.kubevirt == "embedded":
            self._attach(cluster, found.index)
        deadline = Deadline.after(self.config.up_seconds)
        programs = self.programs(found.index)
        mirror = [program for program in programs if program.name != KUBEVIRT]
        self.kind.say("starting the mirror")
        processes.bring_up(layout, mirror, deadline=deadline)
        cluster.require_way_to(f"http://{mirror_of(found.index).registry}/v2/")
        if made.kubevirt == "embedded":
            self.kind.say("attaching KubeVirt and CDI")
            processes.bring_up(layout, programs, deadline=deadline)
        self.config.publish(mirror_of(found.index).registry)
        if made.kubevirt == "release":
            self.kind.say("installing KubeVirt and CDI (minutes: a dozen images are pulled)")
            releases = load_releases(self.kind.releases)
            install(Cluster.from_kubeconfig(layout.kubeconfig), Wanted(releases, emulation=not kvm.works()))

    def _create(self, cluster: KindCluster) -> None:
        """Create the cluster, unless it is there and its creation came to an end."""
        if cluster.ready(self.layout.kubeconfig):
            return
        cluster.remove()
        self.layout.kubeconfig.unlink(missing_ok=True)
        node = self._node(cluster.engine)
        here = guests.look()
        config = configuration(cluster.name, node, Host(cluster.engine.unified, here.may_raise_limits))
        self.kind.say(f"creating kind cluster {cluster.name} (about 20 s)")
        fresh = self.layout.run / "kind.kubeconfig"
        fresh.unlink(missing_ok=True)
        cluster.create(self.kind.kind(), config, fresh, self.layout.logfile("kind"))
        fresh.replace(self.layout.kubeconfig)  # only now: its being there says that the cluster is whole

    def _node(self, running: Engine) -> Node:
        """Return the image of the node: the one that was asked for, a published one, or our own."""
        if self.kind.node_image is not None:
            return Node(self.kind.node_image, own=False)
        published = f"{PUBLISHED}:v{self.kind.version}"
        if not self.kind.own_node_made():
            if running.has_image(published) or not running.pull(published):
                return Node(published, own=False)
            self.kind.say(f"{published} cannot be pulled; a node image is built from our own artifacts")
        own = self.kind.own_node()
        if not running.has_image(own.image):
            self.kind.say(f"handing the node image to {running.client} (about 20 s)")
            running.load(own.archive)
        return Node(own.image, own=True, repository=own.repository)

    def _attach(self, cluster: KindCluster, index: int) -> None:
        layout = self.layout
        address, node = address_of(index), node_of(layout)
        api = Cluster.from_kubeconfig(layout.kubeconfig)
        attach.ensure_certificates(layout.pki, address=address, node=node, kubeconfig=layout.kubeconfig)
        attach.ensure_kubeconfig(api, layout.kubeconfig, control_plane.kubeconfig_of(layout, KUBEVIRT))
        attach.keep_apart(api, cluster.node)

    def _take_away(self) -> None:
        """Remove the instance: the cluster first, then all that the embedded infrastructure leaves on a host.

        Without an engine nothing can be said of a cluster that an instance had: all else goes, and that is said.
        """
        found = instance.load(self.layout)
        cluster = self._cluster_if_any()
        had = found is not None or self.layout.kubeconfig.is_file()
        if found is not None:
            instance.save(self.layout, replace(found, ending=True))
        processes.take_down(self.layout, [KUBEVIRT], grace=1.0)
        if cluster is not None:
            cluster.remove()
        super()._take_away()
        if cluster is None and had:
            raise Leaked(
                f"no container engine answers: cluster {self.cluster_name} may still be in it",
                hint=f"start the engine, then again: vmatrix infra down --provider kind --name {self.layout.name}",
            )

    def _engine(self) -> Engine:
        """Return the engine that answers.

        Raises:
            InfraError: none does.
        """
        found = engine.find()
        if found.engine is None:
            finding = engine.missing(found.said)
            raise InfraError(finding.what, hint=finding.remedy)
        return found.engine

    def _cluster_if_any(self) -> KindCluster | None:
        found = engine.find().engine
        return KindCluster(self.cluster_name, found) if found is not None else None
