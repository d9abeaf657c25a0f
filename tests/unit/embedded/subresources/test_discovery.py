"""How an API server finds the aggregated API."""

from __future__ import annotations

import pytest

from harness.embedded.subresources import discovery


def test_the_endpoints_port_has_the_services_name() -> None:
    """An API server that routes to endpoints itself finds the port by its name."""
    service, endpoints = discovery.service(8444), discovery.endpoints("10.213.0.1", 8444)
    assert service["spec"]["ports"][0]["name"] == endpoints["ports"][0]["name"]
    assert endpoints["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"]


@pytest.mark.parametrize("version", discovery.VERSIONS)
def test_what_kubevirt_leaves_out_of_its_list_is_left_out(version: str) -> None:
    listed = [one["name"] for one in discovery.resources(version)["resources"]]
    assert "virtualmachineinstances/portforward" in listed
    assert "virtualmachines/portforward" not in listed
