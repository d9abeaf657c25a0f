"""Networks of namespaces and addresses of pods."""

from __future__ import annotations

from typing import Any, cast

import pytest

from harness.embedded.node.addresses import NETWORK_INDEX, Addresses
from harness.errors import InfraError
from harness.kube.client import Cluster
from harness.kube.informer import Informer
from harness.kube.resources import NAMESPACE, POD

Json = dict[str, Any]


class Api:
    """Answers the merge patches of namespaces."""

    def __init__(self) -> None:
        self.patches: list[str] = []

    def merge(self, _: object, name: str, patch: Json) -> Json:
        self.patches.append(name)
        return {"metadata": {"name": name, "resourceVersion": "100", **patch["metadata"]}}

    def get(self, _: object, name: str) -> Json | None:
        return None


def addresses(namespaces: list[Json], launchers: list[Json]) -> Addresses:
    api = cast(Cluster, Api())
    of_namespaces, of_pods = Informer(api, NAMESPACE), Informer(api, POD)
    for number, found in enumerate(namespaces, 1):
        found["metadata"].setdefault("resourceVersion", str(number))
        of_namespaces.observe(found)
    for number, found in enumerate(launchers, 1):
        found["metadata"].setdefault("resourceVersion", str(number))
        of_pods.observe(found)
    return Addresses(api, of_namespaces, of_pods, 213)


def namespace(name: str, index: int | None = None) -> Json:
    meta: Json = {"name": name}
    if index is not None:
        meta["annotations"] = {NETWORK_INDEX: str(index)}
    return {"metadata": meta}


def pod(uid: str, address: str | None = None) -> Json:
    status = {"podIP": address} if address else {}
    return {"metadata": {"name": uid, "namespace": "a", "uid": uid}, "status": status}


def test_namespace_keeps_the_network_that_is_written_on_it() -> None:
    assert addresses([namespace("a", 7)], []).network("a") == 7


def test_new_namespace_gets_the_first_free_network() -> None:
    found = addresses([namespace("a", 1), namespace("b", 3), namespace("c")], [])
    assert found.network("c", on_host=[2]) == 4
    assert found.network("c") == 4
    assert found.claimed() == {1, 3, 4}


def test_namespace_that_is_gone_or_going_gets_no_network() -> None:
    going = namespace("b")
    going["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    found = addresses([going], [])
    with pytest.raises(InfraError, match="is gone"):
        found.network("a")
    with pytest.raises(InfraError, match="being deleted"):
        found.network("b")


def test_networks_run_out_with_a_message() -> None:
    with pytest.raises(InfraError, match="all 249 VM networks"):
        addresses([namespace("a")], []).network("a", on_host=range(1, 251))


def test_addresses_are_unique_and_stable() -> None:
    launchers = [pod("p1", "10.213.1.2"), pod("p2"), pod("p3")]
    found = addresses([namespace("a", 1)], launchers)
    given = [found.address(p, 1) for p in launchers]
    assert given[0] == "10.213.1.2"
    assert len(set(given)) == 3
    assert [found.address(p, 1) for p in launchers] == given


def test_freed_address_is_not_given_at_once() -> None:
    found = addresses([namespace("a", 1)], [])
    assert found.address(pod("p1"), 1) == "10.213.1.2"
    assert found.address(pod("p2"), 1) == "10.213.1.3"


def test_full_network_is_said() -> None:
    launchers = [pod(f"p{n}", f"10.213.1.{n}") for n in range(2, 254)]
    with pytest.raises(InfraError, match="no free address"):
        addresses([namespace("a", 1)], launchers).address(pod("new"), 1)
