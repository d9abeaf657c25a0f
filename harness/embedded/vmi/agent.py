"""Node agent (virt-handler): start an instance's machine, watch it, and write how it ended."""

from __future__ import annotations

import copy
import hashlib
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from harness.embedded.context import Context
from harness.embedded.machines import MachineSpec
from harness.embedded.node.guests import Addresses, Guests, boots_again, ended_well, machine_id
from harness.embedded.vm.status import is_final
from harness.embedded.vmi import status
from harness.embedded.vmi.launcher import KILL_AFTER_SECONDS, MIB, grace_seconds, guest_memory, vcpus
from harness.embedded.vmi.status import SyncError, cloud_init_documents, enter, with_migratable
from harness.errors import VmatrixError
from harness.kube.client import Json
from harness.kube.informer import key_of
from harness.kube.objects import deleting, dig, parse_time
from harness.kube.resources import PV, PVC, SECRET, VMI

log = logging.getLogger(__name__)
COMPONENT = "virt-handler"
LOOK_SECONDS = 2.0  # how long a machine may be dead before its instance says so
NOT_SYNCHRONIZED = "Synchronizing with the Domain failed."


class Agent:
    """Brings one instance's machine to what the instance asks for."""

    def __init__(self, context: Context, guests: Guests, addresses: Addresses) -> None:
        self._context = context
        self._say = partial(context.events.normal, component=COMPONENT)
        self._warn = partial(context.events.warning, component=COMPONENT)
        self._guests = guests
        self._addresses = addresses
        self._claims = context.informers.of(PVC)
        self._volumes = context.informers.of(PV)
        self._vmis = context.informers.of(VMI)
        self._asked: set[str] = set()  # uids of instances whose guests were asked to shut down

    def boot(self, vmi: Json, pod: Json) -> SyncError | None:
        """Start the machine of a Scheduled instance; return why it did not start."""

        faults = self._context.faults
        if faults.has(vmi, "no-guest"):
            return None
        try:
            if failing := faults.of(vmi, "sync-failed"):
                raise status.Unbootable(str(failing["message"]))
            self._guests.start(self._machine(vmi, pod), partial(self._wanted, vmi))
        except (status.Unbootable, VmatrixError) as error:
            detail = f": {error.detail}" if isinstance(error, VmatrixError) and error.detail else ""
            message = f"server error. command SyncVMI failed: {error}{detail}"
            self._warn(vmi, "SyncFailed", message)
            log.warning("instance %s/%s: %s", *key_of(vmi), message)
            return SyncError(NOT_SYNCHRONIZED, message)
        return None

    def _wanted(self, vmi: Json) -> bool:
        latest = self._vmis.get(*key_of(vmi))
        return latest is not None and not deleting(latest) and not is_final(latest)

    def reboots(self, vmi: Json, pod: Json) -> bool:
        """Boot the machine of a Running instance again when it has ended for that; False when it has not.

        The instance stays as it is, as with KubeVirt: its domain goes on.
        """
        uid = vmi["metadata"]["uid"]
        if self._guests.supervised(uid) or not boots_again(self._guests.status(uid)):
            return False
        try:
            self._guests.restart(self._machine(vmi, pod), partial(self._wanted, vmi))
        except (status.Unbootable, VmatrixError) as error:  # tried again at the next look
            log.warning("instance %s/%s does not boot again: %s", *key_of(vmi), error)
        return True

    def _machine(self, vmi: Json, pod: Json) -> MachineSpec:
        namespace, spec = vmi["metadata"]["namespace"], vmi["spec"]
        root, claim = status.root_volume(vmi), partial(self._claims.get, namespace)
        user_data, network_data = cloud_init_documents(
            vmi, lambda name: self._context.cluster.get(SECRET, name, namespace)
        )
        hostname = str(spec.get("hostname") or vmi["metadata"]["name"])
        return MachineSpec(
            id=machine_id(vmi["metadata"]["uid"]),
            namespace_index=self._addresses.network(namespace),
            hostname=hostname,
            address=str(pod["status"]["podIP"]),
            disk=status.disk_file(root, claim, partial(self._volumes.get, ""), self._context.disks),
            cpus=vcpus(spec),
            memory_mib=guest_memory(spec) // MIB,
            user_data=user_data,
            network_data=network_data,
            instance_id=f"{hostname}.{namespace}",
        )

    def running(self, vmi: Json, pod: Json) -> Json:
        """Return the status of an instance whose machine has just started; says so in events."""
        self._say(vmi, "Created", "VirtualMachineInstance defined.")
        self._say(vmi, "Started", "VirtualMachineInstance started.")
        status: Json = copy.deepcopy(vmi["status"])
        status["conditions"] = with_migratable(vmi)
        enter(status, "Running", datetime.now(UTC))
        devices = dig(vmi, "spec", "domain", "devices") or {}
        addresses = [str(entry["ip"]) for entry in dig(pod, "status", "podIPs") or []]
        status["interfaces"] = [
            _interface(i, n, addresses, vmi["metadata"]["uid"]) for n, i in enumerate(devices.get("interfaces") or [])
        ]
        disks = enumerate(devices.get("disks") or [])
        targets = {d["name"]: f"vd{'abcdefghijklmnop'[n % 16]}" for n, d in disks}
        status["volumeStatus"] = [{**v, "target": targets.get(v["name"], "")} for v in status.get("volumeStatus") or []]
        return status

    def ended(self, vmi: Json) -> Json | None:
        """Return the status of a Running instance whose machine is gone; None while it runs."""
        uid = vmi["metadata"]["uid"]
        if self._guests.supervised(uid) or self._context.faults.has(vmi, "no-guest"):
            return None
        guest = self._guests.status(uid)
        if guest.phase in {"booting", "running"}:
            return None
        if ended_well(guest):
            return self._end(vmi, well=True)
        return {**self._end(vmi, well=False), "reason": f"machine {guest.phase}: {guest.detail}".rstrip(": ")[:1024]}

    def stop(self, vmi: Json, pod: Json) -> Json | None:
        """Bring the machine of a Running instance to its end, its launcher being told to go.

        A guest that has time is asked to shut down. One that has none, or none left, is killed: that is a success where
        the instance grants no time at all, as for virt-handler (calculateVmPhaseForStatusReason).

        Returns:
            The instance's status then; None while the guest may still shut down.
        """
        uid, grace = vmi["metadata"]["uid"], grace_seconds(vmi)
        if not self._guests.supervised(uid):  # looked at once: it may end between two looks
            if uid in self._asked:
                return self._end(vmi, well=True)  # as it was asked to; what is left of it goes with its launcher
            if ended := self.ended(vmi):
                return ended
        elif grace > 0 and self._left(pod) > 0:
            if uid not in self._asked:
                self._asked.add(uid)
                self._guests.power_off(uid)
                self._say(vmi, "ShuttingDown", "Signaled Graceful Shutdown")
            return None
        self._guests.kill(uid)
        for message in ("VirtualMachineInstance stopping", "Signaled Deletion"):
            self._say(vmi, "Deleted", message)
        return self._end(vmi, well=grace == 0)

    def forget(self, uid: str) -> None:
        """Keep nothing about an instance that is gone; until then its end may have to be written again."""
        self._asked.discard(uid)

    def _left(self, pod: Json) -> float:
        """Return the seconds that a guest has left of its launcher's grace period; what follows is the launcher's."""
        until = parse_time(pod["metadata"]["deletionTimestamp"])
        return (until - datetime.now(UTC)).total_seconds() - 2 * KILL_AFTER_SECONDS

    def _end(self, vmi: Json, *, well: bool) -> Json:
        """Return the status of an instance that has ended, and say so."""
        status: Json = copy.deepcopy(vmi["status"])
        enter(status, "Succeeded" if well else "Failed", datetime.now(UTC))
        for interface in status.get("interfaces") or []:  # its network is torn down with it
            for key in ("ipAddress", "ipAddresses"):
                interface.pop(key, None)
        say, became = (self._say, "was shut down") if well else (self._warn, "crashed")
        say(vmi, "Stopped", f"The VirtualMachineInstance {became}.")
        return status


def _interface(declared: Json, number: int, addresses: Sequence[str], uid: str) -> Json:
    """Return one interface's status: the pod's addresses (if any) on the first, a stable local MAC on each."""
    digest = hashlib.sha256(f"{uid} {number}".encode()).hexdigest()
    interface_status: Json = {
        "name": declared["name"],
        "mac": declared.get("macAddress") or "02:" + ":".join(digest[n : n + 2] for n in range(0, 10, 2)),
        "infoSource": "domain",
        "podInterfaceName": f"eth{number}",
        "queueCount": 1,
    }
    if number == 0 and addresses:
        interface_status |= {"ipAddress": addresses[0], "ipAddresses": [*addresses]}
    return interface_status
