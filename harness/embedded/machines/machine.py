"""One machine: what is asked for, and what is seen of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class MachineSpec:
    """A machine to start.

    Attributes:
        id: 1 to 9 hex digits, unique in the instance.
        namespace_index: its VM namespace's network, 1..250.
        address: its IPv4 address in that network.
        disk: a raw GPT disk that is the machine's own; it is grown to the file's size and written to.
        user_data: cloud-init's user-data.
        network_data: kept beside the seed for people; the address is set from outside instead.
        instance_id: cloud-init's instance-id.
    """

    id: str
    namespace_index: int
    hostname: str
    address: str
    disk: Path
    cpus: int
    memory_mib: int
    user_data: str
    network_data: str
    instance_id: str


Phase = Literal["absent", "booting", "running", "exited"]


@dataclass(frozen=True)
class MachineStatus:
    """What a machine is doing.

    Phases: `absent` nothing of it is on the host; `booting` nspawn runs, pid 1 does not yet; `running` pid 1 runs;
    `exited` nspawn has ended and its remains wait for a kill (`detail`: the console's last lines).
    """

    phase: Phase
    detail: str
