"""The recorded requests to KubeVirt's aggregated API, answered by ours: what it accepts, in which words it refuses."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from harness.embedded.faults import Faults
from harness.embedded.node.guests import Guests
from harness.embedded.subresources import server
from harness.embedded.subresources.authentication import Trust
from harness.embedded.subresources.portforward import OpenTunnels
from harness.embedded.subresources.routing import Parts
from harness.embedded.subresources.server import SubresourceServer
from harness.kube.client import Cluster

Json = dict[str, Any]
ROOT = "/apis/subresources.kubevirt.io/v1"
RECORDED = Path(__file__).parents[3] / "contract" / "recorded" / "subresources-accept.json"
REQUESTS: list[Json] = json.loads(RECORDED.read_text(encoding="utf-8"))["requests"]
UNSERVED = ("vnc", "guestfs")  # screens, and the image of a tool of virtctl's


async def answer(asked: Json, monkeypatch: pytest.MonkeyPatch) -> web.Response:
    """Return the answer of an API in a cluster without machines, to somebody who may do everything."""
    empty = cast(Cluster, SimpleNamespace(get=lambda *_: None))
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
    [one for one in REQUESTS if not one["path"].endswith(UNSERVED)],
    ids=lambda one: f"{one['method']} {one['path']} {one['accept']}",
)
def test_a_request_is_answered_as_recorded(asked: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    found = asyncio.run(answer(asked, monkeypatch))
    plain = asked["type"].startswith("text/plain")
    said = found.text if plain else json.loads(found.text or "").get("message", "")
    assert (found.status, found.content_type, said) == (asked["code"], asked["type"].partition(";")[0], asked["said"])
