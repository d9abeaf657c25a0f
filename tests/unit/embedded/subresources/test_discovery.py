"""How an API server finds the aggregated API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.embedded.subresources import discovery
from harness.embedded.subresources.routing import SERVED


def test_the_endpoints_port_has_the_services_name() -> None:
    """An API server that routes to endpoints itself finds the port by its name."""
    service, endpoints = discovery.service(8444), discovery.endpoints("10.213.0.1", 8444)
    assert service["spec"]["ports"][0]["name"] == endpoints["ports"][0]["name"]
    assert endpoints["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"]


RECORDED = Path(__file__).parents[3] / "contract" / "recorded" / "subresources-discovery.json"


@pytest.mark.parametrize("version", discovery.VERSIONS)
def test_what_is_served_is_listed_as_kubevirt_lists_it(version: str) -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))["resources"][version]
    served = {f"{plural}/{subresource}" for plural, subresource in SERVED}
    listed = [one["name"] for one in discovery.resources(version)["resources"]]
    assert listed == [name for name in recorded if name in served]
    assert served - {*listed} == {"virtualmachines/portforward"}
