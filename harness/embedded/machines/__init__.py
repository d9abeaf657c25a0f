"""Real machines from raw disks: systemd-nspawn containers with a network of their own."""

from __future__ import annotations

from harness.embedded.machines.machine import MachineSpec, MachineStatus
from harness.embedded.machines.names import Names
from harness.embedded.machines.runtime import POWER_CUT, Machines

__all__ = ["POWER_CUT", "MachineSpec", "MachineStatus", "Machines", "Names"]
