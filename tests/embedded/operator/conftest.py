"""A real API server with the operator's kinds, a namespace per test, managers in this process, and a played kubelet.

The embedded infrastructure's own Node runs machines and nothing else: executors' pods are bound to it by the real
scheduler and nothing of them runs. `played.py` says of them what a kubelet would; the real Job controller does the
rest.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest

from harness.infra.embedded.provider import EmbeddedProvider
from harness.kube.client import Cluster
from harness.kube.ensure import ensure
from harness.kube.failures import ApiFailure
from harness.kube.objects import dig
from harness.kube.resources import CRD, NAMESPACE, Resource
from harness.operator.api.crds import crds
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE, MACHINE_SET
from harness.operator.context import OperatorContext, OperatorOptions
from harness.operator.controllers import machine
from harness.operator.registry import chosen, start, stop
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.logins import PlayedLogins
from tests.embedded.operator.played import WAIT_SECONDS, PlayedKubelet
from tests.embedded.operator.recorded import RecordedCluster
from tests.embedded.operator.world import MINE, OPTIONS, World

KINDS = (CLUSTER_DEPLOYMENT, CLUSTER, MACHINE_SET, MACHINE)
StartManager = Callable[..., OperatorContext]


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


@pytest.fixture
def namespace(api: Cluster) -> Iterator[str]:
    """Return a fresh namespace; it and everything in it is deleted after the test, whatever finalizers are there."""
    name = f"operator-{secrets.token_hex(3)}"
    api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    api.delete(NAMESPACE, name)
    for kind in KINDS:
        for obj in api.list(kind, name).items:
            if dig(obj, "metadata", "finalizers"):
                api.merge(kind, obj["metadata"]["name"], {"metadata": {"finalizers": None}}, name)


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
