"""The KubeVirt part is killed, in every state of a machine's life; started again, it makes things right."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from harness.embedded.machines import Machines as Host
from harness.embedded.node.guests import machine_id
from harness.kube.client import Cluster
from harness.kube.resources import POD, VM, VMI
from tests.contract.machines import Machines
from tests.contract.transitions import Json
from tests.contract.volumes import wait_gone
from tests.embedded.kubevirt.part import Part

Wait = Callable[[Callable[[], object], str], object]
MAX_MIB = 300


def strategy(word: str) -> Callable[[Json], None]:
    def change(vm: Json) -> None:
        vm["spec"]["runStrategy"] = word

    return change


def instance(machines: Machines, name: str) -> Json:
    found = machines.cluster.get(VMI, name, machines.namespace)
    assert found is not None, f"instance {name} is not there"
    return found


def uid_of(machines: Machines, name: str) -> str:
    return str(instance(machines, name)["metadata"]["uid"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_running_machine_outlives_the_controllers(part: Part, machines: Machines, number: signal.Signals) -> None:
    machines.disk("m")
    machines.create("m")
    machines.wait_ready("m")
    login = machines.login("m")
    booted = machines.run(login, "cat /proc/sys/kernel/random/boot_id; cat /proc/1/stat | cut -d' ' -f22").stdout
    before = instance(machines, "m")

    part.signal(number)
    assert machines.run(login, "true").returncode == 0
    part.start()

    after = machines.run(login, "cat /proc/sys/kernel/random/boot_id; cat /proc/1/stat | cut -d' ' -f22").stdout
    assert after == booted
    assert instance(machines, "m")["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


PHASES = ["Pending", "Scheduling", "Scheduled", "Running"]


@pytest.mark.parametrize("phase", PHASES)
def test_killed_while_a_machine_starts(part: Part, machines: Machines, host: Host, wait: Wait, phase: str) -> None:
    machines.disk("m")
    machines.create("m")

    def reached() -> bool:
        found = machines.cluster.get(VMI, "m", machines.namespace) or {}
        seen = (found.get("status") or {}).get("phase", "")
        return seen in PHASES[PHASES.index(phase) :]

    wait(reached, f"the instance is {phase} or further")
    part.signal(signal.SIGKILL)
    part.start()

    machines.wait_ready("m")
    machines.login("m")
    assert host.list() == [machine_id(uid_of(machines, "m"))]


def test_deleted_while_the_controllers_were_dead(part: Part, machines: Machines, host: Host, cluster: Cluster) -> None:
    machines.disk("m")
    machines.create("m")
    machines.wait_ready("m")
    part.signal(signal.SIGKILL)
    cluster.delete(VM, "m", machines.namespace)
    part.start()
    wait_gone(cluster, VM, machines.namespace, "m")
    assert host.list() == []


def test_killed_while_a_machine_goes(part: Part, machines: Machines, host: Host, cluster: Cluster) -> None:
    machines.disk("m")
    machines.create("m")
    machines.wait_ready("m")
    cluster.delete(VM, "m", machines.namespace)
    part.signal(signal.SIGKILL)
    part.start()
    wait_gone(cluster, VM, machines.namespace, "m")
    assert host.list() == []


def test_machine_of_a_pod_that_vanished_is_killed(
    part: Part, machines: Machines, host: Host, cluster: Cluster, wait: Wait
) -> None:
    machines.disk("m")
    machines.create("m")
    machines.wait_ready("m")
    part.signal(signal.SIGKILL)
    cluster.delete(POD, machines.launcher("m")["metadata"]["name"], machines.namespace, grace=0)
    part.start()
    wait(lambda: host.list() == [], "the machine without a launcher is killed")
    wait(lambda: instance(machines, "m")["status"]["phase"] == "Failed", "the instance has failed")


def test_machine_that_dies_fails_its_instance(part: Part, machines: Machines, wait: Wait, cluster: Cluster) -> None:
    machines.disk("m")
    machines.create("m", strategy("Once"))
    machines.wait_ready("m")
    part.kill_machine(uid_of(machines, "m"))
    wait(lambda: instance(machines, "m")["status"]["phase"] == "Failed", "the instance has failed")
    wait(lambda: machines.status("m")["printableStatus"] == "Stopped", "the machine is Stopped")
    wait(lambda: machines.launcher("m")["status"]["phase"] == "Failed", "the launcher has failed")
    events = "\n".join(cluster.events_of(machines.namespace, "m"))
    assert "Warning Stopped: The VirtualMachineInstance crashed." in events


@pytest.mark.parametrize("word", ["Always", "RerunOnFailure"])
def test_machine_that_dies_is_started_again(part: Part, machines: Machines, wait: Wait, word: str) -> None:
    machines.disk("m")
    machines.create("m", strategy(word))
    machines.wait_ready("m")
    first = uid_of(machines, "m")
    part.kill_machine(first)

    def another() -> bool:
        found = machines.cluster.get(VMI, "m", machines.namespace)
        return found is not None and found["metadata"]["uid"] != first

    wait(another, "there is another instance")
    machines.wait_ready("m")
    machines.login("m")


@pytest.mark.parametrize("word", ["Once", "RerunOnFailure"])
def test_machine_that_is_shut_down_stays_down(machines: Machines, wait: Wait, cluster: Cluster, word: str) -> None:
    machines.disk("m")
    machines.create("m", strategy(word))
    machines.wait_ready("m")
    machines.run(machines.login("m"), "sudo systemctl poweroff")
    wait(lambda: machines.status("m")["printableStatus"] == "Stopped", "the machine is Stopped")
    events = "\n".join(cluster.events_of(machines.namespace, "m"))
    assert "Normal Stopped: The VirtualMachineInstance was shut down." in events


def test_guest_is_shut_down_within_its_grace_period(machines: Machines, cluster: Cluster) -> None:
    def patient(vm: Json) -> None:
        vm["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 30

    machines.disk("m")
    machines.create("m", patient)
    machines.wait_ready("m")
    machines.login("m")
    machines.delete("m")
    events = "\n".join(cluster.events_of(machines.namespace, "m"))
    assert "Normal ShuttingDown: Signaled Graceful Shutdown" in events


def test_controllers_stay_small(part: Part, machines: Machines) -> None:
    machines.disk("m")
    machines.create("m")
    machines.wait_ready("m")
    assert part.resident_mib() <= MAX_MIB
