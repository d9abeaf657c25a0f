"""Digests of plain data, and in which order sets give machines up. More about digests is in test_properties.py."""

from __future__ import annotations

from typing import Any

from harness.operator.api.cluster import AppliedState
from harness.operator.decide.desired import digest_of, next_hop
from tests.unit.operator.api import objects
from tests.unit.operator.decide.wishes import MACHINES, deployed, wish


def test_a_whole_number_is_the_same_with_and_without_a_point() -> None:
    assert digest_of({"a": [2.0, {"b": -0.0}]}) == digest_of({"a": [2, {"b": 0}]})
    assert digest_of({"a": 2.5}) != digest_of({"a": 2})
    assert digest_of({"a": 1}) != digest_of({"a": True})


def test_a_digest_is_short_enough_to_compare_by_eye() -> None:
    assert digest_of({}) == "44136fa355b3678a"


def test_sets_give_up_what_is_not_ready_then_what_is_marked_then_the_last() -> None:
    ready = [one.model_copy(update={"status": one.status.model_copy(update={"phase": "Ready"})}) for one in MACHINES]
    marked = ready[1].metadata.model_copy(update={"annotations": {"cluster.vmatrix.dev/delete-me": "it is noisy"}})
    ready[1] = ready[1].model_copy(update={"metadata": marked})
    assert wish(machines=tuple(ready)).scale_in == ("w-1", "w-2", "cp-0")
    ready[0] = MACHINES[0]
    assert wish(machines=tuple(ready)).scale_in[0] == "cp-0"


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
