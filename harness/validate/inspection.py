"""One guest under inspection: everything is looked up once, when the first check needs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from harness.errors import InfraRetriable, ProductError
from harness.kube import Cluster
from harness.kube.client import Unreachable
from harness.kube.patience import Patience
from harness.kube.tunnels import lost_since
from harness.model import GuestCluster
from harness.spec.models import Timeouts
from harness.spec.models.leaves import ClusterLeaves
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.conformance.curated import ConformanceList, curated_path, load_curated
from harness.validate.facts.authority import MachineAuthority
from harness.validate.facts.cluster import ClusterView, view_of
from harness.validate.facts.customised import CustomisedFacts
from harness.validate.facts.etcd import EtcdView
from harness.validate.facts.expected import ExpectedGuest, expected_of
from harness.validate.facts.files import MachineFiles
from harness.validate.facts.keys import MachineKeys
from harness.validate.facts.node import NodeFacts
from harness.validate.facts.packets import MachinePackets
from harness.validate.facts.programs import RunningPrograms
from harness.validate.facts.setup import MachineSetup
from harness.validate.judge.addons import unavailable_deployments, unready_daemon_sets
from harness.validate.judge.cluster_nodes import unready_nodes
from harness.validate.judge.finding import NotJudged
from harness.validate.judge.mismatch import Mismatch, eventually
from harness.validate.judge.node_configuration import wrong_proxy_mode
from harness.validate.judge.system_pods import unready_pods
from harness.validate.remote.gather import (
    asked_of_programs,
    gather_authorities,
    gather_customised,
    gather_dials,
    gather_facts,
    gather_files,
    gather_keys,
    gather_packets,
    gather_programs,
    gather_setups,
)
from harness.validate.remote.hardening import HardeningLook, look_at_hardening
from harness.validate.remote.hosts import open_hosts

OK = 200
RECENT_SECONDS = 10.0  # looks back, not a wait: a tunnel that failed this recently explains a silent API


class Inspection:
    """What is known of one guest, as it was when it was first needed."""

    def __init__(
        self, guest: GuestCluster, leaves: ClusterLeaves, *, ssh_options: Sequence[str], timeouts: Timeouts
    ) -> None:
        """Take the guest; nothing is looked up yet.

        Args:
            leaves: what the product says that it leaves behind.
            ssh_options: how the harness connects to the guest's machines.
            timeouts: of the machines' programs, and of a guest until its nodes and add-ons are ready.
        """
        self.guest = guest
        self._leaves = leaves
        self._ssh_options = tuple(ssh_options)
        self.timeouts = timeouts

    @property
    def directory(self) -> Path:
        """Return where the checks' own files go."""
        directory = self.guest.environment.files.checks
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    @cached_property
    def expected(self) -> ExpectedGuest:
        """Return what the guest must look like."""
        return expected_of(self.guest, self._leaves)

    @cached_property
    def api(self) -> Cluster:
        """Return the guest's API, as its admin."""
        return Cluster.from_kubeconfig(self.guest.kubeconfig, patience=Patience.of(self.timeouts).once())

    def wait_for_api(self) -> None:
        """Wait for the guest's API to answer.

        Raises:
            ProductError: it does not in time. The machines exist, so it is not the infra's fault.
            InfraRetriable: the tunnel to the machines is broken.
        """

        def probe() -> bool | NotYet:
            try:
                code = self.api.send("GET", "/livez").code
            except Unreachable as error:
                return NotYet(error.summary)
            return True if code == OK else NotYet(f"/livez answers {code}")

        try:
            until(probe, deadline=Deadline.after(self.timeouts.settle), what="the guest's API server to answer")
        except TimedOut as late:
            broken = lost_since(self.guest.environment.tunnels, time.time() - RECENT_SECONDS)
            if broken:
                raise InfraRetriable(
                    f"the tunnel to the guest's API server is broken: {broken[-1].why}",
                    hint="does KubeVirt's virt-api run? `vmatrix doctor` checks the infra cluster",
                    detail=late.summary,
                ) from late
            machine = self.expected.control_plane[0]
            raise ProductError(
                f"the guest's API server does not answer at {self.api.server}",
                hint=f"{self.expected.login(machine)}, then crictl ps -a or ls /var/log/pods",
                detail=late.summary,
            ) from late

    @cached_property
    def view(self) -> ClusterView:
        """Return the guest's objects once it has settled, or its time to do so is over."""
        deadline = Deadline.after(self.timeouts.settle)
        return settle(self.api, self._unsettled, deadline, self.expected.namespaces)

    @cached_property
    def hosts(self) -> dict[str, Any]:
        """Return the guest's machines as testinfra hosts, by name."""
        return open_hosts(self.guest.environment, self._ssh_options)

    @cached_property
    def facts(self) -> dict[str, NodeFacts]:
        """Return every machine's facts, gathered after the guest has settled and kube-proxy has written its rules.

        A kube-proxy is ready as soon as it runs, and writes them a moment later.
        """
        assert self.view is not None  # noqa: S101 - the view is what waits
        deadline = Deadline.after(self.timeouts.probe_follow)
        wrong = partial(wrong_proxy_mode, expected=self.expected)
        return follow(lambda: gather_facts(self.hosts, self.timeouts, self.expected), wrong, deadline)

    @cached_property
    def files(self) -> dict[str, MachineFiles]:
        """Return every machine's files, gathered after the guest has settled."""
        assert self.view is not None  # noqa: S101 - the view is what waits
        return gather_files(self.hosts, self.timeouts, self.expected)

    @cached_property
    def running(self) -> dict[str, RunningPrograms]:
        """Return every machine's running programs and their configuration, gathered after the guest has settled."""
        assert self.view is not None  # noqa: S101 - the view is what waits
        given = dict.fromkeys(self.hosts, asked_of_programs(self.expected))
        return gather_programs(self.hosts, given, self.timeouts)

    @cached_property
    def packets(self) -> dict[str, MachinePackets]:
        """Return what every machine does with packets, gathered after the guest has settled."""
        assert self.view is not None  # noqa: S101 - the view is what waits
        return gather_packets(self.hosts, self.timeouts)

    @cached_property
    def keys(self) -> dict[str, MachineKeys]:
        """Return every machine's keys and kubeconfigs, gathered after the guest has settled."""
        assert self.view is not None  # noqa: S101 - the view is what waits
        return gather_keys(self.hosts, self.timeouts, self.expected)

    @cached_property
    def setups(self) -> dict[str, MachineSetup]:
        """Return how every machine is set up, gathered after the guest has settled."""
        assert self.view is not None  # noqa: S101 - the view is what waits
        return gather_setups(self.hosts, self.timeouts, self.expected)

    @cached_property
    def customised(self) -> dict[str, CustomisedFacts]:
        """Return what every control plane shows of a customised kubeadm, gathered after the guest has settled."""
        assert self.view is not None  # noqa: S101 - the view is what waits
        return gather_customised(self.hosts, self.timeouts, self.expected)

    @cached_property
    def authorities(self) -> dict[str, MachineAuthority]:
        """Return every machine's CAs, keys of CAs and certificates, gathered after the guest has settled."""
        assert self.view is not None  # noqa: S101 - the view is what waits
        return gather_authorities(self.hosts, self.timeouts, self.expected)

    @cached_property
    def hardening(self) -> HardeningLook:
        """Return how hard every machine is to break into, looked at after the guest has settled."""
        assert self.view is not None  # noqa: S101 - the view is what waits
        return look_at_hardening(self.api, self.hosts, self.expected, self.timeouts)

    def dial(self, given: Mapping[str, Any]) -> dict[str, list[list[Any]]]:
        """Let machines themselves dial; see on_node_dials.py."""
        return gather_dials(self.hosts, given, self.timeouts)

    @property
    def etcd(self) -> dict[str, EtcdView]:
        """Return what each machine's etcd reports, by machine; machines without etcd are left out."""
        return {name: facts.etcd for name, facts in self.facts.items() if facts.etcd is not None}

    @cached_property
    def curated(self) -> ConformanceList:
        """Return the conformance list of the guest's minor."""
        return load_curated(self.expected.minor)

    def probe_image(self, name: str, registry: str) -> str:
        """Return the reference of an image for probe pods, by its name in the conformance list of the guest's minor.

        Args:
            registry: HOST:PORT of the mirror, and what else is before the repository.

        Raises:
            NotJudged: nobody wrote a list for that minor, so nobody knows which release of the image it needs.
        """
        if not curated_path(self.expected.minor).is_file():
            raise NotJudged(f"Kubernetes {self.expected.minor} has no conformance list, which names the image {name}")
        return f"{registry}/{self.curated.images[name]}"

    def _unsettled(self, view: ClusterView) -> list[Mismatch]:
        return [
            *unready_nodes(view, self.expected),
            *unavailable_deployments(view, self.expected),
            *unready_daemon_sets(view, self.expected),
            *unready_pods(view, self.expected),
        ]


def follow(
    gather: Callable[[], dict[str, NodeFacts]],
    wrong: Callable[[Mapping[str, NodeFacts]], list[Mismatch]],
    deadline: Deadline,
) -> dict[str, NodeFacts]:
    """Gather facts until nothing is wrong with them that could still change, or until the deadline; return the last."""
    last: list[dict[str, NodeFacts]] = []

    def look() -> list[Mismatch]:
        last[:] = [gather()]
        return wrong(last[0])

    eventually(look, deadline=deadline, what="kube-proxy to write its rules")
    if not last:  # the first look was cut short
        look()
    return last[0]


def settle(
    api: Cluster,
    unsettled: Callable[[ClusterView], list[Mismatch]],
    deadline: Deadline,
    namespaces: frozenset[str] | None = None,
) -> ClusterView:
    """Look at a cluster until it has settled, or until the deadline; return the last look either way.

    It has settled when nothing is wrong that could still change; what cannot is no reason to wait. A cluster that never
    settles is not an error here: the checks judge the last look.

    Args:
        namespaces: those of the cluster's own pods; None: all but those of users and checks.
    """
    last: list[ClusterView] = []

    def look() -> list[Mismatch]:
        last[:] = [view_of(api, namespaces)]
        return unsettled(last[0])

    eventually(look, deadline=deadline, what="the guest cluster to settle")
    if not last:  # the first look was cut short
        look()
    return last[0]
