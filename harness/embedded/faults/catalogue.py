"""The faults that can be asked for: their names, whom they befall, their parameters, and what the API then shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PREFIX = "fault.vmatrix.dev/"
MACHINE = "VirtualMachine"  # annotate the VM's template, or the VMI
DISK = "DataVolume"


@dataclass(frozen=True)
class Fault:
    """One fault: what it befalls, what is to be seen of it, and its parameters with their defaults.

    Every fault has the parameter `seconds` as well: how long after the object's creation it ends; 0 for never.
    """

    kind: str
    shows: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


CATALOGUE: Mapping[str, Fault] = {
    "unschedulable": Fault(
        MACHINE,
        "the launcher asks for what no node has, and the scheduler says so",
        {"resource": "devices.kubevirt.io/kvm", "amount": "2k", "cpu_model": ""},
    ),
    "image-pull": Fault(
        MACHINE,
        "the launcher's image cannot be pulled: waiting container, event Failed, VMI Synchronized=False",
        {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "{image}"'},
    ),
    "launcher-stuck": Fault(MACHINE, "the launcher's containers are never created: VMI stays Scheduling"),
    "handler-down": Fault(MACHINE, "nobody on the node takes the VMI up: it stays Scheduled"),
    "sync-failed": Fault(
        MACHINE,
        "the node agent cannot start the domain: event SyncFailed, VMI Synchronized=False",
        {"message": "server error. command SyncVMI failed: \"LibvirtError(Code=38, Domain=0, Message='no space')\""},
    ),
    "launcher-crashes": Fault(
        MACHINE,
        "the launcher's container ends: before the guest runs, or `after` seconds of running (0: before)",
        {"exit_code": 1, "reason": "Error", "message": "panic: timed out waiting for domain to be defined", "after": 0},
    ),
    "launcher-vanishes": Fault(
        MACHINE, "the launcher pod is gone `after` seconds, and the VMI still says Running", {"after": 1}
    ),
    "no-guest": Fault(MACHINE, "the VMI says Running and no guest answers"),
    "address": Fault(
        MACHINE,
        "the VMI reports another address than its launcher's (`reported`), or the launcher has a useless one (`pod`; "
        "`none` for none)",
        {"reported": "", "pod": ""},
    ),
    "agent": Fault(
        MACHINE,
        "a guest agent connects `after` seconds and reports an address of its own",
        {"after": 1, "address": "10.0.2.2"},
    ),
    "moves": Fault(
        MACHINE,
        "the VMI is migrated `after` seconds: another launcher on another node, another address",
        {"after": 1, "node": "elsewhere", "address": "10.244.9.9"},
    ),
    "instance-stays": Fault(MACHINE, "the VMI's finalizers are never taken off: it and its VM stay, being deleted"),
    "launcher-stays": Fault(MACHINE, "the launcher pod stays Terminating, as on a node that is dead"),
    "portforward-drops": Fault(
        MACHINE, "a forwarded connection is cut after so many bytes, `times` times", {"after_bytes": 0, "times": 1}
    ),
    "import-fails": Fault(
        DISK,
        "the importer ends with a message and is restarted: `times` times (0: for ever), `every` seconds",
        {"message": "Unable to connect to http data source: 404", "every": 1, "times": 0, "fatal": False},
    ),
    "import-stalls": Fault(DISK, "the transfer stops at a percentage, for ever", {"at": 42.0}),
    "import-slow": Fault(DISK, "the transfer takes so many seconds more, with progress all the while", {"extra": 5.0}),
    "no-importer": Fault(
        DISK,
        "no importer pod is made: event ErrExceededQuota on the claim and the DataVolume",
        {"message": "exceeded quota: cell, requested: pods=1, used: pods=4, limited: pods=4"},
    ),
    "importer-waits": Fault(
        DISK,
        "the importer's container is not created: a waiting reason, and the pod's event says why",
        {"reason": "CreateContainerConfigError", "message": 'configmap "images-ca" not found'},
    ),
    "clone-blocked": Fault(
        DISK, "the clone does not begin: event CloneSourceInUse, again and again", {"message": "pod {source} in use"}
    ),
    "claim-pending": Fault(
        DISK,
        "the claim gets no volume: it stays Pending, event ProvisioningFailed",
        {"message": "rpc error: code = InvalidArgument desc = multi-node access is not supported"},
    ),
}
