"""A manager in a pod serves webhooks behind its Service: mistakes are refused when they are applied."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from harness.kube.client import ApiFailure, Cluster
from harness.kube.objects import condition, dig
from harness.kube.resources import DEPLOYMENT, MUTATING_WEBHOOK, NAMESPACE, POD, VALIDATING_WEBHOOK
from harness.operator.api.resources import CLUSTER_DEPLOYMENT
from harness.operator.api.rules import read
from harness.operator.decide.variables import load_releases
from harness.operator.manifests import LABELS, NAME, Installation, text
from harness.operator.webhooks.configurations import configuration_name
from harness.until import Deadline, NotYet, until
from tests.embedded.pods.conftest import Kubectl
from tests.embedded.pods.test_executor import executor_image
from tests.unit.operator.api.mistakes import BAD
from tests.unit.operator.api.objects import deployment

__all__ = ["executor_image"]
WAIT_SECONDS = 900.0  # against hanging: the first start of the image on a busy host
SELECTOR = ",".join(f"{key}={value}" for key, value in LABELS.items())


@pytest.fixture
def installed(cluster: Cluster, kubectl: Kubectl, namespace: str, executor_image: str) -> Iterator[str]:
    """Install the operator with webhooks, as its page says; return its namespace once the manager is ready."""
    objects = Installation(namespace, executor_image, webhooks=True, host_network=True).objects()
    kubectl("apply", "--server-side", "-f", "-", text=text(objects))

    def ready() -> bool | NotYet:
        found = cluster.get(DEPLOYMENT, NAME, namespace)
        return dig(found, "status", "readyReplicas") == 1 or NotYet(str(dig(found, "status")))

    until(ready, deadline=Deadline.after(WAIT_SECONDS), what="the manager to be ready", interval=1)
    yield namespace
    for kind in (MUTATING_WEBHOOK, VALIDATING_WEBHOOK):
        cluster.delete(kind, configuration_name(namespace))


def refused(cluster: Cluster, namespace: str) -> str | NotYet:
    """Return why an object with a mistake is not taken; not yet while nobody is asked about it."""
    body = copy.deepcopy(BAD["unknown version"][0])
    body["metadata"] |= {"name": "wrong", "namespace": namespace}
    try:
        cluster.create(CLUSTER_DEPLOYMENT, body, dry_run=True)
    except ApiFailure as failure:
        return failure.message
    return NotYet("it is taken")


def test_mistakes_are_refused_through_the_service_and_a_dead_manager_holds_no_deletion(
    cluster: Cluster, kubectl: Kubectl, installed: str
) -> None:
    (mistake,) = read(BAD["unknown version"][0], load_releases().kubernetes)[1]

    def said() -> bool | NotYet:
        why = refused(cluster, installed)
        return why if isinstance(why, NotYet) else mistake.text in why or NotYet(why)

    until(said, deadline=Deadline.after(WAIT_SECONDS), what="the mistake to be refused", interval=1)
    # machines that are left have nothing to be undone, so there is no finalizer
    guest = deployment(name="guest", namespace=installed, deletion={"machines": "Leave"})
    made = cluster.create(CLUSTER_DEPLOYMENT, guest)
    assert made["metadata"]["annotations"]["cluster.vmatrix.dev/requested-by"], "the defaulting webhook was asked"

    kubectl("scale", f"deployment/{NAME}", "--replicas=0", "-n", installed)

    def dead() -> bool | NotYet:
        pods = cluster.list(POD, installed, labels=SELECTOR).items
        why = NotYet(f"{len(pods)} pods") if pods else refused(cluster, installed)
        return why if isinstance(why, NotYet) else "failed calling webhook" in why or NotYet(why)

    until(dead, deadline=Deadline.after(WAIT_SECONDS), what="the manager to be gone", interval=1)
    cluster.delete(NAMESPACE, installed)

    def gone() -> bool | NotYet:
        found = cluster.get(NAMESPACE, installed)
        return found is None or NotYet(str(condition(found, "NamespaceContentRemaining")))

    until(gone, deadline=Deadline.after(WAIT_SECONDS), what="the namespace to be gone", interval=1)
