"""The way of an upgrade, hop by hop."""

from __future__ import annotations

from typing import Any

from harness.operator.api.applied import AppliedState
from harness.operator.decide.hops import next_hop
from tests.unit.operator.api import objects
from tests.unit.operator.decide.wishes import deployed, wish

MIRROR = {"mirror": "http://192.0.2.1:8080", "registry": "192.0.2.1:5000"}


def applied(**spec: Any) -> AppliedState:
    found = deployed(wish(**spec)).applied
    assert found is not None
    return found


def test_a_hop_is_one_minor_with_the_versions_that_belong_to_it() -> None:
    hop = next_hop(wish(version="1.36.3"), applied(version="1.34.4"))
    assert (hop.version, hop.last, hop.variables["cluster_coredns_version"]) == ("1.35.4", False, "1.13.1")
    last = next_hop(wish(version="1.36.3"), applied(version="1.35.4"))
    assert (last.version, last.last, last.variables) == ("1.36.3", True, wish(version="1.36.3").variables)


def test_settings_wait_for_the_last_hop_and_sources_do_not() -> None:
    one = wish(version="1.36.3", variables={"a": 1}, source={**objects.SOURCE, **MIRROR})
    hop = next_hop(one, applied(version="1.34.4"))
    assert "a" not in hop.variables
    assert hop.variables["cluster_image_registry"] == "192.0.2.1:5000"
    assert next_hop(one, applied(version="1.35.4")).variables["a"] == 1


def test_components_change_with_the_last_hop_and_etcd_never_goes_back() -> None:
    before = applied(version="1.34.4", components={"etcd": "3.6.7", "runc": "1.4.0"})
    hop = next_hop(wish(version="1.36.3"), before)
    assert hop.variables["cluster_runc_version"] == "1.4.0"
    assert hop.variables["cluster_etcd_version"] == "3.6.7"  # the table has 3.6.6 for 1.35.4
