"""Names of API servers: what their certificates lack, who keeps their virtual address, and how it is kept."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.unit.playbooks.playbook_files import module
from tests.unit.playbooks.test_templates import render

FILTERS = module("filter_plugins/names_and_networks.py")
# As kubeadm 1.36.3 signs for the configuration of the inventory cp1-w1.
KUBEADM = (
    *("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"),
    *("localhost", "cp", "10.95.0.1", "127.0.0.1"),
)


def certificate(*names: str) -> str:
    """Return a certificate of these names and addresses, as PEM."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    named: list[x509.GeneralName] = [
        x509.IPAddress(ip_address(one)) if re.fullmatch("[0-9a-f.:]*[0-9:]", one) else x509.DNSName(one)
        for one in names
    ]
    made = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName(named), critical=False)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the machine's own address in its configuration."""
    text = configuration(tmp_path_factory.mktemp("own"))
    found = re.search(r'advertiseAddress: "([^"]+)"', text)
    assert found is not None
    return found[1]


def configuration(place: Path, **more: Any) -> str:
    return (render("cp1-w1", place, frozenset({"kubeadm.yml"}), **more) / "kubeadm.yml").read_text(encoding="utf-8")


def test_a_certificate_of_kubeadm_lacks_nothing(tmp_path: Path, own: str) -> None:
    assert FILTERS.other_names(certificate(*KUBEADM, own), configuration(tmp_path)) == {"missing": [], "surplus": []}


def test_names_that_are_wanted_and_names_that_are_not_any_more_are_told(tmp_path: Path, own: str) -> None:
    wanted = ["api.example.com", "192.0.2.50", "fd00:0::50"]
    text = configuration(tmp_path, cluster_api_extra_sans=wanted)
    assert FILTERS.other_names(certificate(*KUBEADM, own, "old.example.com"), text) == {
        "missing": ["192.0.2.50", "api.example.com", "fd00::50"],
        "surplus": ["old.example.com"],
    }
    assert FILTERS.other_names(certificate(*KUBEADM, own, "api.example.com", "192.0.2.50", "fd00::50"), text) == {
        "missing": [],
        "surplus": [],
    }


LINKS = [{}, {"ifname": "eth0", "addr_info": [{"local": "10.0.0.2", "prefixlen": 24}]}]


@pytest.mark.parametrize(
    ("address", "there"), [("10.0.0.50", True), ("10.0.1.50", False), ("fd00::50", False), ("10.0.0.2", True)]
)
def test_an_address_is_on_the_network_of_an_interface(address: str, there: bool) -> None:
    assert bool(FILTERS.networks_around(LINKS, address)) is there


def test_one_of_several_control_planes_has_the_address(tmp_path: Path) -> None:
    only = frozenset({"keepalived.conf"})
    text = (render("cp3-w1", tmp_path, only, cluster_api_virtual_address="10.0.0.50") / "keepalived.conf").read_text()
    assert "  interface eth0\n" in text
    assert "    10.0.0.50/32\n" in text
    (peers,) = re.findall(r"unicast_peer \{\n(.*?)  \}", text, re.DOTALL)
    (source,) = re.findall(r"unicast_src_ip (\S+)", text)
    assert len(peers.split()) == 2
    assert source not in peers.split()
    assert "https://127.0.0.1:6443/readyz" in text


@pytest.mark.parametrize(("own", "peer"), [("10.0.0.2", "127.0.0.1"), ("fd00::2", "fd00::50")])
def test_a_lone_control_plane_sends_nothing_to_other_clusters(own: str, peer: str, tmp_path: Path) -> None:
    only, asked = frozenset({"keepalived.conf"}), {"cluster_api_virtual_address": "fd00::50"}
    made = render("cp1-w1", tmp_path, only, **asked, virtual_address_own=own) / "keepalived.conf"
    text = made.read_text(encoding="utf-8")
    assert re.findall(r"unicast_src_ip (\S+)", text) == [own]
    assert re.findall(r"unicast_peer \{\n *(\S+)\n  \}", text) == [peer], "without one it would use multicast"
    assert "    fd00::50/128\n" in text, "an address of IPv6 has its own prefix"
