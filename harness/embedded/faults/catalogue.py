"""The faults that can be asked for: their names, whom they befall, their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PREFIX = "fault.vmatrix.dev/"
MACHINE = "VirtualMachine"  # annotate the VM's template, or the VMI
DISK = "DataVolume"


@dataclass(frozen=True)
class Fault:
    """One fault: what it befalls, and its parameters with their defaults; docs/chaos.md tells what is to be seen of it.

    Every fault has the parameter `seconds` as well: how long after the object's creation it ends; 0 for never.
    """

    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


CATALOGUE: Mapping[str, Fault] = {
    "unschedulable": Fault(MACHINE, {"resource": "devices.kubevirt.io/kvm", "amount": "2k", "cpu_model": ""}),
    "image-pull": Fault(MACHINE, {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "{image}"'}),
    "launcher-stuck": Fault(MACHINE),
    "handler-down": Fault(MACHINE),
    "sync-failed": Fault(
        MACHINE,
        {"message": "server error. command SyncVMI failed: \"LibvirtError(Code=38, Domain=0, Message='no space')\""},
    ),
    "launcher-crashes": Fault(
        MACHINE,
        {"exit_code": 1, "reason": "Error", "message": "panic: timed out waiting for domain to be defined", "after": 0},
    ),
    "launcher-vanishes": Fault(MACHINE, {"after": 1}),
    "no-guest": Fault(MACHINE),
    "address": Fault(MACHINE, {"reported": "", "pod": ""}),
    "agent": Fault(MACHINE, {"after": 1, "address": "10.0.2.2"}),
    "moves": Fault(MACHINE, {"after": 1, "node": "elsewhere", "address": "10.244.9.9"}),
    "instance-stays": Fault(MACHINE),
    "launcher-stays": Fault(MACHINE),
    "portforward-drops": Fault(MACHINE, {"after_bytes": 0, "times": 1}),
    "import-fails": Fault(
        DISK, {"message": "Unable to connect to http data source: 404", "every": 1, "times": 0, "fatal": False}
    ),
    "import-stalls": Fault(DISK, {"at": 42.0}),
    "import-slow": Fault(DISK, {"extra": 5.0}),
    "no-importer": Fault(DISK, {"message": "exceeded quota: cell, requested: pods=1, used: pods=4, limited: pods=4"}),
    "importer-waits": Fault(
        DISK, {"reason": "CreateContainerConfigError", "message": 'configmap "images-ca" not found'}
    ),
    "clone-blocked": Fault(DISK, {"message": "pod {source} in use"}),
    "claim-pending": Fault(
        DISK, {"message": "rpc error: code = InvalidArgument desc = multi-node access is not supported"}
    ),
}
