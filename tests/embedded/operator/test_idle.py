"""What a manager writes that has nothing to do: the first one beside a ready cluster, and one that takes over."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator

import pytest

from harness.kube.client import Cluster, Json
from harness.kube.informer import labels_of
from harness.kube.objects import condition, dig
from harness.kube.resources import NODE, SECRET
from harness.operator.api.resources import CLUSTER_DEPLOYMENT
from harness.operator.context import OperatorContext
from harness.operator.controllers.nodehealth import MACHINE_LABEL
from harness.operator.execute.inputs import state_name
from harness.operator.registry import NAMES, stop
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.logins import PlayedLogins
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS, PlayedKubelet
from tests.embedded.operator.recorded import RecordedCluster
from tests.embedded.operator.test_whole_life import SETS, join, ready
from tests.embedded.operator.world import OPTIONS, SUCCEEDED
from tests.unit.operator.api.objects import deployment

HOSTS = 3
# Inspections log in to machines that nobody plays here, each at its own time.
STEADY = tuple(name for name in NAMES if name != "inspection")


@pytest.fixture
def hosts(api: Cluster) -> Iterator[list[str]]:
    """Return hostnames that no other test has; their Nodes are gone after the test."""
    names = [f"{secrets.token_hex(3)}-{number}" for number in range(HOSTS)]
    yield names
    for name in names:
        api.delete(NODE, name)


def make_ready(infra: EmbeddedProvider, declared: Declared, kubelet: PlayedKubelet, hosts: list[str]) -> Json:
    """Bring a cluster to Ready on two of three Machines, with this API for its guest's."""
    api, namespace = declared.api, declared.namespace
    for number, host in enumerate(hosts):
        declared.machine(f"m-{number}", hostname=host, address=f"192.0.2.{number + 10}")
        join(api, host)
    api.create(CLUSTER_DEPLOYMENT, deployment(*SETS, name="guest", namespace=namespace))
    kubelet.run("guest-1-deploy")
    content = base64.b64encode(infra.kubeconfig().read_bytes()).decode()
    api.merge(SECRET, state_name("guest"), {"data": {"kubeconfig": content}}, namespace)
    kubelet.end("guest-1-deploy", message=SUCCEEDED)
    return declared.wait("guest", ready, "ready", CLUSTER_DEPLOYMENT)


def quiet(context: OperatorContext) -> bool | NotYet:
    """Tell whether no controller has anything to look at now."""
    busy = [one.name for one in context.controllers if one.queue.pending()]
    return NotYet(f"at work: {', '.join(busy)}") if busy else True


def test_a_manager_that_takes_over_writes_nothing_of_what_is_as_it_was(
    infra: EmbeddedProvider,
    declared: Declared,
    manager: StartManager,
    kubelet: PlayedKubelet,
    logins: PlayedLogins,
    hosts: list[str],
    client: RecordedCluster,
) -> None:
    first = manager(*STEADY, options=OPTIONS)
    make_ready(infra, declared, kubelet, hosts)
    used = {dig(declared.get(name), "spec", "hostname") for name in declared.claimed("guest")}
    assert len(used) == 2
    until(lambda: quiet(first), deadline=Deadline.after(WAIT_SECONDS), what="the first manager to rest")
    assert stop(first)
    for host in used:
        declared.api.merge(NODE, host, {"metadata": {"labels": {MACHINE_LABEL: None}}})

    second = manager(*STEADY, options=OPTIONS, client=client)

    def seen() -> bool | NotYet:
        late = [
            host for host in used if MACHINE_LABEL not in labels_of(declared.api.get(NODE, host) or {"metadata": {}})
        ]
        return NotYet(f"not seen: {late}") if late else True

    until(seen, deadline=Deadline.after(WAIT_SECONDS), what="the guest's Nodes to be seen", interval=INTERVAL)
    until(lambda: quiet(second), deadline=Deadline.after(WAIT_SECONDS), what="the second manager to rest")
    assert [f"{one.method} {one.path} {one.body}" for one in client.writes()] == []
    assert [one for one in client.asked if one.writes] == [], "Events, too"
    found = condition(declared.get("guest", CLUSTER_DEPLOYMENT), "Ready") or {}
    assert found["status"] == "True"
