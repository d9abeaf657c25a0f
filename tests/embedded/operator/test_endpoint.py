"""Ways to the API of a declared cluster, on a real API server; what load balancers and Gateways answer is played."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from harness.kube.client import Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import (
    ENDPOINT_SLICE,
    GATEWAY,
    INGRESS,
    INGRESS_CLASS,
    SECRET,
    SERVICE,
    Resource,
)
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE
from harness.operator.controllers import endpoint as controller_of_endpoints
from harness.operator.decide import endpoint as decide
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.embedded.operator.recorded import RecordedCluster
from tests.embedded.operator.served_kinds import LISTENER, TLS_ROUTES, serving_gateways
from tests.unit.operator.api.objects import wanted_set

ADDRESSES = {"m-0": "192.0.2.10", "m-1": "192.0.2.11"}


def there(declared: Declared, kind: Resource) -> Json:
    """Return the Service or the slice once it is there."""

    def probe() -> Json | NotYet:
        return declared.api.get(kind, "one-api", declared.namespace) or NotYet("there is none")

    return until(probe, deadline=Deadline.after(WAIT_SECONDS), what=f"{kind.kind} one-api", interval=INTERVAL)


def ready(declared: Declared, **wanted: bool) -> None:
    """Wait until the slice says of each Machine's address whether it is ready."""
    expected = {ADDRESSES[name.replace("_", "-")]: value for name, value in wanted.items()}

    def probe() -> bool | NotYet:
        found = declared.api.get(ENDPOINT_SLICE, "one-api", declared.namespace)
        said = {one["addresses"][0]: dig(one, "conditions", "ready") for one in dig(found, "endpoints") or ()}
        return said == expected or NotYet(f"{said}")

    until(probe, deadline=Deadline.after(WAIT_SECONDS), what=f"endpoints {expected}", interval=INTERVAL)


@pytest.fixture
def published(declared: Declared, manager: StartManager) -> Declared:
    """Return objects with a cluster of two control planes that is published as a Service."""
    manager("endpoint")
    cp = wanted_set("cp", "control-plane", replicas=3)
    made = declared.deployment("one", cp, loadBalancer={"type": "Service"})
    for name, address in ADDRESSES.items():
        claim = {"cluster": "one", "set": "cp", "uid": made["metadata"]["uid"]}
        declared.machine(name, address=address, claim=claim)
        phase(declared, name, "Ready")
    declared.worked("one", "deploy", *ADDRESSES)
    ready(declared, m_0=True, m_1=True)
    return declared


def phase(declared: Declared, name: str, word: str) -> None:
    status = {"status": {"phase": word, "roles": ["control-plane"]}}
    declared.api.merge(MACHINE, name, status, declared.namespace, subresource="status")


def test_the_service_leads_to_the_control_planes_that_are_not_down(published: Declared) -> None:
    assert dig(there(published, SERVICE), "spec", "selector") is None
    assert dig(there(published, SERVICE), "spec", "ports")[0]["port"] == 6443
    phase(published, "m-0", "NotReady")
    ready(published, m_0=False, m_1=True)
    phase(published, "m-1", "NotReady")
    ready(published, m_0=True, m_1=True)


@pytest.mark.parametrize("kind", [SERVICE, ENDPOINT_SLICE])
def test_what_somebody_deletes_or_changes_comes_back(published: Declared, kind: Resource) -> None:
    uid = there(published, kind)["metadata"]["uid"]
    published.api.delete(kind, "one-api", published.namespace)
    until(
        lambda: there(published, kind)["metadata"]["uid"] != uid or NotYet("it is the old one"),
        deadline=Deadline.after(WAIT_SECONDS),
        what="another one",
        interval=INTERVAL,
    )
    ports = [{"name": "https", "port": 6444, "protocol": "TCP"}]
    body = {"spec": {"ports": ports}} if kind is SERVICE else {"ports": ports}
    published.api.merge(kind, "one-api", body, published.namespace)

    def back() -> bool | NotYet:
        found = there(published, kind)
        said = (dig(found, "spec", "ports") or found["ports"])[0]["port"]
        return said == 6443 or NotYet(f"{said}")

    until(back, deadline=Deadline.after(WAIT_SECONDS), what="the port", interval=INTERVAL)


def test_an_idle_manager_writes_nothing(published: Declared, manager: StartManager, client: RecordedCluster) -> None:
    (controller,) = manager("endpoint", client=client).controllers
    until(
        lambda: (controller.reconciles > 0 and not len(controller.queue)) or NotYet("it is at work"),
        deadline=Deadline.after(WAIT_SECONDS),
        what="an idle manager",
        interval=INTERVAL,
    )
    assert client.writes() == []


# --- other types -------------------------------------------------------------------------------------------------
KUBECONFIG: Json = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "one", "cluster": {"server": "https://192.0.2.10:6443"}}],
}
NAMES = ["one-api", "one-api.{0}", "one-api.{0}.svc"]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what no event tells of looked at soon."""
    monkeypatch.setattr(controller_of_endpoints, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(controller_of_endpoints, "AGAIN_SECONDS", 0.2)


@pytest.fixture
def led(declared: Declared, manager: StartManager, soon: None) -> Declared:
    """Return objects with a cluster of one control plane that asks for no endpoint yet."""
    made = declared.deployment("one", wanted_set("cp", "control-plane"))
    declared.machine("m-0", address="192.0.2.10", claim={"cluster": "one", "set": "cp", "uid": made["metadata"]["uid"]})
    phase(declared, "m-0", "Ready")
    declared.worked("one", "deploy", "m-0")
    data = {"value": base64.b64encode(yaml.safe_dump(KUBECONFIG).encode()).decode()}
    declared.api.create(SECRET, SECRET.manifest("one-kubeconfig", declared.namespace, labels={}, data=data))
    manager("endpoint")
    return declared


def edit(declared: Declared, **endpoint: Any) -> None:
    """Have another endpoint."""
    body = declared.api.get(CLUSTER_DEPLOYMENT, "one", declared.namespace)
    assert body is not None
    declared.api.replace(CLUSTER_DEPLOYMENT, {**body, "spec": {**body["spec"], "endpoint": endpoint}})


def sign(declared: Declared, *names: str) -> None:
    """Have certificates name what is inside of the infra cluster, and more."""
    inside = [name.format(declared.namespace) for name in NAMES]
    applied = {"variables": {"cluster_api_extra_sans": [*inside, *names]}}
    declared.api.merge(CLUSTER, "one", {"status": {"applied": applied}}, declared.namespace, subresource="status")


def state(declared: Declared, reason: str) -> Json:
    """Return the state of the endpoint once it has a reason."""

    def probe() -> Json | NotYet:
        found = dig(declared.api.get(CLUSTER, "one", declared.namespace), "status", "endpoint") or {}
        return found if found.get("reason") == reason else NotYet(f"{found}")

    return until(probe, deadline=Deadline.after(WAIT_SECONDS), what=f"the endpoint to be {reason}", interval=INTERVAL)


def server(declared: Declared, url: str | None) -> None:
    """Wait until the kubeconfig for people names a server; None: until there is no such kubeconfig."""

    def probe() -> bool | NotYet:
        found = declared.api.get(SECRET, "one-user-kubeconfig", declared.namespace)
        if found is None:
            return url is None or NotYet("there is none")
        named = yaml.safe_load(base64.b64decode(found["data"]["value"]))["clusters"][0]["cluster"]["server"]
        return named == url or NotYet(f"it names {named}")

    until(probe, deadline=Deadline.after(WAIT_SECONDS), what=f"a kubeconfig of {url}", interval=INTERVAL)
    own = declared.api.get(SECRET, "one-kubeconfig", declared.namespace)
    assert yaml.safe_load(base64.b64decode(dig(own, "data", "value"))) == KUBECONFIG, "the operator's stays"


def gone(declared: Declared, *kinds: Resource) -> None:
    for kind in kinds:
        until(
            lambda kind=kind: declared.api.get(kind, "one-api", declared.namespace) is None or NotYet("it is there"),  # type: ignore[misc]
            deadline=Deadline.after(WAIT_SECONDS),
            what=f"no {kind.kind}",
            interval=INTERVAL,
        )


def answer(declared: Declared, kind: Resource, status: Json) -> None:
    declared.api.merge(kind, "one-api", {"status": status}, declared.namespace, subresource="status")


def test_a_load_balancer_gives_the_address(led: Declared) -> None:
    edit(led, type="LoadBalancer", className="example.com/lb", annotations={"example.com/pool": "a"}, port=443)
    state(led, "WaitingForAddress")
    service = there(led, SERVICE)
    assert (service["spec"]["type"], service["spec"]["loadBalancerClass"]) == ("LoadBalancer", "example.com/lb")
    assert service["metadata"]["annotations"]["example.com/pool"] == "a"
    answer(led, SERVICE, {"loadBalancer": {"ingress": [{"ip": "192.0.2.70"}]}})
    found = state(led, "Ready")
    assert (found["ready"], found["address"], found.get("url")) == (True, "192.0.2.70", None)
    sign(led, "192.0.2.70")
    server(led, "https://192.0.2.70:443")
    edit(led, type="LoadBalancer", className="example.com/other")  # the class of a Service is fixed
    until(
        lambda: there(led, SERVICE)["spec"].get("loadBalancerClass") == "example.com/other" or NotYet("the old one"),
        deadline=Deadline.after(WAIT_SECONDS),
        what="another Service",
        interval=INTERVAL,
    )
    found = state(led, "WaitingForAddress")
    assert found["address"] == "192.0.2.70", "until there is another one"
    edit(led, type="Service")
    server(led, f"https://one-api.{led.namespace}.svc:6443")
    service = there(led, SERVICE)
    assert service["spec"]["type"] == "ClusterIP"
    assert service["spec"]["ports"][0]["port"] == 6443
    assert "example.com/pool" not in (service["metadata"].get("annotations") or {})
    edit(led, type="Local")
    gone(led, SERVICE, ENDPOINT_SLICE)
    server(led, None)


def test_no_load_balancer_is_said_after_a_while(led: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "WAIT_SECONDS", 0.5)
    edit(led, type="LoadBalancer")
    found = state(led, "NoLoadBalancer")
    assert found["ready"] is False
    assert "choose another type" in found["message"]


def test_what_the_infra_cluster_refuses_is_said(led: Declared) -> None:
    edit(led, type="LoadBalancer", address="192.0.2.70", annotations={f"example.com/{'a' * 64}": "c"})
    assert "the infra cluster refuses it" in state(led, "Refused")["message"]
    edit(led, type="Service")
    state(led, "Ready")


@pytest.fixture
def ingress_class(api: Cluster) -> Iterator[str]:
    spec = {"controller": "k8s.io/ingress-nginx"}
    api.create(INGRESS_CLASS, INGRESS_CLASS.manifest("edge-of-test", "", labels={}, spec=spec))
    yield "edge-of-test"
    api.delete(INGRESS_CLASS, "edge-of-test")


def test_an_ingress_passes_tls_through(led: Declared, ingress_class: str) -> None:
    edit(led, type="Ingress", host="api.example.com")
    assert "set spec.endpoint.className" in state(led, "NoIngressClass")["message"]
    edit(led, type="Ingress", host="api.example.com", className=ingress_class)
    state(led, "WaitingForAddress")
    notes = there(led, INGRESS)["metadata"]["annotations"]
    assert notes["nginx.ingress.kubernetes.io/ssl-passthrough"] == "true"
    answer(led, INGRESS, {"loadBalancer": {"ingress": [{"hostname": "edge.example.com"}]}})
    state(led, "Ready")
    sign(led, "api.example.com")
    server(led, "https://api.example.com:443")
    led.api.delete(INGRESS, "one-api", led.namespace)
    there(led, INGRESS)
    edit(led, type="VIP", address="192.0.2.50")
    state(led, "OnControlPlanes")
    gone(led, INGRESS, SERVICE, ENDPOINT_SLICE)
    server(led, None)
    sign(led, "192.0.2.50")
    server(led, "https://192.0.2.50:6443")


def test_a_virtual_address_that_another_machine_has_is_refused_by_its_name(led: Declared) -> None:
    led.machine("other", address="192.0.2.77")
    edit(led, type="VIP", address="192.0.2.77")
    said = state(led, "Taken")
    assert said["message"] == (f"192.0.2.77 is the address of Machine {led.namespace}/other: use one that nobody has")
    led.api.delete(MACHINE, "other", led.namespace)
    state(led, "OnControlPlanes")


@pytest.fixture
def gateway_api(api: Cluster) -> Iterator[None]:
    with serving_gateways(api):
        yield


def test_without_the_gateway_api_a_gateway_is_refused(led: Declared) -> None:
    edit(led, type="Gateway", host="api.example.com", gatewayRef={"name": "edge"})
    assert "install the Gateway API" in state(led, "NoGatewayAPI")["message"]


def test_a_gateway_has_a_route(gateway_api: None, led: Declared) -> None:
    edit(led, type="Gateway", host="api.example.com", gatewayRef={"name": "edge"})
    state(led, "NoGateway")
    led.api.create(GATEWAY, GATEWAY.manifest("edge", led.namespace, labels={}, spec={"listeners": [LISTENER]}))
    assert state(led, "WaitingForGateway")["port"] == 8443
    found = there(led, TLS_ROUTES)
    assert (found["spec"]["hostnames"], found["spec"]["parentRefs"]) == (["api.example.com"], [{"name": "edge"}])
    accepted = {"type": "Accepted", "status": "True", "reason": "Accepted", "message": ""}
    answer(led, TLS_ROUTES, {"parents": [{"conditions": [accepted]}]})
    state(led, "Ready")
    sign(led, "api.example.com")
    server(led, "https://api.example.com:8443")
    led.api.merge(TLS_ROUTES, "one-api", {"spec": {"hostnames": ["other.example.com"]}}, led.namespace)
    until(
        lambda: there(led, TLS_ROUTES)["spec"]["hostnames"] == ["api.example.com"] or NotYet("the other name"),
        deadline=Deadline.after(WAIT_SECONDS),
        what="the name to be put back",
        interval=INTERVAL,
    )
    edit(led, type="Local")
    gone(led, TLS_ROUTES, SERVICE)
