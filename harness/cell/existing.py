"""Cells that exist in the infra cluster, found by label: which there are, and the machines of one of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from harness.cell.finalizers import DECLARED_KINDS
from harness.cell.machines import SSH_PORT
from harness.cell.place import LABEL_PROJECT, Place, expired, is_label_value, place_of, selector_of
from harness.errors import BadInput
from harness.kube.client import ApiFailure, Cluster, Infra, Json
from harness.kube.resources import DATA_VOLUME, NAMESPACE, NETWORK_POLICY, VM, VMI, Resource
from harness.machines.kubevirt.launchers import address_of, ipv6_address_of, launcher_address, launcher_pod
from harness.machines.reach import ssh
from harness.machines.reach.portforward import Tunnels, bridge, forwarding, leave, open_tunnel
from harness.model import (
    ANNOTATION_USER,
    LABEL_ATTEMPT,
    LABEL_CELL,
    LABEL_EXPIRES,
    LABEL_MACHINE,
    LABEL_MANAGED,
    LABEL_RUN,
    MANAGED_BY,
    Machine,
    PlannedMachine,
)
from harness.rundir import AttemptDir, RunDir

MADE = (VM, DATA_VOLUME, NETWORK_POLICY)  # identify a cell in a namespace that cells share


@dataclass(frozen=True)
class ExistingCell:
    """A cell that exists in the infra cluster.

    expires_at: when anyone may take it away, in seconds since the epoch; None: its label does not say, so never.
    shared: whether its namespace is shared with other cells.  declared: whether its product's objects are in it.
    """

    namespace: str
    run: str
    cell: str
    attempt: int
    expires_at: float | None
    phase: str
    shared: bool = False
    declared: bool = False

    @property
    def selector(self) -> str:
        """Return the label selector of its objects, "" where it has a separate namespace."""
        return selector_of(self.run, self.cell, self.attempt) if self.shared else ""

    @property
    def what(self) -> str:
        """Return what is deleted with it, for a person."""
        own = f"namespace {self.namespace}"
        return f"{self.cell} of run {self.run} in {own}" if self.shared else own


@dataclass(frozen=True)
class CellSelector:
    """Which cells: of a run, of a cell id, only expired ones, or all; never those in `besides`.

    namespace: the one that cells share; None: each has a separate one.
    project: of a CI whose jobs made them; None: of any, or of none.
    """

    run: str | None = None
    cell: str | None = None
    only_expired: bool = False
    besides: frozenset[str] = frozenset()
    namespace: str | None = None
    project: str | None = None

    def labels(self) -> str:
        """Return the label selector."""
        own = {LABEL_RUN: self.run, LABEL_CELL: self.cell, LABEL_PROJECT: self.project}
        pairs = [f"{label}={value}" for label, value in ({LABEL_MANAGED: MANAGED_BY} | own).items() if value]
        return ",".join([*pairs, *([] if self.cell else [LABEL_CELL])])


def find(cluster: Cluster, selector: CellSelector) -> list[ExistingCell]:
    """Return the selected cells, oldest first."""
    where = selector.namespace
    kinds = (NAMESPACE,) if where is None else MADE
    objects = [obj for kind in kinds for obj in _listed(cluster, kind, where, selector.labels())]
    objects.sort(key=lambda n: str(n["metadata"].get("creationTimestamp", "")))
    chosen = [n for n in objects if not selector.only_expired or expired(n["metadata"].get("labels") or {})]
    cells = (_cell_of(obj, where) for obj in reversed(chosen))
    newest = {(cell.run, cell.cell, cell.attempt): cell for cell in cells}
    return [cell for cell in reversed(newest.values()) if cell.cell not in selector.besides]


def _listed(cluster: Cluster, kind: Resource, namespace: str | None, labels: str) -> list[Json]:
    """Return a cell's objects of a kind; whoever may not look at policies, of an older role, has made none."""
    try:
        return cluster.list(kind, namespace, labels=labels).items
    except ApiFailure as failure:
        if kind is NETWORK_POLICY and failure.forbidden:
            return []
        raise


def _cell_of(obj: Json, shared: str | None) -> ExistingCell:
    labels = obj["metadata"].get("labels") or {}
    return ExistingCell(
        namespace=obj["metadata"]["name"] if shared is None else shared,
        run=labels.get(LABEL_RUN, ""),
        cell=labels.get(LABEL_CELL, ""),
        attempt=int(_number(labels, LABEL_ATTEMPT) or 1),
        expires_at=_number(labels, LABEL_EXPIRES),
        phase=(obj.get("status") or {}).get("phase", "") if shared is None else "",
        shared=shared is not None,
        declared=shared is None and DECLARED_KINDS in (obj["metadata"].get("annotations") or {}),
    )


def _number(labels: Json, label: str) -> float | None:
    """Return the number of a label; None without one, and where somebody has written something else."""
    try:
        number = float(labels[label])
    except (KeyError, ValueError):
        return None
    return number if isfinite(number) else None


@dataclass(frozen=True)
class InfraAccess:
    """The infra cluster and how its machines are reached.

    at: where the cluster is.
    namespace: the one that cells share; None: each has its own.
    access: `direct` or `portforward`; None: as each cell was made.
    """

    cluster: Cluster
    at: Infra
    namespace: str | None = None
    access: str | None = None


@dataclass(frozen=True)
class Existing:
    """An attempt at a cell that exists: where its objects lie, and its files, if its run was started here.

    others: further runs that have the same cell, oldest first.
    """

    infra: InfraAccess
    cell: str
    place: Place
    files: AttemptDir
    run: str = ""
    number: int = 1
    others: tuple[str, ...] = ()

    @property
    def which(self) -> str:
        """Say which cell this is, for a person, and how another one of that id is named."""
        name = f"cell {self.cell} of run {self.run}, attempt {self.number}"
        return f"{name}; --run names one of the others: {', '.join(self.others)}" if self.others else name

    def instances(self) -> dict[str, Json]:
        """Return the VirtualMachineInstances of the cell's machines, by the machines' names."""
        vmis = self.infra.cluster.list(VMI, self.place.namespace, labels=self.place.selector).items
        return {_machine_of(vmi): vmi for vmi in vmis}

    def instance(self, machine: str) -> Json:
        """Return a machine's VirtualMachineInstance. Raises BadInput when it has none."""
        instances = self.instances()
        if machine not in instances:
            names = ", ".join(sorted(instances)) or "none"
            raise BadInput(f"cell {self.cell} has no running machine {machine!r}", hint=f"running machines: {names}")
        return instances[machine]

    def machine(self, name: str) -> Machine:
        """Return a machine as SSH reaches it. Raises BadInput when it is not running, or has no address yet."""
        vmi = self.instance(name)
        pod, own = launcher_pod(self.infra.cluster, self.place.namespace, vmi), vmi["metadata"]["name"]
        address = address_of(pod)
        if not address:
            raise BadInput(f"machine {name} has no address yet", hint="`vmatrix status` shows its state")
        vm = self.infra.cluster.get(VM, own, self.place.namespace) or {"metadata": {}}
        user = (vm["metadata"].get("annotations") or {}).get(ANNOTATION_USER, "debian")
        planned = PlannedMachine(_machine_of(vmi), (), 0, 0, 0, "")
        return Machine(planned, address, SSH_PORT, user, self.tunnels(), ipv6_address=ipv6_address_of(pod))

    def tunnels(self) -> Path | None:
        """Return the updated file of tunnels through the infra cluster's API; None: machines are reached directly."""
        recorded = self.files.tunnels
        if (self.infra.access or ("portforward" if recorded.is_file() else "direct")) == "direct":
            return None
        addresses = {vmi["metadata"]["name"]: self._address(vmi) for vmi in self.instances().values()}
        instances = {address: name for name, address in addresses.items() if address}
        log = self.files.tunnels_log
        log.parent.mkdir(parents=True, exist_ok=True)
        at = self.infra.at.absolute()
        way = Tunnels(at.kubeconfig, at.context, self.place.namespace, instances, log)
        if recorded.is_file():
            way = replace(way, open_seconds=Tunnels.load(recorded).open_seconds)
        way.save(recorded)
        return recorded

    def file(self, path: Path, what: str) -> Path:
        """Return one of the cell's files. Raises BadInput when it does not exist on this machine."""
        if not path.is_file():
            raise BadInput(
                f"{what} {path} is not on this machine",
                hint="use the machine and directory that the run was started in, or set VMATRIX_RUNS",
            )
        return path

    def connect(self, machine: str, port: int, source: int, sink: int) -> None:
        """Connect two file descriptors to a machine's TCP port through the infra cluster's API, until either ends."""
        with leaving_on_signals(signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            name = self.instance(machine)["metadata"]["name"]
            bridge(open_tunnel(self.infra.cluster, self.place.namespace, name, port), source, sink)

    @contextmanager
    def guest_api(self) -> Iterator[Path]:
        """Give a kubeconfig of the guest cluster that works as long as the body runs."""
        own = self.file(self.files.kubeconfig, "the guest's kubeconfig")
        tunnels = self.tunnels()
        if tunnels is None:
            yield own
            return
        with leaving_on_signals(signal.SIGHUP, signal.SIGTERM), forwarding(Tunnels.load(tunnels)) as forwarder:
            made = ssh.through(own, forwarder.url, self.files.proxied(str(os.getpid())))
            try:
                yield made
            finally:
                made.unlink(missing_ok=True)

    def _address(self, vmi: Json) -> str:
        return launcher_address(self.infra.cluster, self.place.namespace, vmi)


@dataclass(frozen=True)
class MachineState:
    """A machine of a cell that exists, as `vmatrix status` shows it; "-" where something is not known."""

    name: str
    status: str
    address: str


def existing(infra: InfraAccess, cell: str, runs: Path, run: str | None = None) -> Existing:
    """Find the newest attempt at a cell.

    Args:
        runs: directory of run results, for the files of the cell.
        run: the run that the attempt is of; None: the newest of all runs.

    Raises:
        BadInput: none exists, or one of the words is not an id.
    """
    for what, word in (("cell", cell), ("run", run)):
        if word is not None and not is_label_value(word):
            raise BadInput(f"{word!r} is not a {what} id", hint="`vmatrix status` shows the ids of cells and runs")
    everywhere = find(infra.cluster, CellSelector(cell=cell, namespace=infra.namespace))
    attempts = [attempt for attempt in everywhere if run in (None, attempt.run)]
    if not attempts:
        raise _absent(infra, cell, run, everywhere)
    newest = attempts[-1]
    others = tuple(dict.fromkeys(attempt.run for attempt in everywhere if attempt.run != newest.run))
    place = place_of(newest.run, newest.cell, newest.attempt, shared=infra.namespace)
    files = RunDir.of(runs, newest.run).attempt(cell, newest.attempt)
    return Existing(infra, cell, place, files, newest.run, newest.attempt, others)


def _absent(infra: InfraAccess, cell: str, run: str | None, elsewhere: Sequence[ExistingCell]) -> BadInput:
    """Return the error about a cell that does not exist, with the runs of which there are cells."""
    if run is None:
        return BadInput(f"cell {cell!r} does not exist in the infra cluster", hint="`vmatrix status` lists the cells")
    summary = f"cell {cell!r} of run {run} does not exist in the infra cluster"
    if elsewhere:
        return BadInput(
            summary, hint=f"runs that have this cell: {', '.join(dict.fromkeys(other.run for other in elsewhere))}"
        )
    there = find(infra.cluster, CellSelector(namespace=infra.namespace))
    names = ", ".join(dict.fromkeys(other.run for other in there)) or "none"
    return BadInput(summary, hint=f"runs that have cells: {names}; `vmatrix status` lists the cells")


def machine_states(cluster: Cluster, cell: ExistingCell) -> list[MachineState]:
    """Return the state of each machine of a cell."""
    vmis = {v["metadata"]["name"]: v for v in cluster.list(VMI, cell.namespace, labels=cell.selector).items}
    states = []
    for vm in cluster.list(VM, cell.namespace, labels=cell.selector).items:
        vmi = vmis.get(vm["metadata"]["name"])
        address = launcher_address(cluster, cell.namespace, vmi) if vmi is not None else ""
        status = (vm.get("status") or {}).get("printableStatus", "")
        states.append(MachineState(_machine_of(vm), status, address or "-"))
    return states


def _machine_of(obj: Json) -> str:
    """Return the name, within its cell, of the machine that an object belongs to."""
    meta = obj["metadata"]
    return str((meta.get("labels") or {}).get(LABEL_MACHINE, meta["name"]))


@contextmanager
def leaving_on_signals(*numbers: signal.Signals) -> Iterator[None]:
    """Let signals end the process by an exception as long as the body runs, so that what it opened is closed."""
    before = {number: signal.signal(number, leave) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
