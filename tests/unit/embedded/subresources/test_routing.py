"""Which requests find a route of the aggregated API, and what the others are told."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from harness.embedded.subresources import routing
from harness.embedded.subresources.routing import SERVED, lost, routes_of

VMIS = "virtualmachineinstances"
NONE = "406: Not Acceptable\n\nAvailable representations: "


@pytest.mark.parametrize("accept", ["", "*/*", "application/json, */*", "text/plain;q=0.5, */*;q=0.1"])
def test_who_takes_anything_finds_every_route(accept: str) -> None:
    for plural, subresource in SERVED:
        arguments = 1 if subresource == "portforward" else 0
        for route in routes_of(plural, subresource, arguments):
            assert lost([route], route.method, accept) is None


@pytest.mark.parametrize("accept", ["application/json", "application/json;q=1", "text/plain,application/json"])
def test_json_alone_finds_what_is_read_and_nothing_else(accept: str) -> None:
    assert lost(routes_of(VMIS, "guestosinfo"), "GET", accept) is None
    assert lost(routing.described("/apis"), "GET", accept) is None
    answers = [
        lost(routes_of(VMIS, "portforward", 1), "GET", accept),
        lost(routes_of(VMIS, "pause"), "PUT", accept),
        lost(routing.described("/healthz"), "GET", accept),
    ]
    assert [(a.status, a.text) for a in answers if a] == [(HTTPStatus.NOT_ACCEPTABLE, NONE)] * 3


def test_a_refusal_names_what_there_is() -> None:
    answer = lost(routes_of(VMIS, "guestosinfo"), "GET", "application/yaml")
    assert answer is not None
    assert answer.text == f"{NONE}application/json"


def test_another_method_is_told_which_there_are() -> None:
    answer = lost(routes_of("virtualmachines", "start"), "GET", "application/json")
    assert answer is not None
    assert (answer.status, answer.headers["Allow"]) == (HTTPStatus.METHOD_NOT_ALLOWED, "PUT")


@pytest.mark.parametrize(
    ("plural", "subresource", "arguments"),
    [(VMIS, "portforward", 0), (VMIS, "portforward", 3), (VMIS, "pause", 1), (VMIS, "migrate", 0), ("pods", "log", 0)],
)
def test_what_is_no_path_is_not_found(plural: str, subresource: str, arguments: int) -> None:
    answer = lost(routes_of(plural, subresource, arguments), "GET", "*/*")
    assert answer is not None
    assert (answer.status, answer.text) == (HTTPStatus.NOT_FOUND, "404: Page Not Found")
