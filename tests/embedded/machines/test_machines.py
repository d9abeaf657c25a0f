"""Real machines: they boot, can be logged in to, are kept apart, and go without a trace."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness import proc
from harness.embedded.machines import Machines, MachineSpec, cgroups, runtime
from harness.errors import InfraError
from harness.until import Deadline, NotYet, until
from tests.embedded.machines.conftest import INDEX, Lab

Remains = Callable[[], list[str]]


@dataclass(frozen=True)
class Trio:
    """Two machines in one namespace and one in another, all running."""

    one: MachineSpec
    two: MachineSpec
    other: MachineSpec


@pytest.fixture(scope="module")
def trio(lab: Lab) -> Iterator[Trio]:
    """Boot three machines, two of them neighbours."""
    specs = Trio(
        lab.spec("a1", namespace=1, host=2),
        lab.spec("a2", namespace=1, host=3),
        lab.spec("b1", namespace=2, host=2),
    )
    for spec in (specs.one, specs.two, specs.other):
        lab.machines.start(spec)
    for spec in (specs.one, specs.two, specs.other):
        lab.wait_for_login(spec)
    yield specs
    for spec in (specs.one, specs.two, specs.other):
        lab.machines.kill(spec.id)


@contextmanager
def listening(address: str, port: int) -> Iterator[int]:
    """Listen on a port of a host address, 0 for a free one; give its number."""
    with socket.create_server((address, port)) as server:
        yield server.getsockname()[1]


def _groups(lab: Lab, spec: MachineSpec) -> list[Path]:
    return cgroups.groups_of(lab.machines.names.machine(spec.id), cgroups.hierarchies())


def test_every_machine_runs_under_its_own_name(lab: Lab, trio: Trio) -> None:
    assert lab.machines.list() == ["a1", "a2", "b1"]
    for spec in (trio.one, trio.two, trio.other):
        assert lab.machines.status(spec.id).phase == "running"
        assert lab.ssh(spec, "hostname").stdout.strip() == spec.hostname


def test_a_machine_has_settled_without_a_failed_unit(lab: Lab, trio: Trio) -> None:
    assert lab.ssh(trio.one, "systemctl is-system-running --wait").stdout.strip() == "running"
    assert lab.ssh(trio.one, "systemctl --failed --no-legend --plain").stdout == ""


def test_no_machine_shares_its_identity(lab: Lab, trio: Trio) -> None:
    for command in (
        "cat /etc/machine-id",
        "cat /etc/ssh/ssh_host_ed25519_key.pub",
        "sudo cat /sys/class/net/eth0/address",
    ):
        seen = {lab.ssh(spec, command).stdout for spec in (trio.one, trio.two, trio.other)}
        assert len(seen - {""}) == 3, command


def test_neighbours_reach_each_other_and_the_instance_address(lab: Lab, trio: Trio) -> None:
    for target in (trio.two.address, str(lab.machines.names.instance_address)):
        assert lab.ssh(trio.one, f"sudo ping -c 1 -W 2 {target}").returncode == 0, target


def test_another_namespace_is_out_of_reach_even_with_routes_of_the_guests_making(lab: Lab, trio: Trio) -> None:
    names = lab.machines.names
    target = trio.other.address
    assert lab.ssh(trio.other, f"sudo ping -c 1 -W 2 {target}").returncode == 0  # it would answer
    for gateway in (str(names.host_address(1)), str(names.gateway(1))):
        attempt = (
            f"sudo ip route replace {target}/32 via {gateway} && ip route get {target};"
            f"sudo ping -c 1 -W 1 {target} > /dev/null && echo pinged;"
            f"timeout 1 bash -c '</dev/tcp/{target}/22' && echo connected;"
            f"sudo ip route del {target}/32"
        )
        done = lab.ssh(trio.one, attempt)
        assert f"{target} via {gateway}" in done.stdout
        assert "pinged" not in done.stdout
        assert "connected" not in done.stdout


def test_a_guest_cannot_borrow_an_address_of_the_other_namespace(lab: Lab, trio: Trio) -> None:
    names = lab.machines.names
    lab.ssh(trio.one, "sudo ip addr add 10.221.2.77/24 dev eth0")
    assert lab.ssh(trio.one, f"sudo ping -c 1 -W 1 -I 10.221.2.77 {names.instance_address}").returncode != 0
    assert lab.ssh(trio.one, f"sudo ping -c 1 -W 1 -I 10.221.2.77 {trio.other.address}").returncode != 0
    lab.ssh(trio.one, "sudo ip addr del 10.221.2.77/24 dev eth0")


def test_the_hosts_other_addresses_are_out_of_reach(lab: Lab, trio: Trio) -> None:
    names = lab.machines.names
    shown = proc.run(["ip", "-4", "-o", "addr", "show", "scope", "global"], timeout=10).stdout
    foreign = {line.split()[3].partition("/")[0] for line in shown.splitlines()}
    foreign -= {str(names.instance_address), str(names.host_address(1))}
    assert str(names.host_address(2)) in foreign
    attempts = [
        f"(sudo ip route add {address}/32 via {names.host_address(1)} && ping_it {address}) &" for address in foreign
    ]
    script = "ping_it() { echo tried; sudo ping -c 1 -W 1 $1 > /dev/null && echo reached $1; };" + " ".join(attempts)
    done = lab.ssh(trio.one, f"{script} wait")
    assert done.stdout.split() == ["tried"] * len(foreign), done.stderr


def test_a_guest_opens_connections_to_the_mirror_and_the_registry_alone(lab: Lab, trio: Trio) -> None:
    names = lab.machines.names
    here, instance = str(names.host_address(1)), str(names.instance_address)
    opened = {}
    for address, port in ((instance, 8080), (instance, 5000), (instance, 0), (here, 0), (here, 8080)):
        with listening(address, port) as number:
            done = lab.ssh(trio.one, f"timeout 2 bash -c '</dev/tcp/{address}/{number}'")
        opened[address, port] = done.returncode  # 124 is a time-out: dropped, neither refused nor connected
    assert opened == {(instance, 8080): 0, (instance, 5000): 0, (instance, 0): 124, (here, 0): 124, (here, 8080): 124}


def test_nothing_beyond_the_host_is_reached(lab: Lab, trio: Trio) -> None:
    done = lab.ssh(trio.one, "timeout 2 bash -c '</dev/tcp/192.0.2.1/80'")
    assert done.returncode != 0
    assert lab.ssh(trio.one, "cat /proc/sys/net/ipv4/ip_forward").stdout.strip() == "0"


def test_the_resolver_is_no_loopback_and_fails_at_once(lab: Lab, trio: Trio) -> None:
    assert lab.ssh(trio.one, "cat /etc/resolv.conf").stdout == "nameserver 10.221.1.254\n"
    done = lab.ssh(trio.one, "timeout 2 getent hosts example.invalid")
    assert done.returncode == 2  # not found; 124 would be a time-out


def test_a_machine_may_do_what_kubernetes_needs(lab: Lab, trio: Trio) -> None:
    needs = (
        "sysctl -q -w net.ipv4.ip_forward=0",
        "test -c /dev/kmsg",
        "sh -ec 'mkdir -p /o/l /o/u /o/w /o/m && mount -t overlay -o lowerdir=/o/l,upperdir=/o/u,workdir=/o/w o /o/m'",
        "sh -ec 'ip link add vx0 type vxlan id 1 dstport 4789 dev eth0 && ip link del vx0'",
        "sh -ec 'nft add table ip t && nft add chain ip t c \"{ type nat hook postrouting priority 100; }\"'",
        "sh -ec 'cd /sys/fs/cgroup; [ -d memory ] && cd memory; mkdir kube && echo $$ > kube/cgroup.procs'",
        "unshare --mount --pid --net --uts --ipc --fork true",
    )
    for command in needs:
        done = lab.ssh(trio.two, f"sudo {command}")
        assert done.returncode == 0, (command, done.stderr)


def test_memory_beyond_the_limit_kills_the_guests_process_and_not_the_machine(lab: Lab, trio: Trio) -> None:
    eat = "python3 -c 'x = b\"x\" * (700 << 20)'; echo status $?"
    assert lab.ssh(trio.two, eat).stdout.split() == ["status", "137"]
    assert lab.machines.status(trio.two.id).phase == "running"
    assert lab.ssh(trio.two, "true").returncode == 0


def test_a_machine_that_runs_is_not_started_twice(lab: Lab, trio: Trio) -> None:
    with pytest.raises(InfraError, match="is already running"):
        lab.machines.start(trio.one)
    assert lab.ssh(trio.one, "true").returncode == 0


def test_another_process_sees_the_same_machines(lab: Lab, trio: Trio) -> None:
    again = Machines(lab.directory / "state", INDEX)
    assert again.list() == lab.machines.list()
    assert again.status(trio.one.id).phase == "running"


def test_a_killed_machine_leaves_nothing_and_its_address_can_be_used_again_at_once(
    lab: Lab, trio: Trio, what_remains: Remains
) -> None:
    spec = lab.spec("c1", namespace=1, host=9)
    lab.machines.start(spec)
    lab.wait_for_login(spec)
    lock = runtime.lock_of(lab.directory / "state/machines/c1/root")
    assert lock.exists()
    lab.machines.kill(spec.id)
    assert not lock.exists()
    assert [line for line in what_remains() if "c1" in line] == []
    assert lab.machines.status(spec.id).phase == "absent"
    lab.machines.kill(spec.id)
    replacement = replace(lab.spec("c2", namespace=1, host=9), address=spec.address)
    lab.machines.start(replacement)
    lab.wait_for_login(replacement)
    lab.machines.kill(replacement.id)


def test_a_disk_that_was_made_larger_is_grown(lab: Lab, trio: Trio) -> None:
    spec = lab.spec("d1", namespace=1, host=10)
    proc.run(["truncate", "--size=12G", spec.disk], timeout=10)
    lab.machines.start(spec)
    lab.wait_for_login(spec)
    assert int(lab.ssh(spec, "df --output=size -BM / | tail -1").stdout.strip().rstrip("M")) > 11500
    lab.machines.kill(spec.id)


def test_debian_12_boots_as_well(lab: Lab, trio: Trio, older_golden: Path) -> None:
    spec = lab.spec("d2", namespace=1, host=14, golden=older_golden)
    lab.machines.start(spec)
    lab.wait_for_login(spec)
    assert 'VERSION_ID="12"' in lab.ssh(spec, "cat /etc/os-release").stdout
    assert lab.ssh(spec, "systemctl is-system-running --wait").stdout.strip() == "running"
    lab.machines.kill(spec.id)


def test_a_disk_that_cannot_be_booted_is_one_clear_error_and_leaves_nothing(lab: Lab, what_remains: Remains) -> None:
    spec = lab.spec("e1", namespace=1, host=11)
    spec.disk.write_bytes(bytes(1 << 20))
    with pytest.raises(InfraError, match="no GPT partition table"):
        lab.machines.start(spec)
    assert [line for line in what_remains() if "e1" in line] == []
    assert lab.machines.status(spec.id).phase == "absent"


def test_a_machine_whose_nspawn_is_killed_has_exited_with_its_last_lines(lab: Lab, trio: Trio) -> None:
    spec = lab.spec("f1", namespace=1, host=12)
    lab.machines.start(spec)
    lab.wait_for_login(spec)
    pid = runtime.supervisor(lab.machines.names.machine(spec.id), _groups(lab, spec))
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    status = until(
        lambda: s if (s := lab.machines.status(spec.id)).phase == "exited" else NotYet(s.phase),
        deadline=Deadline.after(20),
        what="the machine to exit",
        interval=0.05,
    )
    assert "cloud-init" in status.detail or "Reached target" in status.detail
    lab.machines.kill(spec.id)
    assert lab.machines.status(spec.id).phase == "absent"


def test_a_machine_that_powers_itself_off_has_exited(lab: Lab, trio: Trio) -> None:
    spec = lab.spec("f2", namespace=1, host=13)
    lab.machines.start(spec)
    lab.wait_for_login(spec)
    lab.ssh(spec, "sudo systemctl poweroff --no-block")
    until(
        lambda: True if lab.machines.status(spec.id).phase == "exited" else NotYet("it runs"),
        deadline=Deadline.after(30),
        what="the machine to exit",
        interval=0.1,
    )
    lab.machines.kill(spec.id)


def test_a_sweep_finds_everything_when_all_files_are_lost(lab: Lab, trio: Trio, what_remains: Remains) -> None:
    folder = lab.directory / "state" / "machines"
    for entry in [path for path in folder.glob("*/*") if path.name != "root"]:
        entry.unlink()
    shutil.rmtree(lab.directory / "state" / "run")
    assert lab.machines.list() == ["a1", "a2", "b1"]
    Machines(lab.directory / "state", INDEX).sweep()
    assert what_remains() == []
    assert not folder.exists()
