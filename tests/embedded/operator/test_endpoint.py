"""A Service in front of the control planes of a declared cluster, on a real API server."""

from __future__ import annotations

import pytest

from harness.kube.client import Json
from harness.kube.objects import dig
from harness.kube.resources import ENDPOINT_SLICE, SERVICE, Resource
from harness.operator.api.resources import MACHINE
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.embedded.operator.recorded import RecordedCluster
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
