"""Install the embedded KubeVirt and CDI into a cluster: definitions, roles, operands, webhooks. Idempotent.

What is already there as wanted is only read, so that a second installation costs one request an object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from harness.embedded import operands, roles
from harness.embedded.access import own_name
from harness.embedded.admission import configurations
from harness.embedded.crds import crds
from harness.embedded.ensure import ensure
from harness.kube.client import Cluster, Json
from harness.kube.resources import (
    CDI,
    CDI_CONFIG,
    CRD,
    KUBEVIRT,
    MUTATING_WEBHOOK,
    NAMESPACE,
    STORAGE_CLASS,
    STORAGE_PROFILE,
    VALIDATING_WEBHOOK,
    Resource,
)
from harness.record import now
from harness.until import Deadline, NotYet, until

CLUSTER_ROLE = Resource(roles.RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDING = Resource(roles.RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ESTABLISHED_SECONDS = 30.0  # the API server needs milliseconds; this process reads no timeouts.yml
WORKERS = 12


def install(cluster: Cluster, *, ca_bundle: bytes, webhook_url: str) -> None:
    """Bring the cluster to where KubeVirt and CDI are deployed.

    Args:
        cluster: acts as the user that the controllers run as; the webhooks trust it.
        ca_bundle: PEM certificates that sign the webhook server's.
        webhook_url: where the webhooks are served, https://HOST:PORT. Let the server answer before this is called.

    Raises:
        ApiFailure: the API refused something.  TimedOut: a definition was not established in time.
    """
    when = now().partition(".")[0] + "Z"
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="install") as pool:

        def together(work: Iterable[Callable[[], None]]) -> None:
            for done in [pool.submit(piece) for piece in work]:
                done.result()

        definitions = crds()
        together(
            [
                *(_ensuring(cluster, CRD, body) for body in definitions),
                *(_ensuring(cluster, NAMESPACE, body) for body in operands.namespaces()),
                *(_ensuring(cluster, CLUSTER_ROLE, body) for body in roles.cluster_roles()),
                *(_ensuring(cluster, CLUSTER_ROLE_BINDING, body) for body in roles.bindings()),
                _ensuring(cluster, STORAGE_CLASS, operands.storage_class()),
            ]
        )
        together([_establishing(cluster, body["metadata"]["name"]) for body in definitions])
        trusted = own_name(cluster)
        webhooks = configurations(url=webhook_url, ca_bundle=ca_bundle, trusted=trusted)
        together(
            [
                _ensuring(cluster, KUBEVIRT, operands.kubevirt(when), status_subresource=True),
                _ensuring(
                    cluster, STORAGE_PROFILE, operands.storage_profile(operands.STORAGE_CLASS), status_subresource=True
                ),
                _ensuring(cluster, CDI, operands.cdi(when)),
                _ensuring(cluster, CDI_CONFIG, operands.cdi_config()),
                *(_ensuring(cluster, _webhook_resource(body), body) for body in webhooks),
            ]
        )


def _webhook_resource(body: Json) -> Resource:
    return MUTATING_WEBHOOK if body["kind"] == MUTATING_WEBHOOK.kind else VALIDATING_WEBHOOK


def _establishing(cluster: Cluster, name: str) -> Callable[[], None]:
    def established() -> bool | NotYet:
        found = cluster.get(CRD, name) or {}
        conditions = {c["type"]: c["status"] for c in (found.get("status") or {}).get("conditions") or []}
        return conditions.get("Established") == "True" or NotYet(f"conditions are {conditions}")

    def wait() -> None:
        until(
            established,
            deadline=Deadline.after(ESTABLISHED_SECONDS),
            what=f"definition {name} to be established",
            interval=0.05,
        )

    return wait


def _ensuring(
    cluster: Cluster, resource: Resource, body: Json, *, status_subresource: bool = False
) -> Callable[[], None]:
    return lambda: ensure(cluster, resource, body, status_subresource=status_subresource)
