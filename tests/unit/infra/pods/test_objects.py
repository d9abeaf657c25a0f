"""The objects of the machine that runs pods."""

from __future__ import annotations

from pathlib import Path

from harness.embedded.machines.names import PODS_NETWORK, Names
from harness.embedded.node import addresses
from harness.infra.pods import objects
from harness.infra.pods.machine import BootDisk, PodsMachine
from harness.model import Mirror

MACHINE = PodsMachine("vmatrix-a-pods", "", Mirror("http://m:8080", "r"), BootDisk("d.qcow2", "ab"), {}, Path())


def test_no_cell_gets_its_network() -> None:
    assert addresses.LAST_NETWORK < PODS_NETWORK
    assert Names(0).network(PODS_NETWORK) != Names(0).probe_network


def test_its_disk_is_checked_and_its_host_name_is_its_nodes() -> None:
    source = objects.disk(MACHINE)["spec"]["source"]["http"]
    assert source == {"url": "http://m:8080/images/d.qcow2", "checksum": "sha256:ab"}
    spec = objects.virtual_machine(MACHINE)["spec"]
    assert spec["runStrategy"] == "Once"
    assert spec["template"]["spec"]["hostname"] == "vmatrix-a-pods"
    assert [volume["name"] for volume in spec["template"]["spec"]["volumes"]] == ["root", "seed"]


def test_what_it_is_told_is_a_secret() -> None:
    made = objects.seed("#cloud-config\n", "ab")
    assert made["kind"] == "Secret"
    assert made["metadata"]["annotations"] == {"vmatrix.dev/certificates": "ab"}
