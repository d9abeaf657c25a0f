"""Install the embedded KubeVirt and CDI into a cluster: definitions, roles, operands, webhooks. Idempotent.

What is already there as wanted is only read, so that a second installation costs one request an object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from harness.embedded import operands, roles
from harness.embedded.access import own_name
from harness.embedded.admission import configurations
from harness.embedded.crds import crds
from harness.kube.client import ApiFailure, Cluster, Json
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
ESTABLISHED_SECONDS = 30.0
WORKERS = 12
# Times that are written once and stay: they do not make an object differ.
TIMES = frozenset({"lastTransitionTime", "lastHeartbeatTime", "lastProbeTime"})


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


def ensure(cluster: Cluster, resource: Resource, body: Json, *, status_subresource: bool = False) -> None:
    """Make an object hold everything that `body` holds; write only where it does not.

    Args:
        status_subresource: the kind's status is written apart from the object.
    """
    meta = body["metadata"]
    found = cluster.get(resource, meta["name"], meta.get("namespace"))
    if found is not None and holds(found, body):
        return
    if found is None:
        try:
            found = cluster.create(resource, body)
        except ApiFailure as failure:
            if not failure.conflict:
                raise
    # A merge patch replaces lists whole: what was there before does not stay behind in them.
    if found is None or not holds(_without(found, "status"), _without(body, "status")):
        found = cluster.merge(resource, meta["name"], _without(body, "status"), meta.get("namespace"))
    if "status" in body and not holds(found, body):
        patch = {"status": body["status"]}
        subresource = "status" if status_subresource else None
        cluster.merge(resource, meta["name"], patch, meta.get("namespace"), subresource=subresource)


def _without(body: Json, field: str) -> Json:
    return {name: value for name, value in body.items() if name != field}


def holds(found: Any, wanted: Any) -> bool:
    """Tell whether an object holds everything that is wanted of it; fields beyond that are the API's own."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            name in TIMES or value is None or (name in found and holds(found[name], value))
            for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(holds, found, wanted))
    return bool(found == wanted)
