"""What machines can and cannot, as plain facts that any product is given beside our playbooks' settings.

docs/guests.md says what each means; tests/contract/test_guests.py proves each in a machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

PREFIX = "guest_"  # of the variables


@dataclass(frozen=True)
class GuestFacts:
    """Facts of the machines of an infra cluster. Those of a virtual machine whose image is one of the matrix.

    open_files: the most that a unit can have open (LimitNOFILE=infinity), at least.
    internet: whether a way out is open at all; for virtual machines a cell's NetworkPolicy decides.
    """

    own_kernel: bool = True
    kernel_modules: bool = True
    proc_modules: bool = True
    own_sysctls: bool = True
    own_clock: bool = True
    own_size: bool = True
    own_disks: bool = True
    loop_devices: bool = True
    fuse: bool = True
    udev: bool = True
    raise_limits: bool = True
    open_files: int = 1048576  # the kernel's own fs.nr_open (Documentation/admin-guide/sysctl/fs.rst)
    cgroup_version: int = 2
    swap: bool = False
    dns: bool = True
    internet: bool = True

    def variables(self) -> Mapping[str, bool | int]:
        """Return the facts as variables."""
        return {f"{PREFIX}{name}": value for name, value in asdict(self).items()}


VIRTUAL = GuestFacts()
