"""Machines that boot again from their own disk: on their own account, and after their power was cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.embedded.machines import MachineSpec
from harness.embedded.node.guests import Guests, boots_again, ended_well
from harness.until import Deadline, NotYet, until
from tests.embedded.machines.conftest import Lab


@pytest.fixture(scope="module")
def machine(lab: Lab) -> Iterator[MachineSpec]:
    """Boot one machine."""
    spec = lab.spec("ab1", namespace=1, host=21)
    lab.machines.start(spec)
    lab.wait_for_login(spec)
    yield spec
    lab.machines.kill(spec.id)


def said(lab: Lab, spec: MachineSpec, command: str) -> str:
    done = lab.ssh(spec, command)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def identity(lab: Lab, spec: MachineSpec) -> tuple[str, ...]:
    return tuple(
        said(lab, spec, command)
        for command in (
            "cat /etc/machine-id",
            "cat /etc/ssh/ssh_host_ed25519_key.pub",
            "cat /sys/class/net/eth0/address",
            "hostname",
        )
    )


def wait_for_end(lab: Lab, spec: MachineSpec) -> None:
    until(
        lambda: True if lab.machines.status(spec.id).phase == "exited" else NotYet("it runs"),
        deadline=Deadline.after(60),
        what="the machine to end",
        interval=0.1,
    )


def test_a_machine_that_reboots_is_the_same_and_nothing_of_its_memory_is_left(lab: Lab, machine: MachineSpec) -> None:
    before, boot = identity(lab, machine), said(lab, machine, "cat /proc/sys/kernel/random/boot_id")
    said(lab, machine, "sudo sh -ec 'echo kept > /var/kept; echo gone > /run/gone; ip link add left type bridge'")
    lab.ssh(machine, "sudo systemctl reboot --no-block")
    wait_for_end(lab, machine)
    status = lab.machines.status(machine.id)
    assert (boots_again(status), ended_well(status)) == (True, False), status.detail
    lab.machines.restart(machine)
    lab.wait_for_login(machine)
    assert identity(lab, machine) == before
    assert said(lab, machine, "cat /proc/sys/kernel/random/boot_id") != boot
    assert said(lab, machine, "cat /var/kept; ls /run/gone 2>&1 || true; ip -o link").count("kept") == 1
    assert lab.ssh(machine, "ls /run/gone || ip link show left").returncode != 0


def test_a_machine_reboots_when_its_instance_is_asked_to(lab: Lab, machine: MachineSpec) -> None:
    guests = Guests(lab.machines)
    guests.reboot(machine.id)
    wait_for_end(lab, machine)
    assert boots_again(lab.machines.status(machine.id))
    guests.restart(machine, lambda: False)
    assert lab.machines.status(machine.id).phase == "exited"
    guests.restart(machine, lambda: True)
    lab.wait_for_login(machine)


def test_a_machine_whose_power_is_cut_boots_again_with_what_it_had_written(lab: Lab, machine: MachineSpec) -> None:
    before = identity(lab, machine)
    said(lab, machine, "sudo sh -ec 'echo synced > /var/synced; sync /var/synced'")
    lab.machines.cut(machine.id)
    status = lab.machines.status(machine.id)
    assert (status.phase, boots_again(status)) == ("exited", True), status.detail
    lab.machines.restart(machine)
    lab.wait_for_login(machine)
    assert identity(lab, machine) == before
    assert said(lab, machine, "cat /var/synced") == "synced"


def test_a_machine_that_is_off_does_not_boot_again_by_itself(lab: Lab, machine: MachineSpec) -> None:
    lab.ssh(machine, "sudo systemctl poweroff --no-block")
    wait_for_end(lab, machine)
    status = lab.machines.status(machine.id)
    assert (boots_again(status), ended_well(status)) == (False, True), status.detail
