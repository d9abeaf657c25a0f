"""A bootable image is built from Debian packages and boots in a virtual machine, with BIOS and with UEFI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import paths, proc
from harness.artifacts.disk import ImageCache, load
from harness.artifacts.disk.build import BIOS_TYPE, BOOTABLE_ROOT_START, CORE_START, ESP_START, ESP_TYPE, ROOT_TYPE
from harness.embedded.machines.disk import Partition, partitions
from tests.bootable.machine import Guest, booted, require_programs

IMAGE = "debian-13-vm"
CONVERT_SECONDS = 120.0
# What kubelet, kube-proxy, flannel and containerd load
MODULES = "overlay br_netfilter nf_tables nft_chain_nat vxlan xt_comment xt_MASQUERADE"


@pytest.fixture(scope="module")
def image() -> Path:
    """Return the image, from the cache or built."""
    require_programs()
    if os.geteuid() != 0:
        pytest.fail("building disk images needs root")
    cache = ImageCache()
    return cache.path(cache.ensure(load(paths.project_dir() / "matrix" / "images.yml").find(IMAGE), print))


@pytest.fixture(scope="module", params=["bios", "uefi"])
def guest(request: pytest.FixtureRequest, image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """Boot the image with either firmware."""
    folder = tmp_path_factory.mktemp(request.param) / "vm"
    with booted(image, folder, firmware=request.param) as machine:
        assert ("secureboot: Secure boot enabled" in machine.run("sudo dmesg")) == (request.param == "uefi")
        yield machine


def test_cloud_init_gives_the_machine_its_name_and_its_user(guest: Guest) -> None:
    assert guest.run("cloud-init status --wait") == "status: done"
    assert guest.run("hostname; sudo id -un").split() == ["cp-0", "root"]


def test_the_root_grows_to_the_disk_and_is_checked_and_mounted_by_its_id(guest: Guest) -> None:
    size, source = guest.run("findmnt --noheadings --bytes --output SIZE,SOURCE /").split()
    assert int(size) > 13 << 30
    assert source == "/dev/vda1"
    assert guest.run("cut -d' ' -f1 /etc/fstab").removeprefix("UUID=") == guest.run("findmnt -no UUID /")


def test_nothing_fails_at_its_start(guest: Guest) -> None:
    assert guest.run("systemctl is-system-running --wait; systemctl --failed --no-legend") == "running"


def test_the_network_comes_from_dhcp_with_name_servers(guest: Guest) -> None:
    assert guest.run("ip -4 -brief address show scope global").split()[2].startswith("10.0.2.15/")
    assert "10.0.2.3" in guest.run("resolvectl dns")


def test_the_guest_agent_answers(guest: Guest) -> None:
    assert guest.agent("guest-get-osinfo")["id"] == "debian"
    assert guest.agent("guest-get-host-name")["host-name"] == "cp-0"


def test_the_serial_console_shows_the_boot_and_a_login(guest: Guest) -> None:
    assert "Linux version 6." in guest.console()
    assert "cp-0 login:" in guest.console()


def test_the_kernel_has_what_a_node_needs(guest: Guest) -> None:
    assert guest.run(f"sudo modprobe --all {MODULES} && echo loaded") == "loaded"
    programs = "/usr/sbin/conntrack /usr/sbin/haproxy /usr/sbin/nft"
    assert guest.run(f"ls {programs}").split() == programs.split()


def test_the_root_is_the_last_partition_behind_the_boot_loaders(image: Path, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    proc.run(["qemu-img", "convert", "-O", "raw", image, raw], timeout=CONVERT_SECONDS)

    found = {str(each.type).upper(): each for each in partitions(raw)}

    assert _place(found[ROOT_TYPE]) == (1, BOOTABLE_ROOT_START)
    assert _place(found[BIOS_TYPE]) == (14, CORE_START)
    assert _place(found[ESP_TYPE]) == (15, ESP_START)
    assert len(found) == 3


def _place(partition: Partition) -> tuple[int, int]:
    return partition.number, partition.start
