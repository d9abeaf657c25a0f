"""What anybody may ask of the aggregated API: what it is and what it serves."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from harness.embedded.subresources import discovery
from harness.embedded.subresources.operations import SERVED

ANYBODYS = frozenset({"/", "/apis", "/healthz", f"/apis/{discovery.GROUP}"}) | {
    f"/apis/{discovery.GROUP}/{version}{path}"
    for version in discovery.VERSIONS
    for path in ("", "/version", "/guestfs", "/healthz")
}


def described(path: str) -> web.Response:
    """Answer what anybody may ask."""
    group = f"/apis/{discovery.GROUP}"
    if path == "/":
        return web.json_response({"paths": ["/apis", group, "/healthz"]})
    if path == "/apis":
        return web.json_response(discovery.groups())
    if path == group:
        return web.json_response(discovery.group())
    version, _, last = path.removeprefix(f"{group}/").partition("/")
    if version in discovery.VERSIONS and not last:
        return web.json_response(discovery.resources(version, SERVED))
    if last == "version":
        return web.json_response(discovery.release())
    if last == "healthz" or path == "/healthz":
        return web.json_response({"apiserver": {"connectivity": "ok"}})
    return web.Response(status=HTTPStatus.NOT_FOUND, text="404: Page Not Found")
