"""Inspection: one guest, whose API and machines are asked for each thing once, when the first check needs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from harness.errors import InfraRetriable, ProductError
from harness.kube import Cluster
from harness.kube.api import Patience
from harness.kube.client import Unreachable
from harness.machines.reach.portforward import lost_since
from harness.model import GuestCluster
from harness.spec.models import Timeouts
from harness.spec.models.leaves import ClusterLeaves
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.conformance.curated import ConformanceList, curated_path, load_curated
from harness.validate.expected import ExpectedGuest, expected_of, plugins
from harness.validate.facts.cluster import ClusterView, view_of
from harness.validate.facts.files import MachineFiles, MachineKeys, files_of, keys_of
from harness.validate.facts.node import EtcdView, NodeFacts, facts_of
from harness.validate.facts.programs import MachineSetup, RunningPrograms, programs_of, setup_of
from harness.validate.findings import Mismatch, NotJudged, eventually
from harness.validate.hosts import MACHINE, open_hosts, run_on_each
from harness.validate.kernel import KERNEL, RESERVED
from harness.validate.topics.addons import unavailable_deployments, unready_daemon_sets
from harness.validate.topics.boot import NextBoot, next_boot_of
from harness.validate.topics.customised import CustomisedFacts, customised_of
from harness.validate.topics.external_ca import MachineAuthority, authority_of
from harness.validate.topics.hardening.facts import HardeningLook, look_at_hardening
from harness.validate.topics.kube_proxy import MachinePackets, packets_of, wrong_proxy_mode
from harness.validate.topics.kubelet import kubelet_configurations
from harness.validate.topics.node_state import NodeState, node_state_of
from harness.validate.topics.nodes import unready_nodes
from harness.validate.topics.system_pods import unready_pods
from harness.validate.variables import asked_volumes

T = TypeVar("T")
STATE = MACHINE / "state.py"
DIALS = MACHINE / "dials.py"
OK = 200
AT_ONCE = 3  # programs on each machine; sshd allows ten sessions of a connection (MaxSessions)
RECENT_SECONDS = 10.0  # looks back, not a wait: a tunnel that failed this recently explains a silent API
JOURNAL = "systemd-journald.service"  # without which programs of the machine write no logs
MachineState = dict[str, dict[str, str]]  # by kind (file, mount, ...), then by name


@dataclass(frozen=True)
class MachineProgram(Generic[T]):
    """A program of `machine/`: its file, what reads its output, and the argument that it takes of a guest."""

    file: Path
    read: Callable[[Any], T]
    argument: Callable[[ExpectedGuest], Mapping[str, Any]]

    def run(self, hosts: Mapping[str, Any], expected: ExpectedGuest, timeouts: Timeouts) -> dict[str, T]:
        """Run it on machines, each with the same argument.

        Raises:
            InfraError: a machine does not answer, or its output is malformed.
        """
        return run_on_each(hosts, self.file, self.read, timeouts, given=dict.fromkeys(hosts, self.argument(expected)))


def _asked_of_node(expected: ExpectedGuest) -> dict[str, Any]:
    """Return which units to look at, and where the product's files are."""
    leaves, own = expected.leaves, [expected.plugin] if expected.plugin is not None else []
    units = {leaves.kubelet.unit, leaves.runtime_unit, leaves.local_api.unit, leaves.etcd.unit}
    units |= {JOURNAL, *(plugin.unit for plugin in [*plugins().values(), *own])}
    tools = {"kubectl": leaves.kubectl, "kubeadm": leaves.kubeadm}
    return {
        "units": sorted(unit for unit in units if unit is not None),
        "certificates": leaves.certificates or "",
        "manifests": leaves.control_plane.manifests or "",
        "cni_plugins": leaves.cni_plugins or "",
        "tools": {name: tool.path for name, tool in tools.items() if tool is not None and tool.path is not None},
        "environment_file": leaves.etcd.environment_file or "",
        "settings": sorted({RESERVED, *(rule.setting for rule in KERNEL)}),
    }


def asked_of_programs(expected: ExpectedGuest, address: str = "127.0.0.1") -> dict[str, Any]:
    """Return what machine/programs.py takes of a machine, without DNS servers.

    Args:
        address: whose name DNS servers are asked for.
    """
    leaves = expected.leaves
    return {
        "address": address,
        "hosts": leaves.host_names or "",
        "ca": f"{leaves.certificates}/ca.crt" if leaves.certificates is not None else "",
        "proxy": leaves.local_api.backends or "",
        "dns": [],
    }


def _asked_of_setup(expected: ExpectedGuest) -> dict[str, Any]:
    leaves, plugin = expected.leaves, expected.plugin
    units = (leaves.kubelet.unit, leaves.runtime_unit, leaves.local_api.unit, leaves.etcd.unit)
    return {
        "ca": f"{leaves.certificates}/ca.crt" if leaves.certificates is not None else "",
        "units": [unit for unit in (*units, plugin.unit if plugin is not None else None) if unit is not None],
        "registries": str((leaves.runtime_settings or {}).get("config_path", "")),
        "names": expected.machines if leaves.host_names is not None else [],
    }


def _certificates(expected: ExpectedGuest) -> dict[str, Any]:
    return {"certificates": expected.leaves.certificates or ""}


BOOT = MachineProgram(MACHINE / "boot.py", next_boot_of, lambda _: {})
STATES = MachineProgram(MACHINE / "node_state.py", node_state_of, lambda _: {})
FILES = MachineProgram(MACHINE / "files.py", files_of, _certificates)
KEYS = MachineProgram(MACHINE / "keys.py", keys_of, _certificates)
PROGRAMS = MachineProgram(MACHINE / "programs.py", programs_of, asked_of_programs)
SETUP = MachineProgram(MACHINE / "setup.py", setup_of, _asked_of_setup)
PACKETS = MachineProgram(MACHINE / "packets.py", packets_of, lambda _: {})
CUSTOMISED = MachineProgram(
    MACHINE / "customised.py", customised_of, lambda expected: {"volumes": asked_volumes(expected.variables)}
)
AUTHORITIES = MachineProgram(
    MACHINE / "external_ca.py",
    authority_of,
    lambda expected: {"certificates": expected.leaves.certificates or "/etc/kubernetes/pki", "places": []},
)


def gather_facts(hosts: Mapping[str, Any], timeouts: Timeouts, expected: ExpectedGuest) -> dict[str, NodeFacts]:
    """Return every machine's facts.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    called = time.time()
    # the same moment for all: whoever had to wait for a turn only has its clock judged less strictly
    read = lambda raw: facts_of({**raw, "called": called, "answered": time.time()})  # noqa: E731
    return MachineProgram(MACHINE / "node.py", read, _asked_of_node).run(hosts, expected, timeouts)


def gather_programs(
    hosts: Mapping[str, Any], given: Mapping[str, Any], timeouts: Timeouts
) -> dict[str, RunningPrograms]:
    """Return what every machine runs.

    Args:
        given: what machine/programs.py takes, by machine.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    return run_on_each(hosts, PROGRAMS.file, PROGRAMS.read, timeouts, given=given)


def gather_states(
    hosts: Mapping[str, Any], timeouts: Timeouts, *, with_files: bool = True, with_starts: bool = False
) -> dict[str, MachineState]:
    """Return the whole state of every machine, on request without files, or with when services began.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    options = {name: {"files": with_files, "starts": with_starts} for name in hosts}
    return run_on_each(hosts, STATE, dict, timeouts, given=options, seconds=timeouts.machine_state)


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

    def settled(self) -> ClusterView:
        """Wait until the guest has settled, or its time to do so is over; later calls do not wait."""
        return self.view

    def _gathered(self, program: MachineProgram[T], hosts: Mapping[str, Any]) -> dict[str, T]:
        """Run a program on machines once the guest has settled."""
        self.settled()
        return program.run(hosts, self.expected, self.timeouts)

    @cached_property
    def _begun(self) -> dict[Path, Future[dict[str, Any]]]:
        """Run what looks at machines for the suite nodes alone, side by side: programs mostly wait for commands."""
        self.settled()
        pool = ThreadPoolExecutor(AT_ONCE)
        together: tuple[MachineProgram[Any], ...] = (FILES, KEYS, BOOT, STATES, PACKETS)
        begun = {program.file: pool.submit(self._gathered, program, self.hosts) for program in together}
        pool.shutdown(wait=False)
        return begun

    def _looked(self, program: MachineProgram[T]) -> dict[str, T]:
        """Return what a program of `_begun` saw; when it is asked for a second time, run it anew."""
        begun = self._begun.pop(program.file, None)
        return begun.result() if begun is not None else self._gathered(program, self.hosts)

    @cached_property
    def hosts(self) -> dict[str, Any]:
        """Return the guest's machines as testinfra hosts, by name."""
        return open_hosts(self.guest.environment, self._ssh_options)

    @cached_property
    def facts(self) -> dict[str, NodeFacts]:
        """Return every machine's facts, gathered after the guest has settled and kube-proxy has written its rules.

        A kube-proxy is ready as soon as it runs, and writes them a moment later.
        """
        self.settled()
        deadline = Deadline.after(self.timeouts.probe_follow)
        wrong = partial(wrong_proxy_mode, expected=self.expected)
        return follow(lambda: gather_facts(self.hosts, self.timeouts, self.expected), wrong, deadline)

    @cached_property
    def files(self) -> dict[str, MachineFiles]:
        """Return every machine's files, gathered after the guest has settled."""
        return self._looked(FILES)

    @cached_property
    def boots(self) -> dict[str, NextBoot]:
        """Return what every machine's next start does, gathered after the guest has settled."""
        return self._looked(BOOT)

    @cached_property
    def states(self) -> dict[str, NodeState]:
        """Return what programs keep on every machine, gathered after the guest has settled."""
        return self._looked(STATES)

    @cached_property
    def kubelets(self) -> dict[str, Mapping[str, Any]]:
        """Return the configuration that each running kubelet reports, by node; without those that do not answer."""
        return kubelet_configurations(self.api, self.expected)

    @cached_property
    def running(self) -> dict[str, RunningPrograms]:
        """Return every machine's running programs and their configuration, gathered after the guest has settled."""
        return self._gathered(PROGRAMS, self.hosts)

    @cached_property
    def packets(self) -> dict[str, MachinePackets]:
        """Return what every machine does with packets, gathered after the guest has settled."""
        return self._looked(PACKETS)

    @cached_property
    def keys(self) -> dict[str, MachineKeys]:
        """Return every machine's keys and kubeconfigs, gathered after the guest has settled."""
        return self._looked(KEYS)

    @cached_property
    def setups(self) -> dict[str, MachineSetup]:
        """Return how every machine is set up, gathered after the guest has settled."""
        return self._gathered(SETUP, self.hosts)

    @cached_property
    def customised(self) -> dict[str, CustomisedFacts]:
        """Return what every control plane shows of a customised kubeadm, gathered after the guest has settled."""
        return self._gathered(CUSTOMISED, {name: self.hosts[name] for name in self.expected.control_plane})

    @cached_property
    def authorities(self) -> dict[str, MachineAuthority]:
        """Return every machine's CAs, keys of CAs and certificates, gathered after the guest has settled."""
        return self._gathered(AUTHORITIES, self.hosts)

    @cached_property
    def hardening(self) -> HardeningLook:
        """Return how hard every machine is to break into, looked at after the guest has settled."""
        self.settled()
        return look_at_hardening(self.api, self.hosts, self.expected, self.timeouts)

    def dial(self, given: Mapping[str, Any]) -> dict[str, list[list[Any]]]:
        """Let machines themselves dial; return what each got: [kind, what was given..., why it failed].

        Args:
            given: what machine/dials.py takes, by machine.

        Raises:
            InfraError: a machine does not answer, or its output is malformed.
        """
        return run_on_each({name: self.hosts[name] for name in given}, DIALS, list, self.timeouts, given=given)

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

    It has settled when nothing is wrong that could still change; what cannot is not a reason to wait. A cluster that
    never settles is not an error here: the checks judge the last look.

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
