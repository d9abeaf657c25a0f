"""The recorded requests to KubeVirt's aggregated API, answered by ours: what it accepts, in which words it refuses."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict, CIMultiDictProxy

from harness.embedded.faults import Faults
from harness.embedded.node.guests import Guests
from harness.embedded.subresources import server
from harness.embedded.subresources.portforward import OpenTunnels
from harness.embedded.subresources.routing import ASYNCHRONOUS, VERBS, Parts
from harness.embedded.subresources.server import SubresourceServer, Trust, asker_of, trust_of
from harness.errors import InfraError
from harness.kube.resources import CONFIG_MAP
from tests.unit.fake_cluster import FakeCluster

Json = dict[str, Any]
ROOT = "/apis/subresources.kubevirt.io/v1"
RECORDED = Path(__file__).parents[3] / "contract" / "recorded" / "subresources-accept.json"
REQUESTS: list[Json] = json.loads(RECORDED.read_text(encoding="utf-8"))["requests"]
UNACCEPTED = 406  # left out: not imitated, as every client of ours takes anything (docs/decisions/contract.md)
UNSERVED = ("vnc", "guestfs")  # screens, and the image of a tool of virtctl's


async def answer(asked: Json, monkeypatch: pytest.MonkeyPatch) -> web.Response:
    """Return the answer of an API in a cluster without machines, to somebody who may do everything."""
    empty = FakeCluster()
    parts = Parts(empty, cast(Guests, None), OpenTunnels(), Faults())
    context = cast(ssl.SSLContext, None)
    loop = asyncio.get_running_loop()
    ours = SubresourceServer(("127.0.0.1", 0), context, cast(Trust, None), parts, _loop=loop)

    async def allowed(*_: object) -> None:
        return None

    monkeypatch.setattr(ours, "_refusal", allowed)
    path = f"{ROOT}/namespaces/n/{asked['path']}" if "none" in asked["path"] else f"{ROOT}/{asked['path']}".rstrip("/")
    headers = {"Accept": asked["accept"]} if asked["accept"] is not None else {}
    request = make_mocked_request(asked["method"], path, headers=headers)
    monkeypatch.setattr(request, "_read_bytes", b"")
    found = await server._errors(request, ours._answer)
    ours.workers.shutdown()
    assert isinstance(found, web.Response)
    return found


@pytest.mark.parametrize(
    "asked",
    [one for one in REQUESTS if not one["path"].endswith(UNSERVED) and one["code"] != UNACCEPTED],
    ids=lambda one: f"{one['method']} {one['path']} {one['accept']}",
)
def test_a_request_is_answered_as_recorded(asked: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    found = asyncio.run(answer(asked, monkeypatch))
    plain = asked["type"].startswith("text/plain")
    said = found.text if plain else json.loads(found.text or "").get("message", "")
    assert (found.status, found.content_type, said) == (asked["code"], asked["type"].partition(";")[0], asked["said"])


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


def test_a_cluster_that_does_not_aggregate_is_named() -> None:
    named = {"name": server.AUTHORITY_NAME, "namespace": server.AUTHORITY_NAMESPACE}
    with pytest.raises(InfraError, match="names no request-header authority"):
        trust_of(FakeCluster({CONFIG_MAP: [{"metadata": named, "data": {"client-ca-file": "PEM"}}]}))


def test_the_endpoints_port_has_the_services_name() -> None:
    """An API server that routes to endpoints itself finds the port by its name."""
    service, endpoints = server.service(8444), server.endpoints("10.213.0.1", 8444)
    assert service["spec"]["ports"][0]["name"] == endpoints["ports"][0]["name"]
    assert endpoints["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"]


RECORDED_DISCOVERY = Path(__file__).parents[3] / "contract" / "recorded" / "subresources-discovery.json"


@pytest.mark.parametrize("version", server.VERSIONS)
def test_what_is_served_is_listed_as_kubevirt_lists_it(version: str) -> None:
    recorded = json.loads(RECORDED_DISCOVERY.read_text(encoding="utf-8"))["resources"][version]
    served = {f"{plural}/{subresource}" for _, plural, subresource in (*VERBS, *ASYNCHRONOUS)}
    listed = [one["name"] for one in server.resources(version)["resources"]]
    assert listed == [name for name in recorded if name in served]
    assert served - {*listed} == {"virtualmachines/portforward"}
