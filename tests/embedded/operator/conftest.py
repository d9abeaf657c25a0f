"""A real API server with the operator's kinds, a namespace per test, managers in this process, and a played kubelet.

Nothing runs executors' pods: `played.py` says of them what a kubelet would, and `played_jobs.py` makes of that what the
Job controller would. A test that asks for the real one (`REAL_JOBS`) waits a second for each Job that ends.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
import yaml

from harness.kube.client import Cluster, Json
from harness.kube.failures import ApiFailure
from harness.kube.objects import dig, ensure
from harness.kube.resources import CRD, NAMESPACE, NODE, SECRET, SERVICE_ACCOUNT, Resource
from harness.operator.api.crds import crds
from harness.operator.api.resources import (
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    CLUSTER_NETWORK_POOL,
    CLUSTER_USER,
    DELIVERY,
    ETCD_BACKUP,
    ETCD_CLUSTER,
    ETCD_PEER,
    MACHINE,
    MACHINE_SET,
)
from harness.operator.context import OperatorContext, OperatorOptions
from harness.operator.controllers import guest as guest_nodes
from harness.operator.controllers import machine
from harness.operator.controllers.machine import Pace
from harness.operator.registry import chosen, start, stop
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.logins import PlayedLogins
from tests.embedded.operator.played import WAIT_SECONDS, PlayedKubelet
from tests.embedded.operator.played_jobs import PLAYED, hand_over, playing
from tests.embedded.operator.recorded import RecordedCluster
from tests.embedded.operator.relay import Relay
from tests.embedded.operator.world import MINE, OPTIONS, World

KINDS = (
    *(CLUSTER_DEPLOYMENT, CLUSTER, MACHINE_SET, MACHINE, ETCD_BACKUP, DELIVERY),
    *(CLUSTER_NETWORK_POOL, CLUSTER_USER, ETCD_CLUSTER, ETCD_PEER),
)
StartManager = Callable[..., OperatorContext]
NEVER = Pace(1e6, 1e6, 1e6)
REAL_JOBS = pytest.mark.parametrize("job_controller", ["real"], indirect=True)


@pytest.fixture(scope="session")
def api(cluster: Cluster) -> Cluster:
    """Return an administrator's client of an API that serves the operator's kinds."""
    for body in crds():
        ensure(cluster, CRD, body)
    for kind in KINDS:

        def listed(kind: Resource = kind) -> bool | NotYet:
            try:
                cluster.list(kind)
            except ApiFailure as failure:  # not served yet (404), or its storage is not ready (429)
                return NotYet(failure.summary)
            return True

        until(listed, deadline=Deadline.after(WAIT_SECONDS), what=f"{kind.plural} to be served", interval=0.05)
    return cluster


@pytest.fixture(scope="session")
def played_jobs(api: Cluster) -> Iterator[None]:
    """Play the Job controller of all namespaces that are to be played."""
    with fresh_namespace(api, PLAYED) as name:
        hand_over(api, name)
    with playing(api):
        yield


@pytest.fixture
def job_controller(request: pytest.FixtureRequest) -> str:
    """Return who makes of Jobs what becomes of them: "played", unless a test says "real"."""
    return str(getattr(request, "param", "played"))


@pytest.fixture
def namespace(api: Cluster, played_jobs: None, job_controller: str) -> Iterator[str]:
    """Return a fresh namespace; it and everything in it is deleted after the test, whatever finalizers are there."""
    with fresh_namespace(api, PLAYED if job_controller == "played" else {}) as name:
        yield name


@contextmanager
def fresh_namespace(api: Cluster, labels: dict[str, str]) -> Iterator[str]:
    """Give a namespace in which pods can be made at once; delete it and everything in it."""
    name = f"operator-{secrets.token_hex(3)}"
    meta = {"name": name, "labels": labels}
    api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    try:
        api.ensure(SERVICE_ACCOUNT, SERVICE_ACCOUNT.manifest("default", name, labels={}))
        yield name
    finally:
        api.delete(NAMESPACE, name)
        for kind in KINDS:
            for obj in api.list(kind, name).items:
                if dig(obj, "metadata", "finalizers"):
                    free(api, kind, obj)


def free(api: Cluster, kind: Resource, obj: Json) -> None:
    """Take the finalizers off an object, if it is still there."""
    meta = obj["metadata"]
    try:
        api.merge(kind, meta["name"], {"metadata": {"finalizers": None}}, meta["namespace"])
    except ApiFailure as failure:
        if not failure.not_found:
            raise


@pytest.fixture
def kubelet(api: Cluster, namespace: str) -> PlayedKubelet:
    """Return what plays the kubelet of the test's namespace."""
    return PlayedKubelet(api, namespace)


@pytest.fixture
def client(infra: EmbeddedProvider) -> RecordedCluster:
    """Return a client whose requests are the test's to watch and to disturb."""
    return RecordedCluster.open(infra.kubeconfig())


@pytest.fixture
def manager(infra: EmbeddedProvider, api: Cluster, namespace: str) -> Iterator[StartManager]:
    """Return what starts managers of the test's namespace; all of them are stopped after the test.

    It takes the names of controllers (none: all), `options`, and `client` (a client of the test's own making).
    """
    started: list[OperatorContext] = []

    def begin(*names: str, options: OperatorOptions | None = None, client: Cluster | None = None) -> OperatorContext:
        own = client or RecordedCluster.open(infra.kubeconfig())
        context = OperatorContext.of(own, infra.kubeconfig(), namespace=namespace, options=options)
        started.append(context)
        start(context, chosen(names))
        return context

    yield begin
    for context in started:
        stop(context)


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> PlayedLogins:
    """Return played logins, with which controllers of Machines that start from now on log in."""
    played = PlayedLogins()
    monkeypatch.setattr(machine, "ssh_probe", lambda _: played)
    monkeypatch.setattr(machine, "FINE", NEVER)  # tests count logins, however long they take
    return played


@pytest.fixture
def declared(api: Cluster, namespace: str) -> Declared:
    """Return the objects of the test's namespace."""
    return Declared(api, namespace)


@pytest.fixture
def world(api: Cluster, namespace: str, kubelet: PlayedKubelet) -> World:
    """Return the test's namespace, for one declared cluster."""
    return World(api, namespace, kubelet)


@pytest.fixture
def operator(manager: StartManager) -> OperatorContext:
    """Return a running manager with the controllers that need no machine."""
    return manager(*MINE, options=OPTIONS)


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a guest that does not answer asked again soon, and believed to be away after a second."""
    monkeypatch.setattr(guest_nodes, "LAST_RETRY_SECONDS", 0.2)
    monkeypatch.setattr(guest_nodes, "SILENT_SECONDS", 1.0)


@pytest.fixture
def relay(infra: EmbeddedProvider) -> Iterator[Relay]:
    """Return the way to the guest."""
    config = yaml.safe_load(infra.kubeconfig().read_text(encoding="utf-8"))
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    made = Relay(str(server.hostname), server.port or 443)
    yield made
    made.close()


@pytest.fixture
def host(api: Cluster) -> Iterator[str]:
    """Return a hostname that no other test has; its Node is gone after the test."""
    name = f"m-{secrets.token_hex(3)}"
    yield name
    api.delete(NODE, name)


@pytest.fixture
def guest(infra: EmbeddedProvider, declared: Declared, relay: Relay) -> Declared:
    """Return the objects of a namespace that has the guest's kubeconfig, over the relay."""
    config = yaml.safe_load(infra.kubeconfig().read_text(encoding="utf-8"))
    config["clusters"][0]["cluster"]["server"] = relay.url
    content = base64.b64encode(yaml.safe_dump(config).encode()).decode()
    body = SECRET.manifest("one-kubeconfig", declared.namespace, labels={}, data={"value": content})
    declared.api.create(SECRET, {**body, "type": "cluster.x-k8s.io/secret"})
    return declared
