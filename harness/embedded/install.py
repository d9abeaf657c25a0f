"""Install the embedded KubeVirt and CDI into a cluster: definitions, roles, operands, webhooks. Idempotent.

What is already there as wanted is only read, so that a second installation costs one request an object.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from harness.embedded import operands
from harness.embedded.admission import configurations
from harness.embedded.crds import crds
from harness.events import now
from harness.kube.client import Cluster, Json, own_name
from harness.kube.objects import dig, ensure
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
from harness.until import Deadline, NotYet, until

CLUSTER_ROLE = Resource(operands.RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDING = Resource(operands.RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ESTABLISHED_SECONDS = 30.0  # the API server needs milliseconds; times the factor
STATUS_APART = (KUBEVIRT, STORAGE_PROFILE)  # their status is a subresource
OF_DEFINITIONS = (KUBEVIRT, STORAGE_PROFILE, CDI, CDI_CONFIG)
WORKERS = 12


def install(cluster: Cluster, *, ca_bundle: bytes, webhook_url: str, stretch: float = 1.0) -> None:
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

        def ensure_all(wanted: dict[Resource, list[Json]]) -> None:
            for done in [pool.submit(_ensure, cluster, r, body) for r, bodies in wanted.items() for body in bodies]:
                done.result()

        definitions = crds()
        ensure_all(
            {
                CRD: definitions,
                NAMESPACE: operands.namespaces(),
                CLUSTER_ROLE: operands.cluster_roles(),
                CLUSTER_ROLE_BINDING: operands.bindings(),
                STORAGE_CLASS: [operands.storage_class()],
            }
        )
        names = [body["metadata"]["name"] for body in definitions]
        for done in [pool.submit(_wait_until_established, cluster, name, stretch) for name in names]:
            done.result()
        webhooks = configurations(url=webhook_url, ca_bundle=ca_bundle, trusted=own_name(cluster))
        ensure_all(
            {
                KUBEVIRT: [operands.kubevirt(when)],
                STORAGE_PROFILE: [operands.storage_profile(operands.STORAGE_CLASS)],
                CDI: [operands.cdi(when)],
                CDI_CONFIG: [operands.cdi_config()],
                **{of: [w for w in webhooks if w["kind"] == of.kind] for of in (MUTATING_WEBHOOK, VALIDATING_WEBHOOK)},
            }
        )


def _ensure(cluster: Cluster, resource: Resource, body: Json) -> None:
    """Make an object hold what is wanted of it.

    Objects of the definitions above are applied: an API server takes 2 s for each that is created while its definition
    has been established for less than 2 s (k8s.io/apiextensions-apiserver, pkg/apiserver/customresource_handler.go).
    """
    create = cluster.apply if resource in OF_DEFINITIONS else None
    ensure(cluster, resource, body, status_subresource=resource in STATUS_APART, create=create)


def _wait_until_established(cluster: Cluster, name: str, stretch: float) -> None:
    def established() -> bool | NotYet:
        conditions = {c["type"]: c["status"] for c in dig(cluster.get(CRD, name), "status", "conditions") or []}
        return conditions.get("Established") == "True" or NotYet(f"conditions are {conditions}")

    what = f"definition {name} to be established"
    until(established, deadline=Deadline.after(ESTABLISHED_SECONDS * stretch), what=what, interval=0.05)
