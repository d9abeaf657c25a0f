"""Monitor of a cell's phases: the guest before each, addresses that must answer during it, data that must last.

Nothing that goes wrong here ends a phase. The error is kept, and the check that needs what is missing fails with it.
"""

from __future__ import annotations

import ipaddress
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from harness.errors import HarnessBug, InfraError, VmatrixError
from harness.model import Cell, Environment, GuestCluster, Machine
from harness.spec.models import Timeouts
from harness.spec.models.leaves import ClusterLeaves
from harness.until import Deadline
from harness.urls import in_url
from harness.validate.conformance.curated import AGNHOST
from harness.validate.expected import ExpectedGuest
from harness.validate.findings import NotJudged
from harness.validate.hosts import open_hosts
from harness.validate.inspection import Inspection, MachineState, gather_states
from harness.validate.phases.availability import (
    Availability,
    RequestStream,
    place_workload,
    read_availability,
    send_requests,
)
from harness.validate.phases.credentials import Credentials, are_taken_before, take_credentials
from harness.validate.phases.data import Writer, leave_mark
from harness.validate.phases.observation import Observation, observe
from harness.validate.phases.restarts import power_cut, restarts


@dataclass(frozen=True)
class LocalApi:
    """Where a node reaches the API on itself; `why` it does not, where there is no URL.  ca: the file of its CA."""

    url: str = ""
    ca: str = ""
    why: str = ""


@dataclass
class PhaseRecord:
    """What was seen of one phase; `trouble` is why something was not.

    before: the guest when the phase began.  availability: of the addresses requested during it, by name.
    client: the machine that sent the requests.  seconds: how long the phase took.
    unrequested: why no request was sent, where that is as it should be.
    single: whether the workload had only one node.  api: where the client reaches the API on itself.
    states: each machine's state before a restart, by name.  writer: writes all through a phase that cuts the power.
    former: what the API accepted before a phase that replaces its authorities.
    """

    before: Observation | None = None
    states: Mapping[str, MachineState] = field(default_factory=dict)
    writer: Writer | None = None
    former: Credentials | None = None
    availability: Mapping[str, Availability] = field(default_factory=dict)
    client: str = ""
    seconds: float = 0.0
    single: bool = False
    trouble: VmatrixError | None = None
    unrequested: str = ""
    api: LocalApi = field(default_factory=LocalApi)

    def of(self, name: str) -> Availability:
        """Return the availability of one address.

        Raises:
            VmatrixError: what went wrong; or no request was sent, which is the harness's fault.
            NotJudged: none could be sent, because nobody knows which image answers them.
        """
        if self.unrequested:
            raise NotJudged(self.unrequested)
        if isinstance(self.trouble, InfraError):  # no requests to the end
            raise self.trouble
        self.need(self.availability)
        if name not in self.availability:
            raise HarnessBug(
                f"{name} got no request during the phase", hint="the scenario says that it keeps answering"
            )
        return self.availability[name]

    def guest_before(self) -> Observation:
        """Return the guest when the phase began.

        Raises:
            VmatrixError: what went wrong; or nobody looked, which is the harness's fault.
        """
        self.need(self.before)
        if self.before is None:
            raise HarnessBug(
                "the guest was not looked at before the phase", hint="the first phase has no guest before it"
            )
        return self.before

    def former_credentials(self) -> Credentials:
        """Return what the API accepted when the phase began.

        Raises:
            VmatrixError: what went wrong; or nobody took them, which is the harness's fault.
        """
        self.need(self.former)
        if self.former is None:
            raise HarnessBug("nobody took credentials before the phase", hint="see credentials.are_taken_before")
        return self.former

    def need(self, what: object) -> None:
        """Raise what went wrong (a VmatrixError) when that is why something is missing."""
        if self.trouble is not None and not what:
            raise self.trouble


NO_KUBELET = "no process named kubelet runs, and product.yml does not name the address (local_api.address)"


def local_api(expected: ExpectedGuest, before: Observation | None, machine: str) -> LocalApi:
    """Return the address on one machine; without a URL where there is none that is the machine's own."""
    setting = expected.leaves.local_api
    facts = before.facts.get(machine) if before is not None else None
    kubelet = facts.kubelet if facts is not None else {}
    ca = setting.ca or kubelet.get("ca") or kubelet.get("kubeconfig", "")
    if setting.address is not None:
        return LocalApi(f"https://{setting.address}", ca)
    server = kubelet.get("server", "")
    if not server:
        return LocalApi(why=NO_KUBELET)
    if _is_local(urlsplit(server).hostname or ""):
        return LocalApi(server.rstrip("/"), ca)
    return LocalApi(why=f"its kubelet uses {server}, which is not an address of its own")


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


API = "API at a node's own address"
WORKLOAD = "workload"
KEEPS_ANSWERING = "keeps-answering"  # the value of a phase's `workload` in scenarios.yml


@dataclass
class PhaseMonitor:
    """Observes the guest before, during and after each phase of one cell.

    ssh_options: how the harness connects to a cell's machines.  ssh_command: the command that logs in to one machine
    over a separate connection; the remote command is appended.  step: opens a step of the cell's life.
    leaves: what the product says that it leaves behind.
    marks: what was written into the cluster, by the index of the phase before which it was written.
    environment: all machines of the cell, as soon as there are any.
    """

    cell: Cell
    registry: str
    timeouts: Timeouts
    leaves: ClusterLeaves
    ssh_options: Callable[[Environment], Sequence[str]]
    ssh_command: Callable[[Environment, Machine], Sequence[str]]
    step: Callable[[str], AbstractContextManager[Any]]
    records: dict[int, PhaseRecord] = field(default_factory=dict)
    marks: dict[int, str] = field(default_factory=dict)
    environment: Environment | None = None
    _bare: dict[str, MachineState] = field(default_factory=dict)
    _bare_trouble: VmatrixError | None = None

    @property
    def addresses(self) -> dict[str, str]:
        """Return the address of each machine that the cell has or had, by name."""
        pods = str(self.cell.vars.get("cluster_pod_cidr") or "")
        return {m.name: m.node_address(pods) for m in self.environment.machines} if self.environment is not None else {}

    def bare_states(self) -> dict[str, MachineState]:
        """Return each machine's whole state before its deployment, by name.

        Raises:
            VmatrixError: it could not be read.
        """
        if self._bare_trouble is not None:
            raise self._bare_trouble
        return self._bare

    def states_of(self, names: Collection[str], *, with_files: bool = True) -> dict[str, MachineState]:
        """Return the whole state of machines as it is now, on request without files, by name.

        Raises:
            InfraError: a machine does not answer.
        """
        if self.environment is None:
            return {}
        there = self.environment.only(names)
        return gather_states(open_hosts(there, self.ssh_options(there)), self.timeouts, with_files=with_files)

    def record(self, index: int) -> PhaseRecord:
        """Return what was seen of a phase; an empty record when it was not watched."""
        return self.records.get(index, PhaseRecord())

    @contextmanager
    def watch(self, index: int, environment: Environment, before: GuestCluster | None) -> Iterator[None]:
        """Watch while the body applies a phase.

        Args:
            environment: with all machines of the cell.
            before: the guest as the previous phase left it; None when there is no cluster.
        """
        record = self.records[index] = PhaseRecord()
        self.environment = environment
        stream: RequestStream | None = None
        if index == 0 and leaves_bare(self.cell):
            with self.step("look at the bare machines"):
                self._look_at_bare(environment)
        if before is not None:
            with self.step("look before the phase"):
                stream = self._prepare(index, record, before)
        began = time.monotonic()
        try:
            with ExitStack() as ending:
                if record.writer is not None:
                    ending.callback(record.writer.stop)
                yield
        except BaseException as failure:
            if stream is not None:
                stream.stop()
                if isinstance(failure, VmatrixError):
                    self._add_availability(failure, record, stream)
            raise
        record.seconds = time.monotonic() - began
        if stream is not None:
            with self.step("see the workload answer"):
                self._conclude(record, stream)

    def _look_at_bare(self, environment: Environment) -> None:
        try:
            self._bare = self.states_of([m.name for m in environment.machines])
        except VmatrixError as trouble:
            self._bare_trouble = trouble

    def _prepare(self, index: int, record: PhaseRecord, before: GuestCluster) -> RequestStream | None:
        """Look at the guest, leave a mark in it, and start the requests to the workload."""
        environment = before.environment
        options = self.ssh_options(environment)
        inspection = Inspection(before, self.leaves, ssh_options=options, timeouts=self.timeouts)
        try:
            inspection.wait_for_api()
            record.before = observe(inspection)
            mark = secrets.token_hex(8)
            leave_mark(inspection.api, self.cell.stage(index), mark)
            self.marks[index] = mark
            self._prepare_restart(index, record, inspection)
            if are_taken_before(self.cell, index):
                record.former = take_credentials(
                    inspection.api, before.kubeconfig, Deadline.after(self.timeouts.probe_pods)
                )
            if self.cell.phases[index].workload:
                return self._start_requests(index, record, inspection)
        except VmatrixError as trouble:
            record.trouble = trouble
        except NotJudged as why:
            record.unrequested = str(why)
        return None

    def _prepare_restart(self, index: int, record: PhaseRecord, inspection: Inspection) -> None:
        """Look at machines that restart; write all through a phase that cuts their power."""
        if restarts(self.cell, index):
            record.states = self.states_of(self.cell.phases[index].restarts, with_files=False)
        if power_cut(self.cell, index):
            writer = Writer(inspection.api)
            writer.start()
            record.writer = writer

    def _start_requests(self, index: int, record: PhaseRecord, inspection: Inspection) -> RequestStream:
        nodes = inspection.expected.nodes
        record.single = len(nodes) == 1
        image = inspection.probe_image(AGNHOST, self.registry)
        address = place_workload(inspection.api, image, nodes, Deadline.after(self.timeouts.probe_pods))
        environment = inspection.guest.environment
        client = client_of(self.cell, index, environment)
        record.client = client.name
        record.api = local_api(inspection.expected, record.before, client.name)
        addresses = {WORKLOAD: (f"http://{in_url(address)}/hostname", "")}
        if record.api.url:
            addresses[API] = (f"{record.api.url}/readyz", record.api.ca)
        log = environment.files.answers(self.cell.stage(index))
        log.parent.mkdir(parents=True, exist_ok=True)
        stream = send_requests(client, self.ssh_command(environment, client), addresses, log, self.timeouts)
        deadline = Deadline.after(self.timeouts.probe_pods)
        try:
            stream.wait_for_success(deadline, what=f"workload and API to answer {client.name} before the phase")
        except BaseException:
            stream.stop()
            raise
        return stream

    def _add_availability(self, failure: VmatrixError, record: PhaseRecord, stream: RequestStream) -> None:
        """Add to a phase's failure how available the addresses were meanwhile."""
        limits = {WORKLOAD: None if record.single else self.timeouts.workload_outage, API: self.timeouts.api_outage}
        availability = read_availability(stream.output())
        lines = [
            f"meanwhile {availability[name].summary(limit)}" for name, limit in limits.items() if name in availability
        ]
        failure.detail = "\n".join(filter(None, (failure.detail, *lines)))

    def _conclude(self, record: PhaseRecord, stream: RequestStream) -> None:
        """Wait for both to answer again, then stop the requests."""
        try:
            deadline = Deadline.after(self.timeouts.settle)
            stream.wait_for_success(deadline, what="workload and API to answer after the phase", since_now=True)
        except VmatrixError as trouble:
            record.trouble = trouble
        finally:
            stream.stop()
        record.availability = read_availability(stream.output())


def leaves_bare(cell: Cell) -> bool:
    """Tell whether a phase of the cell leaves machines as they were before their deployment."""
    return any(not phase.cluster or (phase.removed and not phase.deletes) for phase in cell.phases)


def client_of(cell: Cell, index: int, environment: Environment) -> Machine:
    """Return the machine that sends requests during a phase: a node that stays, a worker if there is one."""
    phase = cell.phases[index]
    stay = [m for m in environment.machines if m.name not in (*phase.removed, *phase.lost, *phase.restarts)]
    nodes = [m for m in stay if {"node", "control_plane"} & set(m.groups)]
    return next((m for m in nodes if "control_plane" not in m.groups), nodes[0])
