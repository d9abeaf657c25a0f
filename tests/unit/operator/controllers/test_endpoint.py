"""Which control planes an endpoint leads to, and which kubeconfig people get meanwhile."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Unpack

import pytest

from harness.kube.api import RequestOptions
from harness.kube.client import ApiFailure
from harness.kube.objects import owner_reference
from harness.kube.resources import SECRET, TLS_ROUTE
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT
from harness.operator.context import OperatorContext
from harness.operator.controllers.endpoint import EndpointController
from harness.operator.controllers.guest import another_server, people_secret_name, secret_name
from harness.operator.controllers.machine_phase import is_down
from tests.unit.fake_cluster import FakeCluster
from tests.unit.operator.api.objects import deployment
from tests.unit.operator.controllers.looks import given

Json = dict[str, Any]


def said(kind: str, status: str) -> Json:
    return {"type": kind, "status": status, "reason": "x"}


@pytest.mark.parametrize(
    ("phase", "conditions", "down"),
    [
        ("Ready", [], False),
        ("Deployed", [], False),  # nothing is known of its node
        ("NotReady", [], True),
        ("Lost", [], True),
        ("Deployed", [said("Answering", "False")], True),
        ("Deployed", [said("Answering", "Unknown")], False),
        ("Ready", [said("InfrastructureReady", "False")], True),
        ("Ready", [said("InfrastructureReady", "Unknown")], False),
    ],
)
def test_a_control_plane_is_down_by_what_is_known_of_it(phase: str, conditions: list[Json], down: bool) -> None:
    machine = given("m-0", phase)
    machine["status"]["conditions"] = conditions
    assert is_down(machine) is down


def plane(name: str, address: str, phase: str, role: str = "control-plane") -> Json:
    made = given(name, phase)
    made["spec"]["address"], made["status"]["roles"] = address, [role]
    return made


KUBECONFIG = b"clusters: [{name: a, cluster: {server: 'https://192.0.2.10:6443'}}]"


@pytest.mark.parametrize(
    ("first", "second", "server"),
    [
        ("Ready", "Ready", None),
        ("Deployed", "Ready", None),  # nobody knows that it is down
        ("NotReady", "Ready", "https://192.0.2.11:6443"),
        ("Lost", "Deployed", "https://192.0.2.11:6443"),
        ("NotReady", "NotReady", None),
    ],
)
def test_the_operator_goes_to_another_control_plane_where_its_own_is_down(
    first: str, second: str, server: str | None
) -> None:
    machines = [plane("m-0", "192.0.2.10", first), plane("m-1", "192.0.2.11", second)]
    workers = [plane("m-2", "192.0.2.9", "Ready", "worker")]
    assert another_server(KUBECONFIG, [*workers, *machines]) == server


@pytest.mark.parametrize("text", [b"", b"{", b"clusters: []", b"clusters: [{name: a}]"])
def test_a_kubeconfig_that_cannot_be_read_is_left_to_who_opens_it(text: bytes) -> None:
    assert another_server(text, [plane("m-0", "192.0.2.10", "Lost")]) is None


KEY = ("default", "guest")
NAMES = ["guest-api", "guest-api.default", "guest-api.default.svc"]


class Infra(FakeCluster):
    """An API without the Gateway API."""

    def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Any:
        if path == f"/apis/{TLS_ROUTE.group}":
            raise ApiFailure(404, "NotFound", "the server could not find the requested resource", [], request=method)
        return super().request(method, path, **options)


class World:
    """A deployed cluster whose endpoint is a Service, and the controller."""

    def __init__(self) -> None:
        wanted = deployment()
        wanted["metadata"]["uid"] = "uid-of-wish"
        cluster = {
            "metadata": {
                "name": KEY[1],
                "namespace": KEY[0],
                "uid": "uid-of-cluster",
                "ownerReferences": [owner_reference(wanted, CLUSTER_DEPLOYMENT)],
            },
            "status": {"applied": {"variables": {"cluster_api_extra_sans": NAMES}}},
        }
        value = base64.b64encode(KUBECONFIG).decode()
        own = {"metadata": {"name": secret_name(KEY[1]), "namespace": KEY[0]}, "data": {"value": value}}
        self.api = Infra({CLUSTER_DEPLOYMENT: [wanted], CLUSTER: [cluster], SECRET: [own]})
        self.context = OperatorContext.of(self.api, Path("none"))
        self.controller = EndpointController(self.context)
        for kind in (CLUSTER_DEPLOYMENT, CLUSTER):
            self.context.informers.of(kind).observe(self.api.all(kind)[0])

    def look(self, **endpoint: Any) -> Json:
        """Look at the cluster with an endpoint; return its state."""
        before = self.api.all(CLUSTER_DEPLOYMENT)[0]
        spec = {**before["spec"], "endpoint": endpoint or {"type": "Local"}}
        wanted = self.api.replace(CLUSTER_DEPLOYMENT, {**before, "spec": spec})
        self.context.informers.of(CLUSTER_DEPLOYMENT).observe(wanted)
        self.controller.reconcile(KEY)
        state: Json = self.api.all(CLUSTER)[0]["status"].get("endpoint") or {}
        return state

    @property
    def for_people(self) -> bool:
        return self.api.get(SECRET, people_secret_name(KEY[1]), KEY[0]) is not None


@pytest.mark.parametrize("way", [{"type": "Gateway", "gatewayRef": {"name": "edge"}}, {"type": "Ingress"}])
def test_the_kubeconfig_of_a_former_endpoint_goes_whatever_comes_next(way: Json) -> None:
    world = World()
    assert (world.look(type="Service")["url"], world.for_people) == (f"https://{NAMES[-1]}:6443", True)
    state = world.look(**way, host="api.example.com")
    assert (state["type"], state["ready"], state.get("url"), world.for_people) == (way["type"], False, None, False)
    world.look(type="Service")
    assert world.for_people, "taken back"
    assert (world.look(), world.for_people) == ({}, False)


def test_a_secret_for_people_that_is_anothers_is_said_and_left() -> None:
    world = World()
    others = {"metadata": {"name": people_secret_name(KEY[1]), "namespace": KEY[0]}, "data": {"value": ""}}
    world.api.put(SECRET, others)
    state = world.look(type="Service")
    assert (state["ready"], state["reason"]) == (False, "NameInUse")
    assert "Secret guest-user-kubeconfig for the kubeconfig of the endpoint is another object's" in state["message"]
    world.look()
    assert world.for_people
