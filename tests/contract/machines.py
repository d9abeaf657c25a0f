"""Virtual machines of the contract tests: made from the product's own templates, waited for, logged in to, deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.cell.manifests import CellPlan
from harness.kube.client import Cluster
from harness.kube.resources import DATA_VOLUME, POD, SECRET, VM, VMI, Resource
from harness.machines.keys import make_key_pair
from harness.machines.kubevirt.manifests import GoldenImage, machine
from harness.machines.reach.portforward import OPEN_SECONDS, Tunnels
from harness.machines.reach.ssh import run_on, wait_for_login
from harness.model import Access, Machine, PlannedMachine
from harness.paths import project_dir
from harness.proc import Completed
from harness.until import NotYet, until
from tests.contract.limits import lasting, within
from tests.contract.storage import Storage
from tests.contract.transitions import BOUND_AT_ONCE, Json
from tests.contract.volumes import GONE_SECONDS, wait_gone, wait_phase

KINDS: dict[str, Resource] = {r.kind: r for r in (DATA_VOLUME, SECRET, VM)}
CLONE_SECONDS = 120.0
BOOT_SECONDS = 60.0
LOGIN_SECONDS = 120.0
COMMAND_SECONDS = 20.0
FINAL = frozenset({"Succeeded", "Failed"})
SSH_PORT = 22


@dataclass(frozen=True)
class Machines:
    """Makes machines in a namespace; all of them open to one key. SSH's control sockets lie in `control`.

    kubeconfig: the job's, for the way through the API.  storage: the class of their disks.
    access: how machines are reached where a test does not say.
    """

    cluster: Cluster
    namespace: str
    image: GoldenImage
    key: Path
    control: Path
    kubeconfig: Path
    storage: Storage
    access: Access = "direct"

    def objects(self, name: str, *, memory_mib: int = 512) -> dict[str, Json]:
        """Return a machine's manifests by kind."""
        plan = CellPlan(
            namespace=self.namespace,
            labels={"vmatrix.dev/cell": "contract"},
            expires_at=1_900_000_000.0,
            public_key=make_key_pair(self.key, comment="contract"),
            dns_domain="cluster.local",
            storage_class=self.storage.name,
        )
        planned = _planned(name, memory_mib)
        made = machine(plan, planned, self.image, directory=project_dir() / "vm-templates")
        return {obj["kind"]: obj for obj in made}

    def disk(self, name: str) -> None:
        """Make a machine's disk and secret, and wait until the disk is whole: it is not for the machine to be made."""
        objects = self.objects(name)
        if self.storage.waits:
            objects["DataVolume"]["metadata"]["annotations"] = {BOUND_AT_ONCE: "true"}
        for kind in ("DataVolume", "Secret"):
            self.cluster.create(KINDS[kind], objects[kind])
        wait_phase(self.cluster, self.namespace, name, "Succeeded", seconds=CLONE_SECONDS)

    def disk_of_its_own(self, name: str) -> None:
        """Make a machine's disk and secret as a cell does: the machine is the disk's first consumer."""
        objects = self.objects(name)
        for kind in ("DataVolume", "Secret"):
            self.cluster.create(KINDS[kind], objects[kind])

    def create(self, name: str, change: Callable[[Json], None] = lambda _vm: None) -> None:
        """Create the VirtualMachine, changed first by `change`."""
        body = self.objects(name)["VirtualMachine"]
        change(body)
        self.cluster.create(VM, body)

    def status(self, name: str) -> Json:
        """Return the VirtualMachine's status, empty when it has none."""
        found = self.cluster.get(VM, name, self.namespace)
        assert found is not None, f"VirtualMachine {self.namespace}/{name} is gone"
        status: Json = found.get("status") or {}
        return status

    def wait_status(self, name: str, wanted: Callable[[Json], bool], what: str, *, seconds: float) -> Json:
        """Wait until a VirtualMachine's status is as wanted; fail at once when its instance has ended."""

        def probe() -> Json | NotYet:
            status = self.status(name)
            if wanted(status):
                return status
            instance = self.cluster.get(VMI, name, self.namespace) or {}
            phase = (instance.get("status") or {}).get("phase")
            assert phase not in FINAL, instance
            return NotYet(f"{status.get('printableStatus')}, instance {phase}")

        return until(
            probe,
            deadline=within(seconds),
            what=f"VirtualMachine {self.namespace}/{name} {what}",
            describe=lambda: "\n".join(self.cluster.events_of(self.namespace, name)),
            interval=0.1,
        )

    def wait_word(self, name: str, word: str, *, seconds: float = BOOT_SECONDS) -> Json:
        """Wait for a value of printableStatus."""
        return self.wait_status(name, lambda s: s.get("printableStatus") == word, f"to be {word}", seconds=seconds)

    def wait_ready(self, name: str) -> Json:
        """Wait until a VirtualMachine runs and is Ready."""
        return self.wait_status(name, lambda s: bool(s.get("ready")), "to be ready", seconds=BOOT_SECONDS)

    def launcher(self, name: str) -> Json:
        """Return a machine's launcher pod."""
        labels = f"kubevirt.io=virt-launcher,vm.kubevirt.io/name={name}"
        (found,) = self.cluster.list(POD, self.namespace, labels=labels).items
        return found

    def login(self, name: str, access: Access | None = None) -> Machine:
        """Wait until a ready machine can be logged in to; return how."""
        address = self.launcher(name)["status"]["podIP"]
        tunnels = self.tunnels(name, address) if (access or self.access) == "portforward" else None
        reached = Machine(_planned(name, 512), address, SSH_PORT, self.image.user, tunnels)
        wait_for_login(reached, self.key, deadline=within(LOGIN_SECONDS), seconds=lasting(20.0), control=self.control)
        return reached

    def tunnels(self, name: str, address: str) -> Path:
        """Write down the way to a machine through the API; return the file."""
        path = self.key.with_name(f"{name}-tunnels.json")
        log = path.with_suffix(".log")
        Tunnels(self.kubeconfig, None, self.namespace, {address: name}, log, lasting(OPEN_SECONDS)).save(path)
        return path

    def run(self, on: Machine, command: str) -> Completed:
        """Run a shell command on a machine."""
        return run_on(on, command, private_key=self.key, timeout=lasting(COMMAND_SECONDS), control=self.control)

    def delete(self, name: str, *, seconds: float = GONE_SECONDS) -> None:
        """Delete a VirtualMachine and wait until it, its instance and its launcher pod are gone."""
        assert self.cluster.delete(VM, name, self.namespace)
        for resource in (VM, VMI):
            wait_gone(self.cluster, resource, self.namespace, name, seconds=seconds)
        assert self.launchers() == []

    def launchers(self) -> list[str]:
        """Return the names of the namespace's launcher pods."""
        found = self.cluster.list(POD, self.namespace, labels="kubevirt.io=virt-launcher").items
        return [pod["metadata"]["name"] for pod in found]


def _planned(name: str, memory_mib: int) -> PlannedMachine:
    return PlannedMachine(name, ("node",), 1, memory_mib, 10, "contract")
