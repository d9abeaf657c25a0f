"""The KubeVirt part of an embedded instance, as a process that can be killed and started again."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from harness.embedded.node.guests import machine_id
from harness.proc import Service
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until

END_SECONDS = 5.0


@dataclass(frozen=True)
class Part:
    """The KubeVirt part of the instance, as a process that can be killed."""

    provider: EmbeddedProvider

    @property
    def service(self) -> Service:
        """Return the process."""
        found = Service.load(self.provider.layout.run / "kubevirt.pid")
        assert found is not None, "the KubeVirt part not started"
        return found

    def signal(self, number: signal.Signals) -> None:
        """Send a signal and wait until the process is gone."""
        service = self.service
        os.kill(service.pid, number)
        until(
            lambda: NotYet("it still runs") if service.alive() else True,
            deadline=Deadline.after(END_SECONDS),
            what=f"the KubeVirt part to end after {number.name}",
            interval=0.02,
        )

    def start(self) -> None:
        """Start what is dead of the instance and wait until it is ready."""
        self.provider.up()

    def resident_mib(self) -> float:
        """Return the memory that the process has in use."""
        status = Path(f"/proc/{self.service.pid}/status").read_text(encoding="utf-8")
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def cpu_seconds(self) -> float:
        """Return the CPU time that the process has used."""
        stat = Path(f"/proc/{self.service.pid}/stat").read_text(encoding="utf-8")
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill_machine(self, uid: str) -> None:
        """Kill an instance's machine as the kernel would."""
        service = Service.load(self.provider.layout.root / "machines" / machine_id(uid) / "nspawn.pid")
        assert service is not None, f"instance {uid} has no machine"
        os.kill(service.pid, signal.SIGKILL)
