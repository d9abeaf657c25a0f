"""Phases that restart machines: reboot or reset them, and wait until each is a Ready node with another boot id.

The kernel's boot id is another one after each boot. The node is back when its kubelet reports that boot id
(Node.status.nodeInfo.bootID): a Node stays Ready for a while after its machine has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from harness.cell.place import Place
from harness.cell.provision import in_parallel
from harness.cell.site import Site
from harness.cell.steps import flatten
from harness.errors import InfraError, ProductError, VmatrixError
from harness.kube.client import ApiFailure, Cluster
from harness.kube.objects import dig, is_condition
from harness.kube.resources import NODE
from harness.machines.reach.ssh import SSH_FAILED, close_connections, control_directory, run_on
from harness.model import Environment, Machine, Phase
from harness.until import Deadline, NotYet, TimedOut, until

BOOT_ID = "cat /proc/sys/kernel/random/boot_id"  # random(4)
REBOOT = "sudo systemctl reboot --no-block"
INTERVAL = 1.0  # between looks; a boot takes seconds
ONE_BY_ONE, POWER_CUT = "one-by-one", "power-cut"
NODE_GROUPS = {"node", "control_plane"}
BootIds = dict[str, str]
T = TypeVar("T")


@dataclass(frozen=True)
class Restarts:
    """Restarts a cell's machines.

    environment: the machines of the phase.  kubeconfig: by which the guest's API is reached.
    tell: told what is under way.
    """

    site: Site
    place: Place
    environment: Environment
    kubeconfig: Path
    tell: Callable[[str], None]

    def run(self, phase: Phase) -> BootIds:
        """Restart the machines of a phase as it says; return the boot id of each afterwards, by name.

        Raises:
            ProductError: a machine or a node does not come back in time.
            InfraError: a machine cannot be restarted.
        """
        machines = [m for m in self.environment.machines if m.name in phase.restarts]
        groups = [[machine] for machine in machines] if phase.restart == ONE_BY_ONE else [machines]
        boots: BootIds = {}
        for together in groups:
            self.tell(f"restart {', '.join(m.name for m in together)}")
            boots |= self._restart(together, cut=phase.restart == POWER_CUT)
        return boots

    def _restart(self, machines: Sequence[Machine], *, cut: bool) -> BootIds:
        before = _on_each(self._boot_id, machines)
        _on_each(self._cut if cut else self._reboot, machines)
        # Connections that are shared would be waited for until their machine is found not to answer.
        close_connections(self._control)
        deadline = Deadline.after(self.site.timeouts.restart)
        boots = _on_each(lambda m: self._another_boot(m, before[m.name], deadline), machines)
        self._wait_for_nodes([m for m in machines if NODE_GROUPS & set(m.groups)], boots, deadline)
        return boots

    @property
    def _control(self) -> Path:
        return control_directory(self.environment.run, self.environment.cell.id)

    def _on(self, machine: Machine, command: str) -> tuple[int, str]:
        """Run a command over a connection of its own: return its status, and what it printed."""
        done = run_on(machine, command, private_key=self.environment.private_key, timeout=self.site.timeouts.ssh_login)
        return done.returncode, (done.stdout if done.returncode == 0 else done.stderr).strip()

    def _boot_id(self, machine: Machine) -> str:
        status, output = self._on(machine, BOOT_ID)
        if status != 0 or not output:
            raise InfraError(f"{machine.name} does not say its boot id: {output or f'status {status}'}")
        return output

    def _reboot(self, machine: Machine) -> None:
        status, output = self._on(machine, REBOOT)
        if status not in {0, SSH_FAILED}:  # it may be gone before it has answered
            raise InfraError(f"`{REBOOT}` failed on {machine.name}: {output or f'status {status}'}")

    def _cut(self, machine: Machine) -> None:
        """Reset a machine by KubeVirt's API: its guest is told nothing.

        https://kubevirt.io/user-guide/user_workloads/lifecycle/
        """
        path = (
            f"/apis/subresources.kubevirt.io/v1/namespaces/{self.place.namespace}"
            f"/virtualmachineinstances/{self.place.name(machine.name)}/reset"
        )
        try:
            self.site.cluster.request("PUT", path, body={})
        except ApiFailure as refused:
            raise InfraError(
                f"{machine.name} cannot be reset: {refused.message}",
                hint="grant update on virtualmachineinstances/reset in subresources.kubevirt.io; KubeVirt has it "
                "since v1.6",
            ) from refused

    def _another_boot(self, machine: Machine, before: str, deadline: Deadline) -> str:
        def probe() -> str | NotYet:
            try:
                status, output = self._on(machine, BOOT_ID)
            except VmatrixError as error:
                return NotYet(error.summary)
            if status != 0:
                return NotYet(f"ssh: {output or f'status {status}'}")
            return output if output != before else NotYet("it has not gone down")

        what = f"{machine.name} to take logins after its restart"
        return self._patiently(probe, what, deadline, "its console, logs/MACHINE-console.log of the cell")

    def _wait_for_nodes(self, machines: Sequence[Machine], boots: BootIds, deadline: Deadline) -> None:
        self.tell(f"wait for {', '.join(m.name for m in machines)}")
        expected = {machine.name: boots[machine.name] for machine in machines}
        probe = partial(_nodes_are_back, self.kubeconfig, expected)
        what = f"{', '.join(expected)} to be Ready after the restart"
        self._patiently(probe, what, deadline, "journalctl --boot -u kubelet on the machine")

    def _patiently(self, probe: Callable[[], T | NotYet], what: str, deadline: Deadline, look: str) -> T:
        try:
            return until(probe, deadline=deadline, what=what, interval=INTERVAL)
        except TimedOut as late:
            hint = f"the cluster must come back without help; look at {look}"
            raise ProductError(late.summary, hint=hint, detail=late.detail) from late


def _on_each(work: Callable[[Machine], T], machines: Sequence[Machine]) -> dict[str, T]:
    """Do the same with each machine at once; return the answers by name, or raise the first machine's error."""
    try:
        return dict(zip([m.name for m in machines], in_parallel(work, machines), strict=True))
    except BaseExceptionGroup as group:
        raise flatten(group) from group


def _nodes_are_back(kubeconfig: Path, boots: BootIds) -> bool | NotYet:
    """Tell whether each node reports the boot id of its machine and is Ready."""
    try:
        api = Cluster.from_kubeconfig(kubeconfig)
        nodes = {node["metadata"]["name"]: node for node in api.list(NODE).items}
    except VmatrixError as error:
        return NotYet(f"the API: {error.summary}")
    for name, boot in boots.items():
        node = nodes.get(name)
        if node is None:
            return NotYet(f"there is no Node {name}")
        if dig(node, "status", "nodeInfo", "bootID") != boot:
            return NotYet(f"the kubelet of {name} has not reported since")
        if not is_condition(node, "Ready", "True"):
            return NotYet(f"{name} is not Ready")
    return True
