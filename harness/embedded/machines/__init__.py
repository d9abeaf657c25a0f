"""Real machines from raw disks: systemd-nspawn containers with a network of their own."""

from __future__ import annotations

from harness.embedded.machines.names import Names
from harness.embedded.machines.runtime import POWER_CUT, Machines, MachineSpec, MachineStatus

__all__ = ["POWER_CUT", "MachineSpec", "MachineStatus", "Machines", "Names"]
