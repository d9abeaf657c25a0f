"""From a planned cell to machines that can be logged in to: namespace, quota, golden image, disks, machines, login."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from harness.cell import manifests
from harness.cell.golden import ensure_golden
from harness.cell.machines import SSH_PORT, changes, create_machine, create_own, sight, wait_for_address
from harness.cell.network import outside
from harness.cell.place import Place, cell_labels, place_of
from harness.cell.product.protocol import MakesMachines, PhaseRun
from harness.cell.site import Site
from harness.cell.steps import Steps
from harness.errors import HarnessBug, InfraError, InfraRetriable, VmatrixError
from harness.infra.cluster.access import allowed, subject
from harness.infra.cluster.rights import CELL, CELL_ROLE
from harness.kube.client import ApiFailure, Cluster
from harness.kube.resources import NAMESPACE, NETWORK_POLICY, RESOURCE_QUOTA, ROLE_BINDING, VM, VMI
from harness.machines.keys import make_key_pair
from harness.machines.kubevirt.disks import CloneStuck
from harness.machines.kubevirt.launchers import Sighting
from harness.machines.kubevirt.manifests import GoldenImage, Origin
from harness.machines.reach.portforward import Tunnels
from harness.machines.reach.ssh import control_directory, wait_for_cloud_init, wait_for_login
from harness.model import Cell, Environment, Machine, PlannedMachine
from harness.rundir import AttemptDir
from harness.spec.rules import IPV6, needs_of
from harness.until import Deadline, NotYet, until

STAGE = "machines"


def by_product(site: Site, cell: Cell) -> bool:
    """Tell whether a cell's product makes its machines."""
    return site.product_of(cell).makes_machines


def make(site: Site, environment: Environment) -> list[Machine]:
    """Have the product make a cell's machines; wait until each runs and has an address.

    Args:
        environment: the cell's, without machines.

    Raises:
        ProductError, InfraError, HarnessBug: they do not come up; whose fault that is.
    """
    cell, limits = environment.cell, site.timeouts
    images = {name: site.image(name) for name in dict.fromkeys(machine.image for machine in cell.machines)}
    phase_run = PhaseRun(
        phase=cell.phases[0],
        stage=STAGE,
        environment=environment,
        variables={},
        timeout=limits.golden_image + limits.clone + limits.machine_address,
        log=AttemptDir(environment.directory).log(STAGE),
        on_task=lambda _: None,
        outer=site.outer,
    )
    product = site.kind_of(cell)
    if not isinstance(product, MakesMachines):
        raise HarnessBug(f"the product of {cell.id} makes no machines")
    made = product.make(phase_run, [told(machine, images[machine.image]) for machine in cell.machines])
    users = {name: image.user for name, image in images.items()}
    connect = limits.ssh_connect
    return [Machine(m, made[m.name], SSH_PORT, users[m.image], connect_seconds=connect) for m in cell.machines]


def destroy(site: Site, namespace: str, names: Collection[str]) -> None:
    """Destroy machines that the product has made, without a word to it, and wait until they are gone.

    Raises:
        TimedOut: some still exist.
    """
    for name in names:
        site.cluster.delete(VM, name, namespace, grace=0)

    def gone() -> bool | NotYet:
        left = [name for name in names for kind in (VM, VMI) if site.cluster.get(kind, name, namespace) is not None]
        return NotYet(f"{', '.join(left)} are there") if left else True

    what = f"the machines {', '.join(names)} of {namespace} to be gone"
    until(gone, deadline=Deadline.after(site.timeouts.teardown), what=what, interval=0.5)


def told(machine: PlannedMachine, image: GoldenImage) -> dict[str, Any]:
    """Return what templates are given of a machine that is to be made."""
    return {
        "name": machine.name,
        "set": machine.name.rpartition("-")[0],
        "cpus": machine.cpus,
        "memory_mib": machine.memory_mib,
        "disk_gib": machine.disk_gib,
        "user": image.user,
        "image": {"url": image.url, "checksum": image.checksum},
    }


GRANTED_IN_A_ROW = 3  # of several API servers, each learns of a binding by itself


def join_namespace(cluster: Cluster, namespace: str, labels: Mapping[str, str], seconds: float) -> None:
    """See to it that we may work in a namespace: nothing to do for who has a cell's rights everywhere.

    Args:
        seconds: until the role is in effect.

    Raises:
        ApiFailure: the API refuses the binding.  TimedOut: the role does not allow what a cell needs.
    """
    first = CELL[0]
    if allowed(cluster, first, first.verbs[0], namespace):
        return
    role = {"apiGroup": ROLE_BINDING.group, "kind": "ClusterRole", "name": CELL_ROLE}
    subjects = [subject(cluster).reference()]
    body = ROLE_BINDING.manifest(CELL_ROLE, namespace, labels=labels, roleRef=role, subjects=subjects)
    cluster.create_if_absent(ROLE_BINDING, body)
    in_a_row = 0

    def granted() -> bool | NotYet:
        nonlocal in_a_row
        in_a_row = in_a_row + 1 if allowed(cluster, first, first.verbs[0], namespace) else 0
        return in_a_row >= GRANTED_IN_A_ROW or NotYet(f"no right to {first.verbs[0]} {first.plural} there yet")

    until(
        granted,
        deadline=Deadline.after(seconds),
        what=f"the role {CELL_ROLE} to take effect in namespace {namespace}",
        interval=0.05,
    )


def record(site: Site, place: Place, machines: Sequence[Machine], files: AttemptDir) -> list[Machine]:
    """Write down how the machines are reached, where it is not directly; return them with the file that says so.

    Later commands find the file in the attempt's directory, too.
    """
    if site.access == "direct":
        files.tunnels.unlink(missing_ok=True)
        return list(machines)
    if site.infra is None:
        raise HarnessBug("machines are to be reached through the infra cluster's API, and no kubeconfig leads to it")
    files.logs.mkdir(parents=True, exist_ok=True)
    names = {machine.address: place.name(machine.name) for machine in machines}
    infra, log, seconds = site.infra, files.tunnels_log, site.timeouts.tunnel_open
    Tunnels(infra.kubeconfig, infra.context, place.namespace, names, log, seconds).save(files.tunnels)
    return [replace(machine, tunnels=files.tunnels) for machine in machines]


T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Attempt:
    """One attempt at a cell: which run it belongs to and where its files go.

    shared: the namespace that cells share; without it the attempt has one of its own.
    imports: whether each disk is an import of its own, since clones did not come on in the attempt before.
    asked: the memory (MiB) that machines request, by name, where that is not what they declare.
    """

    run: str
    cell: Cell
    number: int
    directory: Path
    shared: str | None = None
    imports: bool = False
    asked: Mapping[str, int] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        """Return where the attempt's objects lie."""
        return place_of(self.run, self.cell.id, self.number, shared=self.shared)

    @property
    def namespace(self) -> str:
        """Return the attempt's namespace."""
        return self.place.namespace

    @property
    def files(self) -> AttemptDir:
        """Return what lies where in the attempt's directory."""
        return AttemptDir(self.directory)

    def next(self, failure: VmatrixError | None = None) -> Attempt:
        """Return the attempt after this one; its files lie in a directory of their own below the cell's.

        Args:
            failure: of this one.
        """
        number = self.number + 1
        directory = self.files.sibling(number).path
        return replace(self, number=number, directory=directory, imports=isinstance(failure, CloneStuck))


def provision(site: Site, attempt: Attempt, steps: Steps) -> Environment:
    """Create a cell's machines and wait until each can be logged in to and cloud-init has ended.

    Raises:
        InfraError (or an ExceptionGroup of several machines' errors): a machine cannot come up.
    """
    machines = bring_up(site, attempt, steps)
    refuse_without_ipv6(site, attempt.cell, machines)
    alive = partial(refuse_changed, site, attempt.place, sight(site.cluster, attempt.place, machines))
    machines = record(site, attempt.place, machines, attempt.files)
    with steps.step("login"):
        in_parallel(lambda m: _log_in(site, attempt, m, partial(alive, m.name)), machines)
    return _environment(site, attempt, machines)


def refuse_without_ipv6(site: Site, cell: Cell, machines: Sequence[Machine]) -> None:
    """Raise InfraError where a cell needs machines with an IPv6 address and one has none."""
    lacking = [machine.name for machine in machines if not machine.ipv6_address]
    if lacking and IPV6 in needs_of(site.spec, cell):
        raise InfraError(
            f"cell {cell.id} needs IPv6, and the infra cluster gave no IPv6 address to {', '.join(lacking)}",
            hint="take ipv6 out of the infra profile's `offers` in matrix/infras.yml; the cluster's pods get none",
        )


def _environment(site: Site, attempt: Attempt, machines: Sequence[Machine]) -> Environment:
    return Environment(
        run=attempt.run,
        cell=attempt.cell,
        attempt=attempt.number,
        namespace=attempt.namespace,
        machines=tuple(machines),
        directory=attempt.directory,
        private_key=attempt.files.key,
        options=site.options,
    )


def bring_up(site: Site, attempt: Attempt, steps: Steps) -> list[Machine]:
    """Create a cell's machines and wait until each runs and has an address.

    Raises:
        InfraError (or an ExceptionGroup of several machines' errors): a machine cannot come up.
    """
    if by_product(site, attempt.cell):
        _lay_ground(site, attempt, steps)
        with steps.step("machines"):
            return make(site, _environment(site, attempt, ()))
    images = create(site, attempt, steps)
    with steps.step("machines"):
        return in_parallel(
            lambda m: wait_for_address(site, attempt.place, m, images[m.image].user), attempt.cell.machines
        )


def create(site: Site, attempt: Attempt, steps: Steps) -> Mapping[str, GoldenImage]:
    """Create all objects of a cell; return its images by name. Only golden images are waited for.

    Raises:
        InfraError: an object was refused.  BadImage, InfraError: a golden image cannot be had.
    """
    plan = _lay_ground(site, attempt, steps)
    with steps.step("golden image") as step:
        images = {name: site.image(name) for name in dict.fromkeys(m.image for m in attempt.cell.machines)}
        origins = {name: _origin(site, attempt, image) for name, image in images.items()}
        step.note(images=[image.name for image in images.values()], origins=[o.kind for o in origins.values()])
    with steps.step("objects"):
        in_parallel(lambda m: create_machine(site, plan, m, images[m.image], origins[m.image]), attempt.cell.machines)
    return images


def _lay_ground(site: Site, attempt: Attempt, steps: Steps) -> manifests.CellPlan:
    """Make what a cell has before its machines: a key, its namespace, its NetworkPolicy."""
    attempt.directory.mkdir(parents=True, exist_ok=True)
    plan = _plan(site, attempt, make_key_pair(attempt.files.key, comment=attempt.namespace))
    if not attempt.place.shared:
        with steps.step("namespace"):
            _make_namespace(site, plan, attempt)
    if site.isolated:
        with steps.step("network policy"):
            _isolate(site, plan, attempt)
    return plan


def refuse_changed(site: Site, place: Place, sightings: Sequence[Sighting], machine: str) -> None:
    """Raise when a machine that is not yet in use has died, or is another one than the one that came up.

    Raises:
        InfraRetriable: what became of it.
    """
    told = changes(site.cluster, place, sightings, {machine})
    if told:
        hint = "its launcher's and its console's logs are collected; check the node that it ran on"
        raise InfraRetriable(f"{told[0]}, before anybody logged in to it", hint=hint)


def _origin(site: Site, attempt: Attempt, image: GoldenImage) -> Origin:
    """Return what disks are made from: the golden image, or its URL once clones have been stuck.

    What an import needs to log in lies beside the golden images only: such an image is cloned again.
    """
    if attempt.imports and not (image.credentials or image.certificates):
        return Origin("url")
    return ensure_golden(site, image)


def _make_namespace(site: Site, plan: manifests.CellPlan, attempt: Attempt) -> None:
    """Make the cell's namespace, see to it that this job may work in there, and bound what the cell may take."""
    namespace = manifests.namespace(plan, directory=site.templates)
    pods = "pods" in needs_of(site.spec, attempt.cell)
    quota = manifests.quota(plan, attempt.cell.machines, directory=site.templates, pods=pods)
    try:
        create_own(site, NAMESPACE, namespace)
        join_namespace(site.cluster, plan.namespace, plan.labels, site.timeouts.role_binding)
        site.cluster.create_if_absent(RESOURCE_QUOTA, quota)
    except ApiFailure as refused:
        if refused.forbidden:
            refused.hint = "`vmatrix doctor` reports the missing right; deploy/rbac/README.md explains who grants it"
        raise


def _isolate(site: Site, plan: manifests.CellPlan, attempt: Attempt) -> None:
    """Make the cell's NetworkPolicy, before it has machines."""
    policy = manifests.network_policy(plan, outside(site, attempt.cell), directory=site.templates)
    try:
        site.cluster.create_if_absent(NETWORK_POLICY, policy)
    except ApiFailure as refused:
        if refused.forbidden:
            refused.hint = "apply the roles of deploy/rbac again, or switch the setting network_policy off"
        raise


def _plan(site: Site, attempt: Attempt, public_key: str) -> manifests.CellPlan:
    expires_at = time.time() + site.expiry_hours * 3600
    place = attempt.place
    return manifests.CellPlan(
        namespace=place.namespace,
        labels=cell_labels(run=attempt.run, cell=attempt.cell.id, attempt=attempt.number, expires_at=expires_at),
        expires_at=expires_at,
        public_key=public_key,
        dns_domain=str(attempt.cell.vars.get("cluster_dns_domain", "cluster.local")),
        storage_class=site.storage_class,
        prefix=place.prefix,
        owner=place.owner,
        images=site.images_namespace,
        binding=site.binding,
        asked=attempt.asked,
    )


def _log_in(site: Site, attempt: Attempt, machine: Machine, alive: Callable[[], None]) -> None:
    control = control_directory(attempt.run, attempt.cell.id)
    control.mkdir(mode=0o700, exist_ok=True)
    private_key = attempt.files.key
    deadline, seconds = Deadline.after(site.timeouts.ssh), site.timeouts.ssh_login
    wait_for_login(machine, private_key, deadline=deadline, seconds=seconds, control=control, alive=alive)
    deadline, seconds = Deadline.after(site.timeouts.cloud_init), site.timeouts.cloud_init_answer
    wait_for_cloud_init(machine, private_key, deadline=deadline, seconds=seconds, control=control, alive=alive)


def in_parallel(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Do the same with each item at once and return the answers in order.

    An interrupt leaves at once and does not wait for the items; what they do ends with this process at the latest.
    Raises ExceptionGroup when of every item's error, once all have ended.
    """
    futures: list[Future[R]] = [Future() for _ in items]
    for future, item in zip(futures, items, strict=True):
        threading.Thread(target=_carry_out, args=(future, work, item), daemon=True).start()
    wait(futures)
    errors = [e for f in futures if (e := f.exception()) is not None]
    if errors:
        raise BaseExceptionGroup("several machines failed", errors)
    return [f.result() for f in futures]


def _carry_out(future: Future[R], work: Callable[[T], R], item: T) -> None:
    try:
        future.set_result(work(item))
    except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for it
        future.set_exception(error)
