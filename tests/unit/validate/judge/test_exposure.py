"""Ports that are open beyond the role's, and what the next start would set otherwise, are found."""

from __future__ import annotations

import pytest

from harness.validate.findings import Unjudged, real
from harness.validate.judge.exposure import open_ports, wrong_boot
from tests.unit.validate import foreign, guests
from tests.unit.validate.changes import put
from tests.unit.validate.guests import Change
from tests.unit.validate.on_disk import files


def listens(address: str, port: int, program: str) -> Change:
    return lambda raw: raw["listening"].append([address, port, program])


@pytest.mark.parametrize("judge", [open_ports, wrong_boot])
def test_only_a_well_guest_passes(judge: object) -> None:
    assert callable(judge)
    assert judge(files(), guests.expected()) == []
    assert judge({}, guests.expected())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (listens("0.0.0.0", 6445, "haproxy"), "w-0 haproxy: expected only ports 10250, 10256 open to others"),  # noqa: S104 - what was seen
        (listens("*", 10249, "kube-proxy"), "saw *:10249"),
        (listens("10.222.1.3", 2379, "etcd"), "saw 10.222.1.3:2379"),
        (lambda raw: raw.update(listening=[]), "w-0: expected programs of the cluster that listen"),
    ],
)
def test_a_port_that_is_open_beyond_the_role_is_found(change: Change, words: str) -> None:
    (found,) = open_ports(files(change), guests.expected())
    assert words in str(found)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.53%lo", "::1"])
def test_loopback_is_for_everybody(address: str) -> None:
    assert open_ports(files(listens(address, 4321, "kubelet")), guests.expected()) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("at_boot/settings/net.ipv4.ip_forward", ""), "w-0 sysctl.d: expected net.ipv4.ip_forward '1'; saw ''"),
        (put("at_boot/settings/net.ipv4.ip_forward", "0"), "saw '0'"),
        (put("at_boot/modules", ["overlay"]), "w-0 modules-load.d: expected names br_netfilter True"),
        (put("at_boot/target", "rescue.target"), "w-0 systemd: expected a default target with services"),
        (put("at_boot/hostname", "other"), "w-0 /etc/hostname: expected the machine's name 'w-0'; saw 'other'"),
        (put("at_boot/swaps", ["/swap.img"]), "w-0 /etc/fstab: expected swap (); saw ('/swap.img',)"),
    ],
)
def test_what_the_next_start_would_set_otherwise_is_found(change: Change, words: str) -> None:
    (found,) = wrong_boot(files(change), guests.expected())
    assert words in str(found)


def test_what_a_product_does_not_say_is_not_judged_but_for_swap() -> None:
    wanted = foreign.expected(foreign.UNSAID)
    (ports,) = open_ports(files(listens("*", 9999, "kubelet")), wanted)
    assert isinstance(ports, Unjudged)
    assert ports.whole
    assert real(wrong_boot(files(put("at_boot/modules", [])), wanted)) == []
    assert real(wrong_boot(files(put("at_boot/swaps", ["/swap.img"])), wanted))
