"""Names and addresses of machines and their networks."""

from __future__ import annotations

import pytest

from harness.embedded.machines.names import Names
from harness.embedded.node.guests import LAST_HOST


def test_each_instance_owns_a_network_of_its_own() -> None:
    networks = {Names(index).instance_network for index in range(16)}
    assert len(networks) == 16
    assert str(Names(0).instance_network) == "10.213.0.0/16"
    assert str(Names(15).instance_address) == "10.228.0.1"


def test_a_namespace_has_a_network_a_gateway_and_the_host_in_it() -> None:
    names = Names(2)
    assert str(names.network(7)) == "10.215.7.0/24"
    assert str(names.host_address(7)) == "10.215.7.1"
    assert str(names.gateway(7)) == "10.215.7.254"


@pytest.mark.parametrize("index", [-1, 16])
def test_an_index_without_addresses_is_refused(index: int) -> None:
    with pytest.raises(ValueError, match="instance index"):
        Names(index)


@pytest.mark.parametrize("namespace", [0, 251])
def test_a_namespace_index_without_addresses_is_refused(namespace: int) -> None:
    with pytest.raises(ValueError, match="namespace index"):
        Names(0).network(namespace)


@pytest.mark.parametrize("machine_id", ["", "xyz", "0123456789", "../a", "A1"])
def test_an_id_that_would_not_fit_into_names_is_refused(machine_id: str) -> None:
    with pytest.raises(ValueError, match="hex digits"):
        Names(0).machine(machine_id)


def test_the_longest_interface_names_fit_into_the_kernels_15_characters() -> None:
    names = Names(15)
    assert len(names.host_link(250) + "t") <= 15
    assert len(names.bridge_port("123456789")) <= 15


def test_a_machine_is_known_again_by_its_name() -> None:
    names = Names(1)
    assert names.machine_id(names.machine("a1")) == "a1"
    assert names.machine_id("vmx11-a1") is None
    assert names.machine_id("vmx1-a1.suffix") is None
    assert names.machine_id("user.slice") is None


def test_a_network_namespace_is_known_again_by_its_name() -> None:
    names = Names(1)
    assert names.netns_owner(names.bridge_netns(3)) == (3, "")
    assert names.netns_owner(names.machine_netns(250, "beef")) == (250, "beef")
    assert names.netns_owner("vmx11-n3") is None
    assert names.netns_owner("vmx1-n3-a1-b") is None


def test_no_machine_gets_an_address_that_load_balancers_may_have() -> None:
    first, last = Names(2).spare_addresses(7)
    assert (str(first), str(last)) == ("10.215.7.240", "10.215.7.253")
    assert int(first) & 255 > LAST_HOST
    assert int(last) & 255 < int(Names(2).gateway(7)) & 255
