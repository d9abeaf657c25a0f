"""A cell's whole life as four idempotent verbs: provision, apply a phase, collect, tear down; each a recorded step."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.cell import diagnose, provision
from harness.cell.existing import CellSelector
from harness.cell.machine_restarts import Restarts
from harness.cell.machines import UsageWatch, changes, sight
from harness.cell.place import selector_of
from harness.cell.product.protocol import PhaseOutcome, PhaseRun
from harness.cell.site import Site
from harness.cell.steps import Steps, flatten
from harness.cell.teardown import destroy, reap
from harness.cell.variables import variables_of
from harness.errors import BadInput, Blame, HarnessBug, InfraError, InfraRetriable, ProductError, VmatrixError
from harness.kube.client import Cluster
from harness.machines import inventory
from harness.machines.kubevirt.launchers import Sighting
from harness.machines.reach import ssh
from harness.machines.reach.portforward import Forwarder, Tunnels
from harness.machines.reach.ssh import close_connections, control_directory, run_on
from harness.model import Cell, Environment, GuestCluster, Machine, Phase
from harness.pressure import READ, Pressure, of_text, this_host
from harness.until import Deadline

LOOK_SECONDS = 20.0  # for a machine's answer; one that has none is left out


def of_machines(machines: Sequence[Machine], private_key: Path) -> list[Pressure]:
    """Return the pressure of every machine that answers."""

    def ask(machine: Machine) -> Pressure | None:
        try:
            done = run_on(machine, READ, private_key=private_key, timeout=LOOK_SECONDS)
        except VmatrixError:  # what cannot be asked explains nothing
            return None
        return of_text(machine.name, done.stdout) if done.returncode == 0 else None

    if not machines:
        return []
    with ThreadPoolExecutor(len(machines)) as pool:
        return [answer for answer in pool.map(ask, machines) if answer is not None]


def overload(machines: Sequence[Machine], private_key: Path) -> str:
    """Say where a cluster could not be in time, "" where it could; this host is asked first."""
    own = this_host()
    if own.too_high:
        return str(own)
    return "; ".join(str(pressure) for pressure in of_machines(machines, private_key) if pressure.too_high)


BUSY = 1.0  # load for each processor from which a host is busy

# Looks on while a phase is applied: its index, all machines, and the guest before it (None when there is no cluster).
Watch = Callable[[int, Environment, GuestCluster | None], AbstractContextManager[None]]
START_OVER = "start over"  # the step between two attempts
MOST_ATTEMPTS = 2  # of provisioning, and of nothing else


@dataclass
class Life:
    """One attempt at a cell. A verb that succeeded is not repeated; one that failed fails again the same way."""

    site: Site
    attempt: provision.Attempt
    steps: Steps
    measured: bool = False  # whether nodes are asked what the machines take
    on_task: Callable[[str], None] = lambda _: None
    watch: Watch = lambda _index, _machines, _before: nullcontext()
    environment: Environment | None = None
    guests: list[GuestCluster] = field(default_factory=list)
    failure: VmatrixError | None = None
    torn_down: bool = False
    kept: bool = False  # on request: nothing of it is taken away
    attempts: int = 1  # of provisioning, in this life
    sightings: tuple[Sighting, ...] = ()  # of the machines as they came up
    checks_failed: list[str] = field(default_factory=list)
    _forwarder: Forwarder | None = None
    _held: ExitStack = field(default_factory=ExitStack)  # its folder on this host
    _usage: UsageWatch | None = None

    @property
    def cell(self) -> Cell:
        """Return the cell."""
        return self.attempt.cell

    @property
    def failed(self) -> bool:
        """Tell whether a step or a check has failed."""
        return self.failure is not None or bool(self.checks_failed)

    def provision(self) -> Environment:
        """Make the machines. Raises VmatrixError when they cannot be had; said again at each further call."""
        if self.environment is None:
            try:
                self.environment = self._provision()
            except InfraRetriable:
                if self.attempts >= MOST_ATTEMPTS:
                    raise
                self._start_over()
                self.environment = self._provision()
        return self.environment

    def _provision(self) -> Environment:
        owner = ssh.Owner(self.site.infra_id, time.time() + self.site.expiry_hours * 3600)
        self._held.enter_context(ssh.held(self._folder, owner))
        made: Environment = self._step("provision", lambda: provision.provision(self.site, self.attempt, self.steps))
        self.sightings = sight(self.site.cluster, self.attempt.place, made.machines)
        self._tell_place()
        if self.measured:
            self._usage = UsageWatch(self.site.cluster, self.sightings).start()
        return made

    def _tell_place(self) -> None:
        """Write down where the cell runs and how busy its host is, which may explain a failure that no value does."""
        nodes = sorted({sighting.node for sighting in self.sightings if sighting.node})
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
        around = {**{f"node {node}": "used" for node in nodes}, "host load": "high" if load > BUSY else "usual"}
        self.steps.recorder.write("placed", cell=self.cell.id, attempt=self.attempt.number, around=around)

    def _tell_usage(self) -> None:
        """Write down what the machines took, and look no more."""
        if self._usage is None:
            return
        usage, self._usage = self._usage.stop(), None
        asked = self.attempt.asked
        known = {m.name: {"memory": m.memory_mib, "asked": asked.get(m.name, 0)} for m in self.cell.machines}
        took = {name: {**known.get(name, {}), **used} for name, used in usage.items()}
        if took:
            self.steps.recorder.write("usage", cell=self.cell.id, attempt=self.attempt.number, took=took)

    @property
    def _folder(self) -> Path:
        """Return the cell's folder of SSH sockets on this host."""
        return control_directory(self.attempt.run, self.cell.id)

    def _start_over(self) -> None:
        """Go on in a fresh namespace; the first attempt's traces stay in the report and in its directory."""
        with self.steps.step(START_OVER):
            self.collect()
            self.teardown()
        self.attempts += 1
        self.attempt = self.attempt.next(self.failure)
        self.steps.attempt = self.attempt.number
        self.failure, self.torn_down = None, False

    def apply(self, index: int) -> GuestCluster:
        """Run a phase of the product, and before it every phase that has not been run yet.

        Raises:
            VmatrixError: it failed; said again at each further call.
        """
        while len(self.guests) <= index:
            environment = self.provision()
            number = len(self.guests)
            self.guests.append(self._step(self.cell.stage(number), partial(self._watched, environment, number)))
            if self._usage is not None and number == 0:
                self._usage.deployed()
        return self.guests[index]

    def again(self, index: int) -> PhaseOutcome:
        """Run the phase that was run last once more, and say what it changed by its own account.

        Raises:
            VmatrixError: it failed; whose fault that is.
        """
        stage = self.cell.stage(index)
        if len(self.guests) > index + 1:
            raise HarnessBug(f"{stage} cannot be run again: later phases have been run")
        guest = self.apply(index)
        environment = (self.environment or guest.environment).only(self.cell.phases[index].machines)
        there = {machine.name for machine in guest.environment.machines}
        with self.steps.step(f"{stage} again"):
            phase_run = self._phase_run(index, environment, dict(guest.expected), again=True)
            try:
                outcome = self.site.kind_of(self.cell).run(phase_run)
            except VmatrixError as failure:
                self._excuse(failure, there, f"during the second run of {stage}")
                raise
        with suppress(FileNotFoundError):
            self.attempt.files.kubeconfig.chmod(0o600)  # the product may have written it anew
        return outcome

    def join(self, environment: Environment, index: int, variables: Mapping[str, Any]) -> None:
        """Take over a cell that another process has made, as it is after a phase.

        Args:
            environment: the machines that are there.  variables: those of the phase.
        """
        self.environment = environment
        self.sightings = sight(self.site.cluster, self.attempt.place, environment.machines)
        kubeconfig = self._reached(environment, self.attempt.files.kubeconfig)
        self.guests = [GuestCluster(environment, kubeconfig, variables)] * (index + 1)

    def leave(self) -> None:
        """Let go of a cell that stays as it is."""
        if self._forwarder is not None:
            self._forwarder.close()
            self._forwarder = None

    def _watched(self, whole: Environment, index: int) -> GuestCluster:
        before = self.guests[index - 1] if index and self.cell.phases[index - 1].cluster else None
        phase, stage = self.cell.phases[index], self.cell.stage(index)
        there = set(phase.machines) - set(phase.lost)
        if changed := self.machines_changed(there):
            raise self._not_the_products(changed, f"before the phase {stage}")
        try:
            with self.watch(index, whole, before):
                return self._apply(whole, index)
        except VmatrixError as failure:
            self._excuse(failure, there, f"during the phase {stage}")
            raise

    def machines_changed(self, names: Collection[str]) -> str:
        """Say which of some machines are not what they were when they came up; "" when all are, or nobody can tell."""
        if not self.sightings:
            return ""
        try:
            return "; ".join(changes(self.site.cluster, self.attempt.place, self.sightings, names))
        except VmatrixError:  # an API in trouble hides no failure of something else
            return ""

    def _excuse(self, failure: VmatrixError, there: Collection[str], when: str) -> None:
        """Raise an InfraError where something else than the product explains a failure of a phase."""
        if changed := self.machines_changed(there):
            raise self._not_the_products(changed, when, failure) from failure
        if failure.blame is Blame.PRODUCT and (busy := self.overload()):
            raise InfraRetriable(
                f"the host was too busy {when}: {busy}",
                hint="not judged: run fewer cells at a time (--parallel), or where nothing else runs",
                paths=failure.paths,
                detail=f"what failed then: {failure}\n{failure.detail}".strip(),
            ) from failure

    def overload(self) -> str:
        """Say where machines, or this host, were too busy for a cluster to be in time; "" where they were not."""
        there = self.environment
        return overload(there.machines, there.private_key) if there is not None else overload((), Path())

    def _not_the_products(self, changed: str, when: str, failure: VmatrixError | None = None) -> InfraError:
        return InfraError(
            f"the infra cluster changed machines {when}: {changed}",
            hint="not the product's fault: run the cell again; if it recurs, look at that node's evictions and memory",
            paths=failure.paths if failure is not None else (),
            detail=f"what failed then: {failure}\n{failure.detail}".strip() if failure is not None else "",
        )

    def _apply(self, whole: Environment, index: int) -> GuestCluster:
        phase = self.cell.phases[index]
        environment = whole.only(phase.machines)
        self._lose(phase)
        kubeconfig = self.attempt.files.kubeconfig
        variables = variables_of(self.site, environment, phase)
        inventory.write(environment, variables, self.site.product_of(self.cell))
        if phase.restart:
            reached = self._reached(environment, kubeconfig)
            Restarts(self.site, self.attempt.place, environment, reached, self.on_task).run(phase)
        else:
            self._run_product(index, environment, variables)
        left = tuple(name for name in phase.machines if name not in (*phase.removed, *phase.lost))
        reached = self._reached(environment, kubeconfig) if phase.cluster else kubeconfig
        return GuestCluster(environment=environment.only(left), kubeconfig=reached, expected=variables)

    def _run_product(self, index: int, environment: Environment, variables: dict[str, Any]) -> None:
        """Run a phase of the product, and see that it has done something."""
        phase, files = self.cell.phases[index], self.attempt.files
        phase_run = self._phase_run(index, environment, variables)
        outcome = self.site.kind_of(self.cell).run(phase_run)
        self._refuse_nothing_done(outcome, phase_run)
        if phase.cluster:
            self._refuse_no_kubeconfig(outcome, phase_run)
            files.kubeconfig.chmod(0o600)  # whoever reads it is the cluster's admin, and most products write it for all
        else:  # it opens nothing any more, and must not pass for that of a cluster which comes after
            files.kubeconfig.unlink(missing_ok=True)

    def _phase_run(
        self, index: int, environment: Environment, variables: dict[str, Any], *, again: bool = False
    ) -> PhaseRun:
        timeouts, stage, outer = self.site.timeouts, self.cell.stage(index), self.site.outer
        phase = self.cell.phases[index]
        if again and outer is not None:
            outer = replace(outer, blows=())
        return PhaseRun(
            phase=phase,
            stage=stage,
            environment=environment,
            variables=variables,
            timeout=timeouts.phase_later if index else timeouts.phase_deploy,
            log=self.attempt.files.log(f"{stage}-again" if again else stage),
            on_task=self.on_task,
            outer=outer,
            guest=self._reached(environment, self.attempt.files.kubeconfig) if phase.delivery_into else None,
            again=again,
        )

    def _reached(self, environment: Environment, kubeconfig: Path) -> Path:
        """Return a kubeconfig by which this process, and what it starts, reaches the guest's API."""
        if environment.tunnels is None:
            return kubeconfig
        if self._forwarder is None:
            self._forwarder = Forwarder(Tunnels.load(environment.tunnels))
        return ssh.through(kubeconfig, self._forwarder.url, self.attempt.files.proxied())

    def _lose(self, phase: Phase) -> None:
        """Destroy the machines that the phase has to do without: at once, as a broken host would."""
        if phase.lost:
            with self.steps.step("lose machines") as step:
                step.note(machines=list(phase.lost))
                if provision.by_product(self.site, self.cell):
                    provision.destroy(self.site, self.attempt.namespace, phase.lost)
                    return
                deadline = Deadline.after(self.site.timeouts.teardown)
                lost = selector_of(self.attempt.run, self.cell.id, self.attempt.number, phase.lost)
                destroy(self.site.cluster, self.attempt.namespace, lost, deadline=deadline)

    def _refuse_nothing_done(self, outcome: PhaseOutcome, phase_run: PhaseRun) -> None:
        """Tell a phase that matched no machine from one that worked: a deployment is about all of them."""
        phase, touched = phase_run.phase, outcome.touched
        if touched is None:
            return
        missing = (
            set(phase.machines) - touched if phase.name == "deploy" else set(phase.machines) if not touched else set()
        )
        if missing:
            raise ProductError(
                f"{outcome.what} did nothing on {', '.join(sorted(missing))}",
                hint="check that its plays name the inventory's groups",
                paths=(phase_run.log,),
            )

    def _refuse_no_kubeconfig(self, outcome: PhaseOutcome, phase_run: PhaseRun) -> None:
        """Refuse a phase that has left no kubeconfig, or one that nobody can use."""
        kubeconfig, trouble = self.attempt.files.kubeconfig, ""
        try:
            Cluster.from_kubeconfig(kubeconfig)
        except BadInput as error:
            trouble = f": {error.summary}" if kubeconfig.exists() else ""
        else:
            return
        raise ProductError(
            f"{outcome.what} succeeded but left no {'usable ' if trouble else ''}kubeconfig at {kubeconfig}{trouble}",
            hint="the phase must write the admin kubeconfig there; that path is the variable cluster_kubeconfig_path, "
            "and VMATRIX_GUEST_KUBECONFIG in the environment of a command",
            paths=(phase_run.log,),
        )

    def collect(self) -> None:
        """Dump what explains the outcome. Never raises for what cannot be had."""
        self._tell_usage()
        with self.steps.step("collect") as step:
            try:
                written = diagnose.collect(
                    self.site.cluster,
                    self.attempt.place,
                    self.attempt.files,
                    self.environment,
                    seconds=self.site.timeouts.collect,
                )
                step.note(files=len(written))
            except (VmatrixError, OSError) as error:
                step.note(error=str(error))

    def teardown(self) -> None:
        """Take everything of the cell away. Raises Leaked when something stays; it is named."""
        if self.torn_down:
            return
        self._tell_usage()
        self.leave()
        with self.steps.step("teardown"):
            selection = CellSelector(run=self.attempt.run, cell=self.cell.id, namespace=self.site.namespace)
            reap(self.site.cluster, selection, seconds=self.site.timeouts.teardown)
            close_connections(self._folder)  # also of a cell that has nothing in the infra cluster
            self._held.close()
        self.attempt.files.remove_secrets()  # they open nothing any more
        self.torn_down = True

    def _step(self, name: str, work: Callable[[], Any]) -> Any:
        if self.failure is not None:
            raise self.failure
        try:
            with self.steps.step(name):
                return work()
        except VmatrixError as failure:
            self.failure = failure
            raise
        except BaseExceptionGroup as group:
            first = flatten(group)
            if not isinstance(first, VmatrixError):
                raise
            self.failure = first
            raise first from group
