"""A cell that exists: its newest attempt in the infra cluster, its machines, and how to connect to them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cell.found import CellSelector, Found, find
from harness.cell.machines import SSH_PORT
from harness.cell.place import Place, place_of
from harness.errors import BadInput
from harness.kube.bridge import bridge
from harness.kube.client import Cluster, Json
from harness.kube.forwarder import forwarding
from harness.kube.portforward import open_tunnel
from harness.kube.resources import VM, VMI
from harness.kube.tunnels import Tunnels, leave
from harness.machines import ways
from harness.machines.kubevirt.launchers import address_of, ipv6_address_of, launcher_address, launcher_pod
from harness.model import ANNOTATION_USER, LABEL_MACHINE, Machine, PlannedMachine
from harness.rundir import AttemptDir, RunDir


@dataclass(frozen=True)
class InfraAccess:
    """The infra cluster and how its machines are reached.

    kubeconfig, context: lead to the cluster; None: the current context.
    namespace: the one that cells share; None: each has its own.
    access: `direct` or `portforward`; None: as each cell was made.
    """

    cluster: Cluster
    kubeconfig: Path
    context: str | None = None
    namespace: str | None = None
    access: str | None = None


@dataclass(frozen=True)
class Existing:
    """The newest attempt at a cell that exists: where its objects lie, and its files, if its run was started here."""

    infra: InfraAccess
    cell: str
    place: Place
    files: AttemptDir
    run: str = ""
    number: int = 1

    def instances(self) -> dict[str, Json]:
        """Return the VirtualMachineInstances of the cell's machines, by the machines' names."""
        found = self.infra.cluster.list(VMI, self.place.namespace, labels=self.place.selector).items
        return {_machine_of(vmi): vmi for vmi in found}

    def instance(self, machine: str) -> Json:
        """Return a machine's VirtualMachineInstance. Raises BadInput when it has none."""
        found = self.instances()
        if machine not in found:
            names = ", ".join(sorted(found)) or "none"
            raise BadInput(f"cell {self.cell} has no running machine {machine!r}", hint=f"running machines: {names}")
        return found[machine]

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
        way = Tunnels(self.infra.kubeconfig.absolute(), self.infra.context, self.place.namespace, instances, log)
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
            made = ways.through(own, forwarder.url, self.files.proxied(str(os.getpid())))
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


def existing(infra: InfraAccess, cell: str, runs: Path) -> Existing:
    """Find the newest attempt at a cell.

    Args:
        runs: directory of run results, for the files of the cell.

    Raises:
        BadInput: none exists.
    """
    found = find(infra.cluster, CellSelector(cell=cell, namespace=infra.namespace))
    if not found:
        raise BadInput(f"cell {cell!r} does not exist in the infra cluster", hint="`vmatrix status` lists the cells")
    newest = found[-1]
    place = place_of(newest.run, newest.cell, newest.attempt, shared=infra.namespace)
    files = RunDir.of(runs, newest.run).attempt(cell, newest.attempt)
    return Existing(infra, cell, place, files, newest.run, newest.attempt)


def machine_states(cluster: Cluster, cell: Found) -> list[MachineState]:
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
