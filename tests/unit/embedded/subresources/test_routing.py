"""Which requests find a route of the aggregated API, and what the others are told."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from harness.embedded.subresources.routing import ASYNCHRONOUS, VERBS, methods_of, refusal_without_route

VMIS = "virtualmachineinstances"


def test_every_operation_has_its_route() -> None:
    for method, plural, subresource in (*VERBS, *ASYNCHRONOUS):
        arguments = 1 if subresource == "portforward" else 0
        assert refusal_without_route(methods_of(plural, subresource, arguments), method) is None


def test_another_method_is_told_which_there_are() -> None:
    answer = refusal_without_route(methods_of("virtualmachines", "start"), "GET")
    assert answer is not None
    assert (answer.status, answer.headers["Allow"]) == (HTTPStatus.METHOD_NOT_ALLOWED, "PUT")


@pytest.mark.parametrize(
    ("plural", "subresource", "arguments"),
    [(VMIS, "portforward", 0), (VMIS, "portforward", 3), (VMIS, "pause", 1), (VMIS, "migrate", 0), ("pods", "log", 0)],
)
def test_what_is_no_path_is_not_found(plural: str, subresource: str, arguments: int) -> None:
    answer = refusal_without_route(methods_of(plural, subresource, arguments), "GET")
    assert answer is not None
    assert (answer.status, answer.text) == (HTTPStatus.NOT_FOUND, "404: Page Not Found")
