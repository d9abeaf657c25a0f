"""Who looks on while a cell's phases go by: what was there before each, what answered during it, data that must last.

Nothing that goes wrong here ends a phase: it is kept, and the check that needs what is missing fails with it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from harness.errors import HarnessBug, InfraError, VmatrixError
from harness.model import Cell, Environment, GuestCluster, Machine
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.conformance.curated import AGNHOST
from harness.validate.facts.availability import Availability, read_answers
from harness.validate.inspection import Inspection
from harness.validate.phases import data, workload
from harness.validate.phases.machine_state import State, gather_states
from harness.validate.phases.observation import Observation, observe
from harness.validate.remote.availability import RequestStream, ask_from
from harness.validate.remote.hosts import open_hosts

API = "API at a node's own address"
WORKLOAD = "workload"
KEEPS_ANSWERING = "keeps-answering"  # what scenarios.yml says of a phase's workload
API_URL = "https://127.0.0.1:6445/readyz"
CA = "/etc/kubernetes/pki/ca.crt"


@dataclass
class PhaseRecord:
    """What was seen of one phase: of what was not seen, `trouble` says why.

    before: the guest when the phase began.  answers: by name, what was asked during it.
    asker: the machine from which it was asked.  seconds: how long the phase took.
    single: whether the workload had but one node.
    """

    before: Observation | None = None
    answers: Mapping[str, Availability] = field(default_factory=dict)
    asker: str = ""
    seconds: float = 0.0
    single: bool = False
    trouble: VmatrixError | None = None

    def of(self, name: str) -> Availability:
        """Return what one address answered.

        Raises:
            VmatrixError: what went wrong; or it was never asked, which is the harness's fault.
        """
        if isinstance(self.trouble, InfraError):  # nobody asked to the end
            raise self.trouble
        self.need(self.answers)
        if name not in self.answers:
            raise HarnessBug(
                f"{name} was never asked during the phase", hint="the scenario says that it keeps answering"
            )
        return self.answers[name]

    def need(self, what: object) -> None:
        """Raise what went wrong, if that is why something is missing.

        Raises:
            VmatrixError: with the blame of what went wrong.
        """
        if self.trouble is not None and not what:
            raise self.trouble


@dataclass
class Witness:
    """One cell's witness.

    ssh_options: how the harness connects to a cell's machines.  ssh_command: the command that logs in to one machine
    over a connection of its own; the remote command is appended.  step: opens a step of the cell's life.
    marks: what was written into the cluster, by the index of the phase before which it was.
    environment: all machines of the cell, as soon as there are any.
    """

    cell: Cell
    registry: str
    timeouts: Timeouts
    ssh_options: Callable[[Environment], Sequence[str]]
    ssh_command: Callable[[Environment, Machine], Sequence[str]]
    step: Callable[[str], AbstractContextManager[Any]]
    records: dict[int, PhaseRecord] = field(default_factory=dict)
    marks: dict[int, str] = field(default_factory=dict)
    environment: Environment | None = None
    _bare: dict[str, State] = field(default_factory=dict)
    _bare_trouble: VmatrixError | None = None

    @property
    def addresses(self) -> dict[str, str]:
        """Return the address of each machine that the cell has or had, by name."""
        return {m.name: m.address for m in self.environment.machines} if self.environment is not None else {}

    def bare_states(self) -> dict[str, State]:
        """Return each machine's whole state before its deployment, by name.

        Raises:
            VmatrixError: it could not be had.
        """
        if self._bare_trouble is not None:
            raise self._bare_trouble
        return self._bare

    def states_of(self, names: Collection[str]) -> dict[str, State]:
        """Return the whole state of machines as it is now, by name.

        Raises:
            InfraError: a machine does not answer.
        """
        if self.environment is None:
            return {}
        there = self.environment.only(names)
        return gather_states(open_hosts(there, self.ssh_options(there)))

    def record(self, index: int) -> PhaseRecord:
        """Return what was seen of a phase; an empty record when nobody looked."""
        return self.records.get(index, PhaseRecord())

    @contextmanager
    def watch(self, index: int, environment: Environment, before: GuestCluster | None) -> Iterator[None]:
        """Look on while the body applies a phase.

        Args:
            environment: with all machines of the cell.
            before: the guest as the phase before left it; None when there is no cluster yet or any more.
        """
        record = self.records[index] = PhaseRecord()
        self.environment = environment
        asking: RequestStream | None = None
        if index == 0 and leaves_bare(self.cell):
            with self.step("look at the bare machines"):
                self._look_at_bare(environment)
        if before is not None:
            with self.step("look before the phase"):
                asking = self._prepare(index, record, before)
        began = time.monotonic()
        try:
            yield
        except BaseException as failure:
            if asking is not None:
                asking.stop()
                if isinstance(failure, VmatrixError):
                    self._tell(failure, record, asking)
            raise
        record.seconds = time.monotonic() - began
        if asking is not None:
            with self.step("see the workload answer"):
                self._conclude(record, asking)

    def _look_at_bare(self, environment: Environment) -> None:
        try:
            self._bare = self.states_of([m.name for m in environment.machines])
        except VmatrixError as trouble:
            self._bare_trouble = trouble

    def _prepare(self, index: int, record: PhaseRecord, before: GuestCluster) -> RequestStream | None:
        """See the guest, leave a mark in it, and have the workload answer."""
        environment = before.environment
        options = self.ssh_options(environment)
        inspection = Inspection(before, ssh_options=options, settle_seconds=self.timeouts.settle)
        try:
            inspection.wait_for_api()
            record.before = observe(inspection)
            mark = secrets.token_hex(8)
            data.leave(inspection.api, self.cell.stage(index), mark)
            self.marks[index] = mark
            if self.cell.phases[index].workload:
                return self._ask(index, record, inspection)
        except VmatrixError as trouble:
            record.trouble = trouble
        return None

    def _ask(self, index: int, record: PhaseRecord, inspection: Inspection) -> RequestStream:
        nodes = inspection.expected.nodes
        record.single = len(nodes) == 1
        image = f"{self.registry}/{inspection.curated.images[AGNHOST]}"
        address = workload.place(inspection.api, image, nodes, Deadline.after(self.timeouts.probe_pods))
        environment = inspection.guest.environment
        asker = asker_of(self.cell, index, environment)
        record.asker = asker.name
        questions = {WORKLOAD: (f"http://{address}/hostname", ""), API: (API_URL, CA)}
        log = environment.files.answers(self.cell.stage(index))
        log.parent.mkdir(parents=True, exist_ok=True)
        asking = ask_from(asker, self.ssh_command(environment, asker), questions, log)
        deadline = Deadline.after(self.timeouts.probe_pods)
        try:
            asking.wait_for_good_answers(deadline, what=f"workload and API answer {asker.name} before the phase")
        except BaseException:
            asking.stop()
            raise
        return asking

    def _tell(self, failure: VmatrixError, record: PhaseRecord, asking: RequestStream) -> None:
        """Add to a phase's failure what was answered meanwhile."""
        bounds = {WORKLOAD: None if record.single else self.timeouts.workload_outage, API: self.timeouts.api_outage}
        answers = read_answers(asking.said())
        told = [f"meanwhile {answers[name].told(bound)}" for name, bound in bounds.items() if name in answers]
        failure.detail = "\n".join(filter(None, (failure.detail, *told)))

    def _conclude(self, record: PhaseRecord, asking: RequestStream) -> None:
        """Wait until both answer again, then stop asking."""
        try:
            asking.wait_for_good_answers(
                Deadline.after(self.timeouts.settle), what="workload and API answer after the phase", since_now=True
            )
        except VmatrixError as trouble:
            record.trouble = trouble
        finally:
            asking.stop()
        record.answers = read_answers(asking.said())


def leaves_bare(cell: Cell) -> bool:
    """Tell whether a phase of the cell leaves machines as they were before their deployment."""
    return any(not phase.cluster or phase.removed for phase in cell.phases)


def asker_of(cell: Cell, index: int, environment: Environment) -> Machine:
    """Return the machine from which is asked during a phase: a node that stays, best one that is no control plane."""
    phase = cell.phases[index]
    stay = [m for m in environment.machines if m.name not in (*phase.removed, *phase.lost)]
    nodes = [m for m in stay if {"node", "control_plane"} & set(m.groups)]
    return next((m for m in nodes if "control_plane" not in m.groups), nodes[0])
