"""Who asks the aggregated API."""

from __future__ import annotations

from typing import Any, cast

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from harness.embedded.subresources.authentication import Trust, asker_of, trust_of
from harness.errors import InfraError
from harness.kube.client import Cluster
from harness.kube.resources import VM, VMI, Resource

Json = dict[str, Any]
TRUST = Trust("PEM", frozenset({"front-proxy-client"}), ("X-Remote-User",), ("X-Remote-Group",), ("X-Remote-Extra-",))
FRONT = {"subject": ((("organizationName", "o"),), (("commonName", "front-proxy-client"),))}


def headers(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


def test_the_api_server_says_who_asks() -> None:
    found = asker_of(
        TRUST,
        FRONT,
        headers(
            ("X-Remote-User", "ann"),
            ("X-Remote-Group", "dev"),
            ("X-Remote-Group", "system:authenticated"),
            ("X-Remote-Extra-Example.org%2fjob", "7"),
        ),
    )
    assert found is not None
    assert (found.user, found.groups) == ("ann", ("dev", "system:authenticated"))
    assert found.extra == {"example.org/job": ("7",)}


@pytest.mark.parametrize("peer", [None, {}, {"subject": ((("commonName", "somebody"),),)}])
def test_nobody_else_does(peer: Json | None) -> None:
    assert asker_of(TRUST, peer, headers(("X-Remote-User", "system:admin"))) is None


def test_without_a_user_nobody_asks() -> None:
    assert asker_of(TRUST, FRONT, headers(("X-Remote-Group", "system:masters"))) is None


class Api:
    """A cluster with a machine and perhaps its instance; keeps what is patched."""

    def __init__(self, vm: Json | None = None, vmi: Json | None = None, config: Json | None = None) -> None:
        self.objects = {VM: vm, VMI: vmi}
        self.config = config
        self.patches: list[tuple[str, Any]] = []

    def get(self, resource: Resource, _name: str, _namespace: str) -> Json | None:
        return self.objects.get(resource, self.config)

    def request(self, _method: str, path: str, *, body: Any, query: Json, content_type: str) -> None:
        assert content_type == "application/json-patch+json"
        self.patches.append((path.rsplit("/", 1)[1], body))


def test_a_cluster_that_does_not_aggregate_is_named() -> None:
    with pytest.raises(InfraError, match="names no request-header authority"):
        trust_of(cast(Cluster, Api(config={"data": {"client-ca-file": "PEM"}})))
