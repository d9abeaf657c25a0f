"""What the infrastructure says of a Machine that is a virtual machine, as its condition and a part of its status."""

from __future__ import annotations

from dataclasses import dataclass

from harness.kube.client import Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import PVC
from harness.machines.kubevirt.launchers import launcher_address, useless
from harness.machines.kubevirt.presence import KnownMachine, Presence, Standing, presence
from harness.machines.kubevirt.stages import Halt, Stage

ADDRESS_CHANGED, NO_ADDRESS, SILENT = "AddressChanged", "NoAddress", "KubeVirtUnreachable"
QUIET = frozenset({Stage.IMPORTING_IMAGE, Stage.MAKING_DISK, Stage.STARTING, Standing.STARTING, NO_ADDRESS})
REMEDIES = {
    Standing.LOST: "its place in the cluster is given to another machine",
    Standing.STOPPED: "start it: virtctl start, or spec.runStrategy of its VirtualMachine",
}
NOBODYS = "make it again under the same name, or delete the Machine"  # of a lost machine that no cluster has


@dataclass(frozen=True)
class InfrastructureReport:
    """What is written of a Machine.

    status: of the condition.  infrastructure: of the status, None where it stays as it is.
    settled: only a change of an object can change it.
    """

    status: bool | None
    reason: str
    message: str
    infrastructure: Json | None = None
    settled: bool = True

    @property
    def warns(self) -> bool:
        """Tell whether something is in the way."""
        return self.status is False and self.reason not in QUIET

    @staticmethod
    def coming(halt: Halt) -> InfrastructureReport:
        """Return what is said of a machine that is being made."""
        return InfrastructureReport(False, halt.reason, halt.message, settled=False)

    @staticmethod
    def silent(why: str) -> InfrastructureReport:
        """Return what is said while nothing is known."""
        return InfrastructureReport(None, SILENT, f"KubeVirt's API does not answer: {why}")


class InfrastructureLook:
    """Looks at virtual machines."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def report(self, machine: Json, vm: Json | None, vmi: Json | None, *, held: bool) -> InfrastructureReport:
        """Return what is seen of a Machine.

        Args:
            held: it matters that it is the machine that it was.
        """
        before = dig(machine, "status", "infrastructure") or {}
        known = KnownMachine(before.get("instance", ""), before.get("disk", ""))
        if vmi is not None and not held:  # whatever runs there now is as good; what is gone is gone
            known = KnownMachine()
        uid = dig(vmi, "metadata", "uid") or ""
        disk = before.get("disk", "") if uid and uid == before.get("instance") else self._disk(vmi)
        seen = presence(vm, vmi, known, disk)
        if seen.standing is not Standing.RUNNING or vmi is None:
            return _not_running(machine, seen, held=held)
        node = str(dig(vmi, "status", "nodeName") or "")
        address = str(before.get("address", ""))
        if (uid, node) != (before.get("instance"), before.get("node")) or not address:
            address = launcher_address(self._cluster, machine["metadata"]["namespace"], vmi)
        return self._running(machine, {"address": address, "instance": uid, "disk": disk, "node": node}, held=held)

    def _running(self, machine: Json, now: Json, *, held: bool) -> InfrastructureReport:
        address, name = now["address"], machine["metadata"]["name"]
        if not address or useless(address):
            why = f"has the address {address}, which {useless(address)}" if address else "has no address yet"
            return InfrastructureReport(False, NO_ADDRESS, f"the launcher of machine {name} {why}", settled=False)
        before = str(dig(machine, "status", "infrastructure", "address") or address)
        if held and before != address:
            remedy = "delete the Machine to have another one in its place, if its cluster cannot live with that"
            message = f"machine {name} was started again and has the address {address} instead of {before}; {remedy}"
            return InfrastructureReport(False, ADDRESS_CHANGED, message)
        return InfrastructureReport(True, Standing.RUNNING, f"it runs on node {now['node'] or 'unknown'}", now)

    def _disk(self, vmi: Json | None) -> str:
        """Return the uid of the claim of an instance's first disk that lasts, "" for none."""
        volumes = dig(vmi, "spec", "volumes") or []
        named = (dig(v, "dataVolume", "name") or dig(v, "persistentVolumeClaim", "claimName") for v in volumes)
        claim = next(filter(None, named), None)
        found = self._cluster.get(PVC, claim, dig(vmi, "metadata", "namespace")) if claim else None
        return str(dig(found, "metadata", "uid") or "")


def instance_of(machine: Json) -> str:
    """Return the virtual machine that a Machine is, "" where it is none that the API tells of."""
    through = dig(machine, "spec", "through", "virtualMachineInstance")
    return str(through or (machine["metadata"]["name"] if dig(machine, "spec", "kubevirt") else ""))


def _not_running(machine: Json, seen: Presence, *, held: bool) -> InfrastructureReport:
    remedy = REMEDIES.get(seen.standing) if held or seen.standing is not Standing.LOST else NOBODYS
    message = f"machine {machine['metadata']['name']}: {seen.evidence}"
    return InfrastructureReport(False, seen.standing, f"{message}; {remedy}" if remedy else message)
