"""Whether a request finds its route, by the rules and in the words of go-restful, with which KubeVirt serves its API.

KubeVirt declares per route what it produces. What acts on a machine and the ways into one produce nothing that has a
name, so that only a request that takes anything (`*/*`) finds them; what is only read is JSON.
The routes are those of KubeVirt v1.9.0 (pkg/virt-api/api.go), the rules those of go-restful v3 (jsr311.go, route.go).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from harness.embedded.subresources.operations import ASYNCHRONOUS, VERBS, VMIS, Operation

JSON = "application/json"
ANYTHING = "*/*"
NO_PAGE = "404: Page Not Found"
READ: frozenset[Operation] = frozenset({("GET", VMIS, "guestosinfo")})
ARGUMENTS = {"portforward": (1, 2)}  # how many words follow a subresource in the path: a port, and its protocol


@dataclass(frozen=True)
class Route:
    """One method of one path, and the media types that it produces."""

    method: str
    produces: tuple[str, ...] = ()


def routes_of(plural: str, subresource: str, arguments: int = 0) -> list[Route]:
    """Return the routes of a subresource's path with so many words behind it; none where there is no such path."""
    if arguments not in ARGUMENTS.get(subresource, (0,)):
        return []
    return [
        Route(operation[0], (JSON,) if operation in READ else ())
        for operation in (*VERBS, *ASYNCHRONOUS)
        if operation[1:] == (plural, subresource)
    ]


def described(path: str) -> list[Route]:
    """Return the routes of a path by which the API describes itself."""
    return [Route("GET", () if path == "/healthz" else (JSON,))]


def lost(routes: Sequence[Route], method: str, accept: str) -> web.Response | None:
    """Return the answer to a request that finds none of its path's routes, None when it finds one.

    Args:
        accept: the request's header; "" where it has none.
    """
    if not routes:
        return web.Response(status=HTTPStatus.NOT_FOUND, text=NO_PAGE)
    found = [route for route in routes if route.method == method]
    if not found:
        allowed = {"Allow": ", ".join(dict.fromkeys(route.method for route in routes))}
        return web.Response(status=HTTPStatus.METHOD_NOT_ALLOWED, text="405: Method Not Allowed", headers=allowed)
    if any(_accepted(route, accept or ANYTHING) for route in found):
        return None
    available = ", ".join(name for route in found for name in route.produces)
    text = f"406: Not Acceptable\n\nAvailable representations: {available}"
    return web.Response(status=HTTPStatus.NOT_ACCEPTABLE, text=text)


def _accepted(route: Route, accept: str) -> bool:
    names = {name.partition(";")[0].strip(" ") for name in accept.split(",")}
    return ANYTHING in names or not names.isdisjoint(route.produces)
