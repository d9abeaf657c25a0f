"""Real machines from raw disks: systemd-nspawn containers with a network of their own."""

from __future__ import annotations

from harness.infra.local.machines.machine import MachineSpec, MachineStatus
from harness.infra.local.machines.names import Names
from harness.infra.local.machines.runtime import Machines

__all__ = ["MachineSpec", "MachineStatus", "Machines", "Names"]
