"""What stands in front of control planes."""

from __future__ import annotations

from typing import Any

from harness.operator.controllers.endpoint import Backend, objects_of
from tests.unit.operator.api.objects import deployment

Json = dict[str, Any]


def made(*planes: Backend) -> tuple[Json, Json]:
    owner = deployment(name="guest", namespace="ns")
    owner["metadata"]["uid"] = "u"
    service, endpoints = objects_of(owner, planes)
    return service, endpoints


def ready(*planes: Backend) -> dict[str, bool]:
    return {one["addresses"][0]: one["conditions"]["ready"] for one in made(*planes)[1]["endpoints"]}


def test_a_service_without_a_selector_and_a_slice_of_its_name() -> None:
    service, endpoints = made(Backend("192.0.2.11"))
    assert service["metadata"]["name"] == endpoints["metadata"]["name"] == "guest-api"
    assert service["spec"] == {"ports": [{"name": "https", "port": 6443, "protocol": "TCP", "targetPort": 6443}]}
    assert endpoints["metadata"]["labels"]["kubernetes.io/service-name"] == "guest-api"
    assert endpoints["ports"] == [{"name": "https", "port": 6443, "protocol": "TCP"}]
    for one in (service, endpoints):
        assert [owner["uid"] for owner in one["metadata"]["ownerReferences"]] == ["u"]


def test_a_control_plane_that_is_down_is_not_asked() -> None:
    assert ready(Backend("192.0.2.12", down=True), Backend("192.0.2.11")) == {"192.0.2.11": True, "192.0.2.12": False}


def test_where_all_are_down_all_are_asked() -> None:
    assert ready(Backend("192.0.2.12", down=True), Backend("192.0.2.11", down=True)) == {
        "192.0.2.11": True,
        "192.0.2.12": True,
    }


def test_addresses_are_of_one_family() -> None:
    assert made(Backend("192.0.2.11"))[1]["addressType"] == "IPv4"
    assert made(Backend("2001:db8::1"))[1]["addressType"] == "IPv6"
